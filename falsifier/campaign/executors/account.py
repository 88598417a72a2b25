"""What a campaign over some units takes for its record: it passes on what is told, and keeps nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from falsifier.campaign.executors import Standing
from falsifier.campaign.plan import Job
from falsifier.campaign.record import Decision, Progress
from falsifier.verdict import Verdict


class Account:
    """A record for one `Campaign`. Deriving classes say where answers, standings and beginnings go."""

    verdicts: ClassVar[Mapping[Verdict, int]] = {}

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.waiting = jobs
        self._left = sum(job.limit for job in jobs)  # limits of what is not decided

    def begin(self, jobs: Sequence[Job], worker: str = "") -> None: ...

    def decided(self, job: Job, decision: Decision) -> None:
        """An answer."""
        raise NotImplementedError

    def improve(self, job: Job, decision: Decision) -> None: ...

    def stand(self, standing: Standing) -> None: ...

    def decide(self, job: Job, decision: Decision) -> None:
        self._left -= job.limit
        self.decided(job, decision)

    def progress(self, progress: Progress) -> None:
        spent = self._left - progress.left
        self.stand(Standing(progress.open, progress.lanes, progress.evaluations, progress.coverage, spent))

    def close(self) -> None: ...

    def abandon(self) -> None: ...
