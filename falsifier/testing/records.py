"""The contract of a campaign's record (the text of `falsifier.campaign.record`) as a suite of tests.

from falsifier.testing.records import RecordContract

class TestMine(RecordContract):
    def make(self, folder, jobs, resume=False, retry=()):
        return MyRecord(folder, jobs, ...)

    def witness(self, folder, job):
        ...
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from falsifier.campaign.plan import Job
from falsifier.campaign.record import Decision, Progress, Record
from falsifier.verdict import Verdict

JOBS = tuple(
    Job(
        "family",
        "net.onnx",
        f"q{i}.vnnlib",
        5.0 + i,
        stem=f"net_q{i}",
        network_hash="n",
        query_hash=f"q{i}",
        number=i + 1,
    )
    for i in range(6)
)
_SAT = Decision(Verdict.SAT, "holds", 0.5, 1.5, "((X_0 1.0)\n(Y_0 2.0))\n", "correct", 20, engine="onnxruntime")
_UNKNOWN = Decision(Verdict.UNKNOWN, "the cap", 0.0, 2.0, evaluations=10, margins=(-0.5,), disjuncts=(0,))
_TIMEOUT = Decision(Verdict.TIMEOUT, "the limit", 0.0, 2.0)
_ERROR = Decision(Verdict.ERROR, "broken")
_UNSAT = Decision(Verdict.UNSAT, "empty")


class RecordContract:
    """For a `Record`. `make` makes or opens the record of a folder; `witness` reads what a witness says, if any."""

    def make(self, folder: Path, jobs: Sequence[Job], resume: bool = False, retry: Collection[Verdict] = ()) -> Record:
        raise NotImplementedError

    def witness(self, folder: Path, job: Job) -> str | None:
        raise NotImplementedError

    def _again(self, folder: Path, jobs: Sequence[Job] = JOBS, retry: Collection[Verdict] = ()) -> Record:
        return self.make(folder, jobs, True, retry)

    def test_a_new_record_has_nothing_but_jobs(self, tmp_path: Path) -> None:
        record = self.make(tmp_path, JOBS)
        assert list(record.waiting) == list(JOBS)
        assert not Counter(record.verdicts).total()
        record.close()

    def test_what_was_decided_outlives_the_process_and_what_was_begun_is_lost(self, tmp_path: Path) -> None:
        record = self.make(tmp_path, JOBS)
        record.begin(JOBS[:4], "worker 1")
        record.decide(JOBS[1], _SAT)
        record.decide(JOBS[0], _UNKNOWN)
        record.decide(JOBS[4], _UNSAT)  # nobody began it
        record.abandon()
        again = self._again(tmp_path)
        assert list(again.waiting) == [JOBS[2], JOBS[3], JOBS[5]]
        assert Counter(again.verdicts) == {Verdict.SAT: 1, Verdict.UNKNOWN: 1, Verdict.UNSAT: 1}
        assert self.witness(tmp_path, JOBS[1]) == _SAT.witness
        assert self.witness(tmp_path, JOBS[0]) is None
        again.close()

    def test_sessions_add_up(self, tmp_path: Path) -> None:
        for i, job in enumerate(JOBS):
            record = self.make(tmp_path, JOBS) if i == 0 else self._again(tmp_path)
            assert list(record.waiting) == list(JOBS[i:])
            record.begin([job])
            record.decide(job, _SAT)
            record.close() if i % 2 else record.abandon()
        last = self._again(tmp_path)
        assert not last.waiting
        assert Counter(last.verdicts) == {Verdict.SAT: len(JOBS)}
        assert all(self.witness(tmp_path, job) == _SAT.witness for job in JOBS)
        last.close()

    def test_errors_wait_again_and_others_where_it_is_asked_for(self, tmp_path: Path) -> None:
        record = self.make(tmp_path, JOBS)
        for job, decision in zip(JOBS, (_ERROR, _SAT, _UNKNOWN, _TIMEOUT, _UNSAT), strict=False):
            record.decide(job, decision)
        record.close()
        for retry, waiting in (
            ((), (0, 5)),
            ((Verdict.TIMEOUT,), (0, 3, 5)),
            ((Verdict.TIMEOUT, Verdict.UNKNOWN), (0, 2, 3, 5)),
        ):
            record = self._again(tmp_path, retry=retry)
            assert list(record.waiting) == [JOBS[i] for i in waiting]
            record.abandon()

    def test_the_last_attempt_that_ended_counts(self, tmp_path: Path) -> None:
        record = self.make(tmp_path, JOBS)
        record.decide(JOBS[0], _ERROR)
        record.decide(JOBS[1], _TIMEOUT)
        record.close()
        record = self._again(tmp_path, retry=(Verdict.TIMEOUT,))
        record.begin(JOBS[:2])
        record.decide(JOBS[0], _SAT)
        record.abandon()  # the second attempt at the other one is lost: the first counts
        record = self._again(tmp_path)
        assert Counter(record.verdicts) == {Verdict.SAT: 1, Verdict.TIMEOUT: 1}
        record.close()

    def test_an_attempt_that_is_begun_again_has_one_answer(self, tmp_path: Path) -> None:
        record = self.make(tmp_path, JOBS)
        record.begin(JOBS[:2], "one")
        record.begin(JOBS[:1], "two")
        record.decide(JOBS[0], _SAT)
        record.close()
        again = self._again(tmp_path)
        assert Counter(again.verdicts) == {Verdict.SAT: 1}
        assert len(again.waiting) == len(JOBS) - 1
        again.close()

    def test_other_files_are_other_questions(self, tmp_path: Path) -> None:
        record = self.make(tmp_path, JOBS)
        for job in JOBS:
            record.decide(job, _SAT)
        record.close()
        other = [replace(JOBS[0], query_hash="new"), replace(JOBS[1], network_hash="new"), *JOBS[2:]]
        record = self._again(tmp_path, other)
        assert list(record.waiting) == other[:2]
        assert self.witness(tmp_path, other[0]) is None
        assert self.witness(tmp_path, JOBS[2]) == _SAT.witness
        record.decide(other[0], _UNKNOWN)
        record.close()
        record = self._again(tmp_path, other)
        assert list(record.waiting) == other[1:2]
        assert record.verdicts[Verdict.UNKNOWN] == 1
        record.close()

    def test_a_plan_may_grow_and_shrink(self, tmp_path: Path) -> None:
        record = self.make(tmp_path, JOBS[:4])
        for job in JOBS[:3]:
            record.decide(job, _SAT)
        record.close()
        twice = [replace(JOBS[5], stem=JOBS[2].stem), *JOBS[2:5]]  # would write over what another has written
        record = self._again(tmp_path, twice)
        assert list(record.waiting) == [twice[0], JOBS[3], JOBS[4]]
        record.decide(twice[0], replace(_SAT, witness="another\n"))
        record.close()
        record = self._again(tmp_path)
        assert list(record.waiting) == [JOBS[3], JOBS[4]]
        assert record.verdicts[Verdict.SAT] == 4
        assert [self.witness(tmp_path, JOBS[i]) for i in (0, 2, 5)] == [_SAT.witness, _SAT.witness, "another\n"]
        record.close()

    def test_jobs_that_read_the_same_are_told_apart(self, tmp_path: Path) -> None:
        jobs = [JOBS[0], replace(JOBS[0], repeat=1, stem="again", number=2)]
        record = self.make(tmp_path, jobs)
        record.decide(jobs[1], _SAT)
        record.close()
        again = self._again(tmp_path, jobs)
        assert list(again.waiting) == jobs[:1]
        again.close()

    def test_a_better_witness_takes_the_place_of_the_first(self, tmp_path: Path) -> None:
        record = self.make(tmp_path, JOBS)
        record.begin(JOBS[:1])
        record.decide(JOBS[0], _SAT)
        record.improve(JOBS[0], replace(_SAT, evaluations=30))  # the same: nothing to replace
        assert self.witness(tmp_path, JOBS[0]) == _SAT.witness
        record.improve(JOBS[0], replace(_SAT, witness="better\n", class_="exact"))
        record.abandon()
        again = self._again(tmp_path)
        assert self.witness(tmp_path, JOBS[0]) == "better\n"
        assert Counter(again.verdicts) == {Verdict.SAT: 1}
        again.close()

    def test_progress_changes_no_answer(self, tmp_path: Path) -> None:
        record = self.make(tmp_path, JOBS)
        record.decide(JOBS[0], _SAT)
        for _ in range(50):
            record.progress(Progress(6, Counter({Verdict.SAT: 1}), 5, 640, 1000, 9.5, 0.5))
        record.close()
        again = self._again(tmp_path)
        assert Counter(again.verdicts) == {Verdict.SAT: 1}
        again.close()
