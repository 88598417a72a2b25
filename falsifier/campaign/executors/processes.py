"""Worker processes on this machine, which share its cores, memory and GPUs.

They are programs of their own, not forks and not `multiprocessing`'s: a fork takes locks along that threads hold, and
`spawn` runs the caller's main module again, feeds messages from a thread, which loses the last of them in a crash, and
leaves a process behind that keeps count. One connection each carries everything, written by the worker's main thread:
what it told before it died is there to be read.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import count
from multiprocessing.connection import wait

from falsifier.campaign.executors import Sink
from falsifier.campaign.executors.child import Child
from falsifier.campaign.executors.crew import GRACE, Crew
from falsifier.campaign.executors.machine import cores_of, environment, memory_of, threads_of
from falsifier.campaign.executors.messages import Setup
from falsifier.campaign.stack import Settings
from falsifier.campaign.units import Unit
from falsifier.errors import EngineError


class Processes:
    """So many workers. memory: bytes that each may hold (default: its share); grace: see `Crew`."""

    def __init__(self, workers: int, memory: int | None = None, grace: float | None = None) -> None:
        self.width, self._grace = workers, GRACE if grace is None else grace
        self._memory = memory if memory is not None else memory_of(workers)
        self._crew: Crew[Child] | None = None

    def prepare(self, settings: Settings) -> None:
        settings.demand()

    def run(self, units: Sequence[Unit], settings: Settings, sink: Sink) -> None:
        hiring = _Hiring(self.width, self._memory, settings)
        self._crew = Crew(hiring, self.width, sink, self._grace)
        self._crew.run(units)

    def abandon(self) -> None:
        if self._crew is not None:
            self._crew.abandon()


class _Hiring:
    """Starts workers, each in a seat: its share of the machine."""

    def __init__(self, seats: int, memory: int | None, settings: Settings) -> None:
        self._seats, self._memory, self._settings = seats, memory, settings
        self._seated: dict[int, Child] = {}
        self._numbers = count(1)

    def hire(self) -> Child:
        taken = {seat for seat, child in self._seated.items() if child.alive}
        seat = next(seat for seat in count() if seat not in taken)
        threads = threads_of(seat, self._seats)
        device = self._settings.device
        setup = Setup(self._settings, cores_of(seat, self._seats), os.getcwd(), threads)
        try:
            child = Child(f"worker {next(self._numbers)}", setup, environment(seat, threads, device), self._memory)
        except OSError as error:
            raise EngineError(f"a worker cannot be started: {error.strerror or error}") from error
        self._seated[seat] = child
        return child

    def wait(self, workers: Sequence[Child], seconds: float) -> None:
        wait([child.connection for child in workers], seconds)
