"""Records keep the contract; the suite sees one that does not."""

from __future__ import annotations

import gzip
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest
from memory_record import Memory, MemoryRecord

from falsifier.campaign.plan import Job
from falsifier.campaign.record import Decision, Record
from falsifier.campaign.schema import readable
from falsifier.campaign.sqlite import SqliteRecord
from falsifier.testing.records import RecordContract
from falsifier.verdict import Verdict


class TestSqlite(RecordContract):
    def make(self, folder: Path, jobs: Sequence[Job], resume: bool = False, retry: Collection[Verdict] = ()) -> Record:
        return SqliteRecord(folder, jobs, resume=resume, retry=retry)

    def witness(self, folder: Path, job: Job) -> str | None:
        """From the database; its export says the same."""
        database = readable(folder)
        query = (
            "select w.path, w.text from witness w join answer on answer.id = attempt_id "
            "join instance i on i.id = instance_id where (category, onnx, vnnlib, repeat) = (?, ?, ?, ?)"
        )
        row = database.execute(query, job.key).fetchone()
        database.close()
        if row is None:
            assert not (folder / job.category / f"{job.stem}.counterexample.gz").exists()
            return None
        assert (folder / row[0]).read_bytes() == row[1]
        return gzip.decompress(row[1]).decode()


class TestMemory(RecordContract):
    @pytest.fixture(autouse=True)
    def _memory(self) -> None:
        self.memory = Memory()

    def make(self, folder: Path, jobs: Sequence[Job], resume: bool = False, retry: Collection[Verdict] = ()) -> Record:
        if not resume:
            self.memory = Memory()
        return MemoryRecord(self.memory, folder, jobs, {Verdict.ERROR, *retry})

    def witness(self, folder: Path, job: Job) -> str | None:
        decision = self.memory.answers.get(job.key, {}).get((job.network_hash, job.query_hash))
        return None if decision is None else decision.witness


class Forgetful(MemoryRecord):
    """Writes when it is closed: a death of the process loses what it had decided."""

    def __init__(self, memory: Memory, folder: Path, jobs: Sequence[Job], again: Collection[Verdict]) -> None:
        super().__init__(memory, folder, jobs, again)
        self._held: list[tuple[Job, Decision]] = []

    def decide(self, job: Job, decision: Decision) -> None:
        self._held.append((job, decision))

    def close(self) -> None:
        for job, decision in self._held:
            super().decide(job, decision)
        super().close()


class TestMemoryOfTheForgetful(TestMemory):
    """The suite refuses it."""

    __test__ = False

    def make(self, folder: Path, jobs: Sequence[Job], resume: bool = False, retry: Collection[Verdict] = ()) -> Record:
        return Forgetful(self.memory, folder, jobs, {Verdict.ERROR, *retry})


def test_the_suite_sees_a_record_that_loses_what_was_decided(tmp_path: Path) -> None:
    suite = TestMemoryOfTheForgetful()
    suite.memory = Memory()
    with pytest.raises(AssertionError):
        suite.test_what_was_decided_outlives_the_process_and_what_was_begun_is_lost(tmp_path)
