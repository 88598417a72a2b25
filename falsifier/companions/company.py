"""The company of a search: its companions, as many as there are cores, memory and time for.

The search looks at them between batches (`look`), which costs one system call a time as a rule; companions are started
one a look, so that a machine with many cores does not hold up the main search by starting all at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from falsifier import machine
from falsifier.companions.companion import Companion
from falsifier.companions.telling import Kind, Task

if TYPE_CHECKING:
    from falsifier.search.run import Run

_EVERY = 0.02  # seconds between two looks
_BETWEEN = 0.05  # and between two starts
_UNHEARD = 8  # companions that may be on their way, or have never told anything
_MEMORY = 1.0  # and between two looks at the memory left
_SHOWN = 2  # points that one may show: what it holds, and what it found


class Company:
    """Companions of one search (`falsifier.search.company.Company`)."""

    def __init__(self, task: Callable[[int], Task], count: int, why: str) -> None:
        """count: how many to start at most. why: what kept them from being more, for people."""
        self._task, self._wanted, self._why = task, count, why
        self._companions: list[Companion] = []
        self._found: int | None = None
        self._looked = self._started = self._weighed = -np.inf
        self._ended = False

    def look(self, run: Run) -> None:
        """Hear what they tell, ask the door about points, start one more where some are missing."""
        now = time.monotonic()
        if now < self._looked + _EVERY or self._ended:
            return
        self._looked = now
        for companion in self._companions:
            for told in companion.hear():
                if told.kind is not Kind.STANDS and run.width and companion.shown < _SHOWN:
                    self._ask(run, companion, told.target, told.stage, told.point)
        if now >= self._weighed + _MEMORY:
            self._weighed = now
            self._weigh()
        unheard = sum(not companion.heard for companion in self._companions)
        missing = len(self._companions) < self._wanted and unheard < _UNHEARD
        if run.width and missing and now >= self._started + _BETWEEN:
            self._started = now
            self._start(run)

    def _ask(self, run: Run, companion: Companion, target: int, stage: str, point: Any) -> None:
        """Ask the door of this process. A companion whose point it refuses is heard a second time at most."""
        companion.shown += 1
        own, run.stage = run.stage, stage
        confirmed = run.ask(target, np.asarray(point, dtype=run.problems.single.dtype))
        run.stage = own
        if confirmed:
            self._found = companion.number
        elif companion.shown >= _SHOWN:
            companion.drop()

    def _start(self, run: Run) -> None:
        problem = run.problems.single
        number = len(self._companions) + 1
        try:
            self._companions.append(Companion(number, self._task(number), problem.spec.n, problem.t))
        except OSError as error:  # no more processes, descriptors or memory
            self._wanted, self._why = len(self._companions), error.strerror or "a process cannot be started"

    def _weigh(self) -> None:
        """Where memory gets short, end the last one and start no more."""
        left = machine.memory_left()
        if left is None or left > machine.peak():
            return
        self._wanted, self._why = len(self._companions), "memory is short"
        living = [companion for companion in self._companions if not companion.over]
        if living:
            living[-1].drop()

    def end(self) -> None:
        """End them all, at once; who takes their status is another thread. To be called more than once, from any."""
        self._ended = True
        for companion in self._companions:
            companion.kill()

    def close(self) -> None:
        """`end`, and take their status when they are gone, without waiting for it."""
        self.end()
        if self._companions:
            burial = threading.Thread(target=_bury, args=(self._companions,), name="burial", daemon=True)
            with suppress(RuntimeError):  # no more threads: their status waits for the end of this process
                burial.start()

    def account(self) -> dict[str, Any]:
        """What there was of companions, as JSON types."""
        return {
            "started": len(self._companions),
            "lost": sum(companion.lost for companion in self._companions),
            "evaluations": sum(companion.evaluations for companion in self._companions),
            "found": self._found,
            "reason": self._why,
        }


def _bury(companions: list[Companion]) -> None:
    for companion in companions:
        companion.bury()
