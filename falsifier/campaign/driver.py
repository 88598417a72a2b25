"""The driver of a campaign: hands units to an executor, and keeps what comes of them. It alone writes the record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from falsifier.campaign.executors import Executor, Standing
from falsifier.campaign.plan import Job
from falsifier.campaign.record import Decision, Progress, Record
from falsifier.campaign.stack import Settings
from falsifier.campaign.units import units_of
from falsifier.verdict import Verdict


class Driver:
    """One run over the jobs that wait: the sink of its executor."""

    def __init__(
        self,
        jobs: Sequence[Job],
        record: Record,
        settings: Settings,
        executor: Executor,
        tell: Callable[[Progress], None] = lambda _: None,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        """tell: given the progress as it is made; warn: given a line about every instance that is an error."""
        self.jobs, self._record, self._settings, self._executor = jobs, record, settings, executor
        self._tell, self.warn = tell, warn
        self.verdicts: Counter[Verdict] = Counter(record.verdicts)  # with those of earlier sessions
        self.total = len(jobs) + self.verdicts.total()
        self._waiting = sum(job.limit for job in jobs)  # limits of what is not decided
        self._evaluations = 0  # of units that ended
        self._standings: dict[str, Standing] = {}

    def run(self) -> Counter[Verdict]:
        """Decide every job."""
        for job in self.jobs:
            if job.fault:
                self.decide(job, Decision(Verdict.ERROR, job.fault), "")
                self.warn(job.fault)
        self._executor.run(units_of(self.jobs, self._executor.width), self._settings, self)
        return self.verdicts

    # --- what the executor tells ---

    def begin(self, jobs: Sequence[Job], worker: str) -> None:
        self._record.begin(jobs, worker)

    def decide(self, job: Job, decision: Decision, worker: str) -> None:
        self._record.decide(job, replace(decision, worker=worker))
        self.verdicts[decision.verdict] += 1
        self._waiting -= job.limit
        self._report()

    def improve(self, job: Job, decision: Decision, worker: str) -> None:
        self._record.improve(job, replace(decision, worker=worker))

    def stand(self, worker: str, standing: Standing) -> None:
        self._standings[worker] = standing
        self._report()

    def end(self, worker: str) -> None:
        standing = self._standings.pop(worker, None)
        self._evaluations += 0 if standing is None else standing.evaluations

    def _report(self) -> None:
        standings = self._standings.values()
        seen = [s.coverage for s in standings if s.coverage is not None]
        progress = Progress(
            total=self.total,
            verdicts=self.verdicts,
            open=sum(s.open for s in standings),
            lanes=sum(s.lanes for s in standings),
            evaluations=self._evaluations + sum(s.evaluations for s in standings),
            left=max(0.0, self._waiting - sum(s.spent for s in standings)) / self._executor.width,
            coverage=sum(seen) / len(seen) if seen else None,
        )
        self._record.progress(progress)
        self._tell(progress)
