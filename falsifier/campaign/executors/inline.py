"""All units in this process, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from falsifier.campaign.executors import Sink, Standing
from falsifier.campaign.plan import Job
from falsifier.campaign.record import Decision
from falsifier.campaign.run import Campaign
from falsifier.campaign.stack import Settings
from falsifier.campaign.units import Unit
from falsifier.network import Network


@dataclass(frozen=True)
class Inline:
    """loaded: networks that were loaded already."""

    loaded: Mapping[Path, Network] | None = None
    clock: Callable[[], float] = time.monotonic
    width: int = 1

    def prepare(self, settings: Settings) -> None:
        settings.demand()

    def run(self, units: Sequence[Unit], settings: Settings, sink: Sink) -> None:
        jobs = [job for unit in units for job in unit.jobs]
        Campaign(jobs, _Passed(sink), settings, self.clock, self.loaded).run()
        sink.end("")

    def abandon(self) -> None:
        """Nothing runs beside this process."""


class _Passed:
    """What is told goes to a sink as it is."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def begin(self, jobs: Sequence[Job]) -> None:
        self._sink.begin(jobs, "")

    def decide(self, job: Job, decision: Decision) -> None:
        self._sink.decide(job, decision, "")

    def improve(self, job: Job, decision: Decision) -> None:
        self._sink.improve(job, decision, "")

    def stand(self, standing: Standing) -> None:
        self._sink.stand("", standing)

    def at(self, phase: str, jobs: Sequence[Job]) -> None:
        """It matters where a process may die of it and another goes on."""

    def warn(self, text: str) -> None:
        self._sink.warn(text)
