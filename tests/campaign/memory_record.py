"""A record that keeps everything in memory, by folder: the second one that passes the contract."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from falsifier.campaign.plan import Job
from falsifier.campaign.record import Decision, Progress
from falsifier.errors import InputError
from falsifier.verdict import Verdict

Hashes = tuple[str, str]


@dataclass
class Memory:
    """What outlives a session: for each job, by the contents of its files, how its last attempt ended."""

    answers: dict[tuple[str, str, str, int], dict[Hashes, Decision]] = field(default_factory=dict)
    taken: bool = False


class MemoryRecord:
    """`memory` stands for a disk."""

    def __init__(
        self, memory: Memory, folder: Path, jobs: Sequence[Job], again: Collection[Verdict] = (Verdict.ERROR,)
    ) -> None:
        if memory.taken:
            raise InputError(f"{folder}: is in use")
        self._memory, memory.taken = memory, True
        self.waiting: list[Job] = []
        self.verdicts: Counter[Verdict] = Counter()
        for job in jobs:
            decision = memory.answers.get(job.key, {}).get((job.network_hash, job.query_hash))
            if decision is None or decision.verdict in again:
                self.waiting.append(job)
            else:
                self.verdicts[decision.verdict] += 1
        self.samples = 0

    def begin(self, jobs: Sequence[Job], worker: str = "") -> None:
        pass

    def decide(self, job: Job, decision: Decision) -> None:
        self._memory.answers.setdefault(job.key, {})[job.network_hash, job.query_hash] = decision

    def improve(self, job: Job, decision: Decision) -> None:
        first = self._memory.answers[job.key][job.network_hash, job.query_hash]
        better = replace(decision, prepare=first.prepare, seconds=first.seconds)
        self._memory.answers[job.key][job.network_hash, job.query_hash] = better

    def progress(self, progress: Progress) -> None:
        self.samples += 1

    def close(self) -> None:
        self.abandon()

    def abandon(self) -> None:
        self._memory.taken = False
