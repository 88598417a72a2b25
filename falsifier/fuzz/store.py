"""A fuzzing session on disk: one folder with a database of entries and progress, and the folders of the hits.

What was kept is written twice a second, in one transaction: a killed process loses little more than that. One process
writes at a time.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import InputError
from falsifier.fuzz.entries import Entries
from falsifier.fuzz.hit import Hit
from falsifier.fuzz.loop import Progress

Array = NDArray[Any]

DATABASE, HITS, REPORT = "session.sqlite", "hits", "report.json"
_DIGESTS = {"model": "another model", "against": "another --against", "starts": "other starts (--inputs)"}
_SECONDS = 0.5  # between two commits
_TABLES = """
create table if not exists meta (key text primary key, value text not null);
create table if not exists entries (id integer primary key, point blob not null, vector blob not null,
                                    parent integer, oldest integer not null, depth integer not null, score real);
create table if not exists hits (cause text primary key, record text not null);
create table if not exists progress (run integer, seconds real, record text not null);
"""


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """What SQLite has to say about a session, as InputError in one line."""
    try:
        yield
    except sqlite3.OperationalError as error:
        text = str(error)
        if "locked" in text or "busy" in text:
            raise InputError(
                f"{path}: another process is using it: wait for that one, or choose another --out"
            ) from None
        raise InputError(f"{path}: cannot be used ({text}): choose another --out") from None
    except sqlite3.DatabaseError as error:
        raise _damaged(path, str(error)) from None


def _damaged(path: Path, what: str) -> InputError:
    what = " ".join(what.split())
    return InputError(f"{path}: is damaged ({what}): put a copy in its place, or begin anew with another --out")


def demand_session(folder: Path, *, resume: bool) -> None:
    """Raises InputError where a folder holds a session and `resume` is not asked for, or the other way about."""
    there = (folder / DATABASE).exists()
    if there and not resume:
        raise InputError(f"{folder}: holds a session already: go on with --resume, or choose another --out")
    if resume and not there:
        raise InputError(f"{folder}: holds no session to resume")
    if not there and (folder / REPORT).exists():
        raise InputError(f"{folder}: holds a {REPORT} of something else, which would be lost: choose another --out")


def _begun_with(before: dict[str, Any], now: dict[str, Any]) -> str:
    """What a session was begun with and is not gone on with, by the options that say it."""
    options = [name for name in before if name not in _DIGESTS and not (name == "starts" and "ranges" in before)]
    if options:
        was = " ".join(f"{_option(name)} {_words(before[name])}" for name in options)
        return f"was begun with {was}, now it is {' '.join(_words(now[name]) for name in options)}"
    return f"was begun with {' and '.join(_DIGESTS[name] for name in before)}"


def _option(name: str) -> str:
    return "--range" if name == "ranges" else f"--{name}"


def _words(value: Any) -> str:
    """A setting as it is given."""
    if isinstance(value, dict):
        given = [f"{key}={a:g},{b:g}" if key else f"{a:g},{b:g}" for key, (a, b) in value.items()]
        return " ".join(given) or "not given"
    if isinstance(value, list):
        return " ".join(map(str, value)) or "not given"
    return "not given" if value is None else str(value)


class Store:
    """`identity`: what must be the same when a session goes on: the model's digest, the objective, the starts.

    Raises InputError where the folder holds another session, holds one and `resume` is not asked for, is damaged, or is
    in use; its methods do where the database does not take or give what they are for.
    """

    def __init__(self, folder: Path, identity: dict[str, Any], *, resume: bool) -> None:
        self.folder = folder
        path = folder / DATABASE
        demand_session(folder, resume=resume)
        self._path = path
        try:
            (folder / HITS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder}: cannot be written ({error.strerror}): choose another --out") from None
        with _told(path):
            self._database = sqlite3.connect(path, timeout=0.5, isolation_level=None)
            try:
                self._open(identity)
            except BaseException:
                self._database.close()
                raise
        self._written = time.monotonic()
        self._started = time.monotonic()

    def _open(self, identity: dict[str, Any]) -> None:
        self._demand_sound()
        self._database.executescript(_TABLES)
        self._database.execute("pragma locking_mode = exclusive")
        self._database.execute("pragma journal_mode = wal")
        self._database.execute("pragma synchronous = normal")
        self._database.execute("begin immediate")
        text = json.dumps(identity, sort_keys=True)
        known = self._meta("identity")
        if known is not None and known != text:
            before = self._record(known)
            # a key that an earlier release did not write says nothing
            differs = {name: before[name] for name, value in identity.items() if before.get(name, value) != value}
            if differs:
                raise InputError(f"{self.folder}: {_begun_with(differs, identity)}: give the same, or another --out")
        self._put("identity", text)
        runs = self._meta("runs") or "0"
        if not runs.isdecimal():
            raise _damaged(self._path, f"{runs[:40]!r} runs")
        self.run = int(runs)
        self._put("runs", str(self.run + 1))
        self.earlier: dict[str, Any] = self._record(self._meta("progress") or "{}")
        self._commit()

    def _demand_sound(self) -> None:
        """Raises InputError for another program's database, before anything is written to it, and for damage."""
        names = {str(n) for (n,) in self._database.execute("select name from sqlite_master where type = 'table'")}
        if names and not {"meta", "entries", "hits", "progress"} <= names:
            raise InputError(f"{self._path}: is no session of falsifier fuzz: choose another --out")
        (sound,) = self._database.execute("pragma quick_check(1)").fetchone()
        if sound != "ok":
            raise _damaged(self._path, str(sound))

    def _record(self, text: str) -> dict[str, Any]:
        try:
            record = json.loads(text)
        except ValueError as error:
            raise _damaged(self._path, str(error)) from None
        if not isinstance(record, dict):
            raise _damaged(self._path, f"{text[:40]!r} is no record")
        return record

    def _meta(self, key: str) -> str | None:
        row = self._database.execute("select value from meta where key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def _put(self, key: str, value: str) -> None:
        self._database.execute("insert or replace into meta values (?, ?)", (key, value))

    def _commit(self) -> None:
        self._database.execute("commit")
        self._database.execute("begin immediate")

    def keep(self, entries: Entries, first: int) -> None:
        """Note the entries at positions `first` .. count - 1."""
        at = range(first, entries.count)
        rows = [
            (
                int(entries.ids[i]),
                entries.points[i].tobytes(),
                entries.vectors[i].tobytes(),
                int(entries.ids[entries.parent[i]]) if entries.parent[i] >= 0 else None,
                int(entries.oldest[i]),
                int(entries.depth[i]),
                float(entries.score[i]),
            )
            for i in at
        ]
        with _told(self._path):
            self._database.executemany("insert or replace into entries values (?, ?, ?, ?, ?, ?, ?)", rows)

    def note_hit(self, hit: Hit, record: dict[str, Any]) -> None:
        """A hit, at once."""
        with _told(self._path):
            self._database.execute(
                "insert or replace into hits values (?, ?)", (hit.finding.cause, json.dumps(record, allow_nan=True))
            )
            self._commit()

    def tick(self, progress: Progress, *, force: bool = False) -> None:
        """Commit where half a second has passed."""
        now = time.monotonic()
        if now - self._written < _SECONDS and not force:
            return
        self._written = now
        text = json.dumps(asdict(progress))
        with _told(self._path):
            self._put("progress", text)
            self._database.execute("insert into progress values (?, ?, ?)", (self.run, now - self._started, text))
            self._commit()

    def hits(self) -> dict[str, dict[str, Any]]:
        """Records of hits by cause, of this and earlier runs."""
        with _told(self._path):
            rows = self._database.execute("select cause, record from hits order by rowid").fetchall()
        return {cause: self._record(record) for cause, record in rows}

    def restore(self, entries: Entries) -> Array:
        """Entries of earlier runs behind the starts, the latest where there are too many. Returns their vectors."""
        room = entries.limit // 2
        with _told(self._path):
            rows = self._database.execute(
                "select id, point, vector, parent, oldest, depth, score from entries where id >= ? "
                "order by id desc limit ?",
                (entries.starts, room),
            ).fetchall()[::-1]
        if not rows:
            return entries.vectors[:0]
        for column, array in ((1, entries.points), (2, entries.vectors)):
            size = array.shape[1] * array.dtype.itemsize
            wrong = next((r for r in rows if not isinstance(r[column], bytes) or len(r[column]) != size), None)
            if wrong is not None:
                raise _damaged(self._path, f"entry {wrong[0]} is not of {size} bytes")
        points = np.stack([np.frombuffer(r[1], entries.points.dtype) for r in rows])
        vectors = np.stack([np.frombuffer(r[2], entries.vectors.dtype) for r in rows])
        place = {r[0]: entries.count + i for i, r in enumerate(rows)} | {i: i for i in range(entries.starts)}
        parents = np.array([place.get(r[3], -1) if r[3] is not None else -1 for r in rows])
        entries.restore(
            points,
            vectors,
            parents,
            np.array([r[0] for r in rows]),
            np.array([r[4] for r in rows]),
            np.array([r[5] for r in rows]),
            np.array([r[6] for r in rows]),
        )
        return vectors

    def close(self) -> None:
        """Commit and let go of the database."""
        with _told(self._path):
            self._database.execute("commit")
            self._database.close()
