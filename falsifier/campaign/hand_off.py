"""What a campaign leaves open goes to a verifier, one instance after the other, each within its own time limit.

The searches come first, all of them, with the part of each limit that is theirs; a witness costs no verifier. Until an
open instance was handed over it has no row in the record.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from falsifier.campaign.plan import Job, QueryFile
from falsifier.campaign.record import Decision, Progress, Record
from falsifier.campaign.stack import Settings
from falsifier.errors import FalsifierError
from falsifier.handoff.adapter import Adapter
from falsifier.handoff.children import end_all
from falsifier.handoff.hand_over import hand_over, is_open
from falsifier.instance import Instance
from falsifier.query.tree import Query
from falsifier.query.write import write
from falsifier.result import Result
from falsifier.verdict import StopReason, Verdict
from falsifier.witness.text import write_witness


class HandOff:
    """A record between a campaign and its own: open answers are held back here, all others go on at once.

    held: instances that the search left open, and how.
    """

    def __init__(
        self,
        adapter: Adapter,
        searching: Callable[[float], float],
        record: Record,
        settings: Settings,
        warn: Callable[[str], None] = lambda _: None,
        tell: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        """searching: how much of a time limit the search has; warn: given a line about everything that goes wrong;
        tell: given the progress, as of `Driver`.
        """
        self._adapter, self._record, self._settings, self._warn, self._tell = adapter, record, settings, warn, tell
        self._whole = {job.key: job for job in record.waiting}
        self.waiting = [replace(job, limit=searching(job.limit)) for job in record.waiting]
        self._left = sum(self._whole[job.key].limit - job.limit for job in self.waiting)  # seconds of the verifier
        self._last: Progress | None = None
        self.held: list[tuple[Job, Decision]] = []

    def told(self, progress: Progress) -> None:
        """Pass the progress of the search on."""
        self._last = progress
        self._tell(self._of_all(progress))

    def _of_all(self, progress: Progress) -> Progress:
        """What is held back is not decided."""
        held = Counter(decision.verdict for _, decision in self.held)
        return replace(progress, verdicts=progress.verdicts - held, left=progress.left + self._left)

    # --- the record ---

    @property
    def verdicts(self) -> Mapping[Verdict, int]:
        return self._record.verdicts

    def begin(self, jobs: Sequence[Job], worker: str = "") -> None:
        self._record.begin([self._whole[job.key] for job in jobs], worker)

    def decide(self, job: Job, decision: Decision) -> None:
        whole = self._whole[job.key]
        self._left -= whole.limit - job.limit
        left = _left(whole, decision)
        if decision.verdict in (Verdict.UNKNOWN, Verdict.TIMEOUT) and left > 0:
            self._left += left
            self.held.append((whole, decision))
        else:
            self._record.decide(whole, decision)

    def improve(self, job: Job, decision: Decision) -> None:
        self._record.improve(self._whole[job.key], decision)

    def progress(self, progress: Progress) -> None:
        self._record.progress(self._of_all(progress))

    def close(self) -> None:
        self._record.close()

    def abandon(self) -> None:
        self._record.abandon()

    # --- the hand-off ---

    def finish(self, verdicts: Mapping[Verdict, int]) -> Counter[Verdict]:
        """Hand over what is held, and record it. verdicts: of the search; returns those after it."""
        now = Counter(verdicts) - Counter(decision.verdict for _, decision in self.held)
        if self.held:
            words = "instance goes" if len(self.held) == 1 else "instances go"
            self._warn(f"{len(self.held)} open {words} to {self._adapter.name}")
        while self.held:
            job, decision = self.held[0]
            made = self._handed(job, decision)
            self._left -= _left(job, decision)
            self._record.decide(job, made)
            self.held.pop(0)
            now[made.verdict] += 1
            if self._last is not None:
                progress = replace(self._last, verdicts=Counter(now), open=1, lanes=1, left=self._left, coverage=None)
                self._record.progress(progress)
                self._tell(progress)
        return now

    def stop(self) -> None:
        """End what a verifier runs, at once: for a process that is about to end itself."""
        end_all()

    def _handed(self, job: Job, decision: Decision) -> Decision:
        """The decision after the hand-off: that of the search, unless the verifier decided."""
        assert job.question is not None
        start = time.monotonic()
        deadline = start + _left(job, decision)
        try:
            with tempfile.TemporaryDirectory(prefix="falsifier-") as folder:
                query = job.question.query()
                instance = Instance(job.networks, _file(job, query, Path(folder)), job.limit)
                result = hand_over(
                    _as_result(decision, query, self._settings.rng_seed),
                    instance,
                    self._adapter,
                    deadline,
                    tell=lambda line: self._warn(f"{job.onnx}, {job.vnnlib}: {line}"),
                    device=self._settings.device,
                    require=self._settings.require,
                )
        except (FalsifierError, OSError) as error:  # its file is gone, or has become another
            self._warn(f"{job.onnx}, {job.vnnlib}: was not handed over: {error}")
            return decision
        made = replace(
            decision,
            verdict=result.verdict,
            reason=result.reason_text,
            seconds=decision.seconds + time.monotonic() - start,
            witness=None if result.witness is None else write_witness(query, result.witness),
            class_=result.class_,
        )
        return made if is_open(result) else replace(made, margins=(), disjuncts=())


def _left(job: Job, decision: Decision) -> float:
    """Seconds of a limit that the search did not use."""
    return job.limit - decision.prepare - decision.seconds


def _as_result(decision: Decision, query: Query, rng_seed: int) -> Result:
    """What the search left, as a hand-off wants it. All disjuncts count as open: a record keeps the nearest alone, and
    a verifier that was told of those would leave the others out.
    """
    reason = StopReason.DEADLINE if decision.verdict is Verdict.TIMEOUT else None
    evaluations = decision.evaluations
    return Result(decision.verdict, reason, decision.reason, query=query, evaluations=evaluations, rng_seed=rng_seed)


def _file(job: Job, query: Query, folder: Path) -> Path:
    """The query as a file, made where the question comes from none."""
    if isinstance(job.question, QueryFile):
        return job.question.path
    path = folder / f"{job.stem}.vnnlib"
    path.write_text(write(query))
    return path
