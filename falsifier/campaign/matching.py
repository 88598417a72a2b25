"""A plan laid beside what a record knows: which jobs have their answer, and which are to be run."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from falsifier.campaign.plan import Job, QueryFile, in_text
from falsifier.counted import counted
from falsifier.verdict import Verdict

_AGAIN = frozenset({Verdict.ERROR})  # what is run again without being asked for


@dataclass(frozen=True)
class Entry:
    """An instance in the record: its number there, and the stem of its witness file."""

    number: int
    stem: str


class Matching:
    """What became of a plan's jobs in a record; instances that it did not have are added to it.

    known: by key, also those that the plan has no more; waiting: jobs to run; again: the numbers of theirs; verdicts:
    of the other jobs; changed, new, gone: how many jobs have other files than in their last attempt, are new to the
    record, and are in the record alone; stale: witness files of jobs that wait.
    """

    def __init__(self, database: sqlite3.Connection, jobs: Sequence[Job], retry: Collection[Verdict] = ()) -> None:
        """Part of a transaction of the caller's."""
        self.known: dict[tuple[str, str, str, int], Entry] = {}
        hashes: dict[int, tuple[str, str]] = {}
        for number, stem, one, other, *key in database.execute(
            "select id, stem, network_hash, query_hash, category, onnx, vnnlib, repeat from instance"
        ):
            category, onnx, vnnlib, repeat = key
            self.known[category, onnx, vnnlib, repeat] = Entry(number, stem)
            hashes[number] = one, other
        before = len(self.known)
        self._stems = {(key[0], entry.stem) for key, entry in self.known.items()}
        self._database = database
        self.new = self.changed = 0
        last = max(hashes, default=0)
        for job in jobs:
            entry = self.known.get(job.key)
            if entry is None:
                self.new += 1
                number = job.number if job.number not in hashes and job.number else last + 1
                last = max(last, number)
                hashes[number] = job.network_hash, job.query_hash
                self.known[job.key] = Entry(number, self._free_stem(job))
                self._insert(number, job, self.known[job.key].stem)
            else:
                if not entry.stem:  # its row could not be used before
                    self.known[job.key] = entry = Entry(entry.number, self._free_stem(job))
                self.changed += hashes[entry.number] != (job.network_hash, job.query_hash)
                self._update(entry, job)
        self.gone = before + self.new - len(jobs)
        self._sort(jobs, _AGAIN | set(retry))

    def __str__(self) -> str:
        """In words, for the user."""
        kept, waiting = self.verdicts.total(), len(self.waiting)
        text = f"{kept} of {counted(kept + waiting, 'instance')} {'has its' if kept == 1 else 'have their'} answer"
        parts = {"new": self.new, "with files or options that have changed": self.changed}
        some = [f"{count} {what}" for what, count in parts.items() if count]
        text += f", {waiting} {'is' if waiting == 1 else 'are'} run{' (' + ', '.join(some) + ')' if some else ''}"
        return text + (
            f"; {self.gone} that the table has no more {'is' if self.gone == 1 else 'are'} kept" if self.gone else ""
        )

    def _sort(self, jobs: Sequence[Job], again: Collection[Verdict]) -> None:
        answer = {
            number: Verdict(verdict)
            for number, verdict in self._database.execute("select instance_id, verdict from answer")
        }
        self.verdicts: Counter[Verdict] = Counter()
        self.waiting: list[Job] = []
        self.again: set[int] = set()
        for job in jobs:
            number = self.known[job.key].number
            verdict = answer.get(number)
            if verdict is None or verdict in again:
                self.waiting.append(job)
                self.again.add(number)
            else:
                self.verdicts[verdict] += 1
        self.stale = [
            path
            for number, path in self._database.execute(
                "select distinct instance_id, path from witness join attempt on attempt.id = attempt_id"
            )
            if number in self.again
        ]

    def _free_stem(self, job: Job) -> str:
        """A stem that no other instance of the category has: those that are known keep theirs. Where a row could not be
        used there may be none yet.
        """
        number, stem = 1, job.stem
        while stem and (job.category, stem) in self._stems:
            number += 1
            stem = f"{job.stem}_{number}"
        self._stems.add((job.category, stem))
        return stem

    def _insert(self, number: int, job: Job, stem: str) -> None:
        self._database.execute(
            "insert into instance values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (number, *job.key, stem, *_contents(job)),
        )

    def _update(self, entry: Entry, job: Job) -> None:
        self._database.execute(
            "update instance set stem = ?, time_limit = ?, networks = ?, query_path = ?, sample = ?, network_hash = ?, "
            "query_hash = ?, fault = ? where id = ?",
            (entry.stem, *_contents(job), entry.number),
        )


def _contents(job: Job) -> tuple[float, str, str | None, int | None, str, str, str]:
    """Time limit, networks, query's path, sample, hashes and fault, as the record has them."""
    networks = json.dumps([{"name": n.name, "path": str(n.path.absolute())} for n in job.networks])
    question = job.question
    path = in_text(str(question.path.absolute())) if isinstance(question, QueryFile) else None
    sample = getattr(question, "index", None)
    return job.limit, networks, path, sample, job.network_hash, job.query_hash, job.fault
