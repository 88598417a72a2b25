"""The record as a SQLite database in a folder, with its exports beside it: `SqliteRecord`.

A decision is one transaction; the exports follow it, so that they never say what the database does not know. What a
kill left out of them is made up when the record is opened again.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from falsifier.campaign import answers
from falsifier.campaign.exports import RESULTS, Exports, Row, witness_path
from falsifier.campaign.lock import FolderLock
from falsifier.campaign.matching import Entry, Matching
from falsifier.campaign.plan import Job, in_text
from falsifier.campaign.record import Decision, Progress
from falsifier.campaign.schema import DATABASE, TABLES, VERSION, demand_sound, is_blank, told, writable
from falsifier.campaign.session import LATEST, Session, demand_same, now
from falsifier.errors import InputError
from falsifier.verdict import Verdict

_LOST = "lost: its process ended, or it was begun again"
_SAMPLE = 1.0  # seconds from one sample of the progress to the next


class SqliteRecord:
    """A record (`falsifier.campaign.record` states the contract) in a folder that no other process writes to.

    notes: lines for the user about what was found there.
    """

    def __init__(
        self,
        folder: Path,
        jobs: Sequence[Job],
        session: Session | None = None,
        *,
        resume: bool = False,
        retry: Collection[Verdict] = (),
        clock: Callable[[], float] = time.monotonic,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        """resume: go on with a record that is there already. retry: verdicts whose jobs wait again. warn: given a line
        where exports fall behind the database, once.

        Raises InputError where the folder cannot be written, is in use, holds a record and is not to be resumed, or one
        that cannot be gone on with: damaged, of another version, or made under a setting that must stay.
        """
        self.folder, self._path = folder, folder / DATABASE
        self.lock = threading.Lock()  # held while an answer is written: whoever ends the process takes it first
        self._clock, self._begun, self._sampled = clock, clock(), -float("inf")
        self._warn, self._behind = warn, False
        self._unsampled: Progress | None = None
        self._demand_free(resume)
        self._folder_lock = FolderLock(folder)
        self._exports = Exports(folder)
        self._database: sqlite3.Connection | None = None
        try:
            self._open(jobs, session or Session(), frozenset(retry))
        except BaseException:
            self.abandon()
            raise
        self._attempts: dict[int, int] = {}  # instance to the attempt under way
        self._sat: dict[int, tuple[int, str]] = {}  # instance to the attempt that decided it, and the witness's digest

    # --- the contract ---

    @property
    def waiting(self) -> Sequence[Job]:
        return self._matching.waiting

    @property
    def verdicts(self) -> Counter[Verdict]:
        return self._matching.verdicts

    def begin(self, jobs: Sequence[Job], worker: str = "") -> None:
        with self.lock, self._step() as database:
            started, attempts = time.time(), {}
            for job in jobs:
                number = self._matching.known[job.key].number
                if number in self._attempts:
                    database.execute("update attempt set reason = ? where id = ?", (_LOST, self._attempts[number]))
                attempts[number] = self._insert(database, job, started, worker)
        self._attempts |= attempts

    def decide(self, job: Job, decision: Decision) -> None:
        entry = self._matching.known[job.key]
        row = Row(*job.key[:3], decision.prepare, decision.verdict.value, decision.seconds)
        witness = _Packed.of(job, entry, decision)
        with self.lock:
            with self._step() as database:
                attempt = self._attempts.get(entry.number)
                if attempt is None:
                    attempt = self._insert(database, job, time.time(), decision.worker)
                database.execute(
                    "update attempt set ended = ?, verdict = ?, reason = ?, prepare = ?, seconds = ?, evaluations = ?, "
                    "margins = ?, disjuncts = ?, engine = ?, worker = coalesce(nullif(?, ''), worker) where id = ?",
                    (
                        time.time(),
                        decision.verdict.value,
                        in_text(decision.reason),
                        decision.prepare,
                        decision.seconds,
                        decision.evaluations,
                        json.dumps([float(f"{margin:.7g}") for margin in decision.margins]),
                        json.dumps(decision.disjuncts),
                        decision.engine,
                        decision.worker,
                        attempt,
                    ),
                )
                if witness is not None:
                    witness.insert(database, attempt)
            self._attempts.pop(entry.number, None)
            if witness is not None:
                self._sat[entry.number] = attempt, witness.digest
            with self._exporting():
                if witness is not None:
                    self._exports.put_witness(witness.path, witness.data)
                self._exports.append(row)

    def improve(self, job: Job, decision: Decision) -> None:
        entry = self._matching.known[job.key]
        attempt, digest = self._sat[entry.number]
        witness = _Packed.of(job, entry, decision)
        if witness is not None and witness.digest == digest:
            witness = None
        with self.lock:
            with self._step() as database:
                database.execute(
                    "update attempt set reason = ?, evaluations = max(evaluations, ?), "
                    "engine = coalesce(nullif(?, ''), engine) where id = ?",
                    (decision.reason, decision.evaluations, decision.engine, attempt),
                )
                if witness is not None:
                    witness.insert(database, attempt)
            if witness is not None:
                self._sat[entry.number] = attempt, witness.digest
                with self._exporting():
                    self._exports.put_witness(witness.path, witness.data)

    def progress(self, progress: Progress) -> None:
        seconds = self._clock() - self._begun
        self._unsampled = progress
        if seconds - self._sampled < _SAMPLE:
            return
        with self.lock, self._step(lasting=True) as database:
            self._sample(database, seconds)

    def close(self) -> None:
        try:
            with self.lock:
                with self._step() as database:
                    self._sample(database, self._clock() - self._begun)  # how it ended
                    self._sessions[-1]["ended"] = ended = now()
                    self._put(database, sessions=self._sessions, ended=ended)
                with told(self._path):
                    self._complete(database)
        finally:
            self.abandon()

    def abandon(self) -> None:
        self._exports.close()
        if self._database is not None:
            with suppress(sqlite3.Error):
                self._database.close()
            self._database = None
        self._folder_lock.release()

    # --- opening ---

    def _demand_free(self, resume: bool) -> None:
        """A folder that may be written to. Raises InputError."""
        folder = self.folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise InputError(f"{folder}: is a file: choose another folder") from None
        except OSError as error:
            raise InputError(f"{folder}: cannot be written: {error.strerror}") from None
        if self._path.exists():
            if not resume:
                raise InputError(f"{folder}: holds a record already: go on with --resume, or choose another folder")
        elif (folder / RESULTS).exists():
            raise InputError(f"{folder / RESULTS}: exists: choose another folder, or remove it")

    def _open(self, jobs: Sequence[Job], session: Session, retry: frozenset[Verdict]) -> None:
        self._database, self._log = writable(self._path)
        with told(self._path):
            fresh = is_blank(self._database)
            if not fresh:
                demand_sound(self._database, self._path)
        facts = session.facts()
        with self._step() as database:
            if fresh:
                for statement in filter(str.strip, TABLES.split(";")):
                    database.execute(statement)
                known: dict[str, Any] = {}
                self._put(database, schema=VERSION, created=facts["started"], shard=session.shard)
            else:
                known = {key: json.loads(value) for key, value in database.execute("select key, value from campaign")}
            notes = [] if fresh else list(demand_same(self.folder, known, facts, session.shard))
            self._sessions: list[dict[str, Any]] = [*known.get("sessions", ()), facts]
            self._session = len(self._sessions) - 1
            self._put(database, sessions=self._sessions, ended=None)
            self._put(database, **{key: facts[key] for key in LATEST})
            database.execute("update attempt set reason = ? where verdict is null", (_LOST,))
            self._matching = Matching(database, jobs, retry)
            (last,) = database.execute("select coalesce(max(id), 0) from attempt").fetchone()
            self._next = int(last) + 1
        if not fresh:
            notes.append(f"{self.folder}: {self._matching}")
        self.notes = tuple(notes)
        with told(self._path):
            for path in self._matching.stale:
                self._exports.drop(path)
            answers.export(self._database, self._exports, self._matching.again)

    # --- parts of a step ---

    @contextmanager
    def _step(self, lasting: bool = False) -> Iterator[sqlite3.Connection]:
        """One transaction: all that is written inside, or nothing. lasting: wait for the disk to have it."""
        database = self._database
        if database is None:
            raise ValueError("the record was closed")
        with told(self._path):
            if lasting:
                database.execute("pragma synchronous = full")
            database.execute("begin immediate")
            try:
                yield database
                database.execute("commit")
            except BaseException:
                with suppress(sqlite3.Error):
                    database.execute("rollback")
                raise
            if lasting and self._log:
                database.execute("pragma synchronous = normal")

    def _complete(self, database: sqlite3.Connection) -> None:
        """Make the exports up. Raises InputError where they cannot be written."""
        try:
            answers.export(database, self._exports)
        except InputError as error:
            raise InputError(f"{error}; the record is whole: falsifier export {self.folder} makes this up") from None

    @contextmanager
    def _exporting(self) -> Iterator[None]:
        """Exports of what the database has. Where they fail it has the answer all the same: `close` makes them up."""
        try:
            yield
        except InputError as error:
            if not self._behind:
                self._warn(f"{error}; answers are kept in {self._path}, and written out at the end")
            self._behind = True

    def _sample(self, database: sqlite3.Connection, seconds: float) -> None:
        """Keep the progress that was told last, if it has not been kept."""
        progress, self._unsampled, self._sampled = self._unsampled, None, seconds
        if progress is None:
            return
        row = (
            round(seconds, 3),
            self._session,
            progress.total - sum(progress.verdicts.values()),
            progress.verdicts.get(Verdict.SAT, 0),
            progress.lanes,
            progress.evaluations,
            progress.coverage,
        )
        database.execute("insert into progress values (?, ?, ?, ?, ?, ?, ?)", row)

    def _insert(self, database: sqlite3.Connection, job: Job, started: float, worker: str) -> int:
        """An attempt that is under way; its number."""
        number = self._matching.known[job.key].number
        attempt, self._next = self._next, self._next + 1
        database.execute(
            "insert into attempt (id, instance_id, session, worker, started, network_hash, query_hash) "
            "values (?, ?, ?, ?, ?, ?, ?)",
            (attempt, number, self._session, worker, started, job.network_hash, job.query_hash),
        )
        return attempt

    @staticmethod
    def _put(database: sqlite3.Connection, **values: Any) -> None:
        rows = [(key, json.dumps(value)) for key, value in values.items()]
        database.executemany("insert or replace into campaign values (?, ?)", rows)


@dataclass(frozen=True)
class _Packed:
    """A witness as it is kept: where its file lies, the digest of its text, its class, and the packed text."""

    path: str
    digest: str
    class_: str
    data: bytes

    @classmethod
    def of(cls, job: Job, entry: Entry, decision: Decision) -> _Packed | None:
        if decision.witness is None:
            return None
        text = decision.witness.encode()
        digest = hashlib.sha256(text).hexdigest()
        path = witness_path(job.category, entry.stem)
        return cls(path, digest, decision.class_ or "", gzip.compress(text, 6, mtime=0))

    def insert(self, database: sqlite3.Connection, attempt: int) -> None:
        """In the place of what the attempt had before."""
        row = (attempt, self.path, self.digest, self.class_, self.data, time.time())
        database.execute("insert or replace into witness values (?, ?, ?, ?, ?, ?)", row)
