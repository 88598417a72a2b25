"""Who runs the jobs of a campaign: this process (`inline`), worker processes (`processes`), a Ray cluster (`ray`).

An executor runs units and tells a sink what comes of them, from one thread. Workers may die: what they decided stays,
and `crew` decides what becomes of the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from falsifier.campaign.plan import Job
from falsifier.campaign.record import Decision
from falsifier.campaign.stack import Settings
from falsifier.campaign.units import Unit


@dataclass(frozen=True)
class Standing:
    """Where one worker stands. open: instances of the search at work; lanes: of its last batch; evaluations: of its
    unit so far; coverage: of the search at work, where it measures one; spent: seconds that the clocks of the search at
    work show.
    """

    open: int = 0
    lanes: int = 0
    evaluations: int = 0
    coverage: float | None = None
    spent: float = 0.0


class Sink(Protocol):
    """Where an executor tells what happens. Every job is decided once; a worker is known by its name."""

    def begin(self, jobs: Sequence[Job], worker: str) -> None:
        """An attempt at these jobs starts."""
        ...

    def decide(self, job: Job, decision: Decision, worker: str) -> None:
        """An answer. Raises InputError where it cannot be kept: the executor lets that pass."""
        ...

    def improve(self, job: Job, decision: Decision, worker: str) -> None:
        """A better witness of a job that was decided sat."""
        ...

    def stand(self, worker: str, standing: Standing) -> None:
        """Where a worker stands."""
        ...

    def end(self, worker: str) -> None:
        """A worker has ended its unit, one way or another."""
        ...

    def warn(self, text: str) -> None:
        """A line for people."""
        ...


class Executor(Protocol):
    """What runs units."""

    @property
    def width(self) -> int:
        """How many units it runs at once: what the cut depends on."""
        ...

    def prepare(self, settings: Settings) -> None:
        """Get what it takes, before anything is written. Raises InputError for what cannot be had, ModuleNotFoundError
        without the extra that it needs.
        """
        ...

    def run(self, units: Sequence[Unit], settings: Settings, sink: Sink) -> None:
        """Decide every job of the units. Leaves nothing running, however it ends.

        `prepare` comes first. Raises what the sink raises, and FalsifierError where no worker can be had.
        """
        ...

    def abandon(self) -> None:
        """End all that runs, at once and from any thread: this process is about to end."""
        ...
