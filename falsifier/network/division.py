"""How a batch is divided among threads, each of which runs parts of a few lanes on its own.

A run that several threads share waits at every node for the last of them, and nodes that have one thread leave the
others idle; parts meet at the end alone, and the tensors of a few lanes stay in a core's cache (docs/decisions/026).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

_ENOUGH = 16  # lanes that are divided however many threads there are: parts of two beat as many threads inside a run

Part = TypeVar("Part")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Division:
    """threads: how many work for one batch; most: lanes of a part, 0 where batches stay whole, so that the threads
    work inside of a run; patience: how many lanes may run in batches too small for it before a session is made whose
    threads do so all the same."""

    threads: int = 1
    most: int = 0
    patience: int = 0

    @property
    def inside(self) -> int:
        """Threads inside of one run."""
        return 1 if self.most else self.threads

    def parts(self, lanes: int) -> list[slice]:
        """A batch as parts that differ by one lane at most, as many for each thread; whole where it is too small."""
        if not self.most or lanes < min(2 * self.threads, _ENOUGH):
            return [slice(0, lanes)]
        threads = min(self.threads, lanes // 2)
        count = threads * math.ceil(lanes / (threads * self.most))
        return [slice(lanes * i // count, lanes * (i + 1) // count) for i in range(count)]

    def each(self, parts: Sequence[Part], body: Callable[[Part], Result]) -> list[Result]:
        """`body` of every part, in their order; a thread that has done one takes the next. Raises what one raises, once
        none runs any more."""
        results: dict[int, Result] = {}
        left = deque(range(len(parts)))

        def work() -> None:
            while left:
                try:
                    at = left.popleft()
                except IndexError:  # another took the last one
                    return
                try:
                    results[at] = body(parts[at])
                except BaseException:
                    left.clear()
                    raise

        others: list[Future[Any]] = []
        with suppress(RuntimeError):  # no more threads: those that are there do it
            for _ in range(min(self.threads, len(parts)) - 1):
                others.append(_pool(self.threads - 1).submit(work))
        try:
            work()
        finally:
            errors = [other.exception() for other in others]  # waits
        for error in filter(None, errors):
            raise error
        # one that was not waited for, since the system refused a further thread after it had taken its work
        return [results[at] if at in results else body(parts[at]) for at in range(len(parts))]


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads that wait for parts; made at the first one."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(threads, "lanes")
