"""Portfolios that end the process of a worker in ways that no exception does, on instances whose inputs exceed 99.

They are what a user's own portfolio would be: `faults:segfault` is looked for in the working folder.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterator

import numpy as np

from falsifier.search.portfolio import standard
from falsifier.search.run import Run
from falsifier.search.stage import Stage
from falsifier.search.stages.probe import Probe


class Fault:
    """Does something once to a search with such an instance in it."""

    name, slice, growth = "fault", 1.0, 1.0

    def __init__(self, do: Callable[[], object]) -> None:
        self._do = do

    def applies(self, run: Run) -> bool:
        targets = run.problems.single.spec.targets
        return targets is not None and float(np.max(np.asarray(targets.upper))) > 99

    def turn(self, run: Run) -> None:
        self._do()


def _portfolio(do: Callable[[], object]) -> Iterator[Stage]:
    yield Probe()
    yield Fault(do)
    yield from standard()


def segfault() -> Iterator[Stage]:
    return _portfolio(lambda: ctypes.string_at(0))


def killed() -> Iterator[Stage]:
    """As the kernel does where memory runs out."""
    return _portfolio(lambda: os.kill(os.getpid(), signal.SIGKILL))


def leak() -> Iterator[Stage]:
    """Takes memory in small pieces, without end."""

    def take() -> None:
        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p
        while address := libc.malloc(ctypes.c_size_t(1 << 22)):
            ctypes.memset(address, 1, 1 << 22)
        ctypes.memset(0, 1, 1)  # as a library does that does not look at what it gets

    return _portfolio(take)


def hang() -> Iterator[Stage]:
    """Sleeps in C and holds the interpreter's lock."""
    return _portfolio(lambda: ctypes.PyDLL(None).sleep(1000))
