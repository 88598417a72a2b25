"""A fuzzing session on disk: one folder with a database of entries and progress, and the folders of the hits.

What was kept is written twice a second, in one transaction: a killed process loses little more than that. One process
writes at a time.
"""

from __future__ import annotations

import json
import sqlite3
import time
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

DATABASE, HITS = "session.sqlite", "hits"
_SECONDS = 0.5  # between two commits
_TABLES = """
create table if not exists meta (key text primary key, value text not null);
create table if not exists entries (id integer primary key, point blob not null, vector blob not null,
                                    parent integer, oldest integer not null, depth integer not null, score real);
create table if not exists hits (cause text primary key, record text not null);
create table if not exists progress (run integer, seconds real, record text not null);
"""


class Store:
    """`identity`: what must be the same when a session goes on: the model's digest, the objective, the starts.

    Raises InputError where the folder holds another session, holds one and `resume` is not asked for, or is in use.
    """

    def __init__(self, folder: Path, identity: dict[str, Any], *, resume: bool) -> None:
        self.folder = folder
        path = folder / DATABASE
        if path.exists() and not resume:
            raise InputError(f"{folder}: holds a session already: go on with --resume, or choose another --out")
        if resume and not path.exists():
            raise InputError(f"{folder}: holds no session to resume")
        try:
            (folder / HITS).mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(path, timeout=0.5, isolation_level=None)
            self._database.executescript(_TABLES)
            self._database.execute("pragma locking_mode = exclusive")
            self._database.execute("pragma journal_mode = wal")
            self._database.execute("pragma synchronous = normal")
            self._database.execute("begin immediate")
        except OSError as error:
            raise InputError(f"{folder}: cannot be written ({error.strerror}): choose another --out") from None
        except sqlite3.Error as error:
            raise InputError(f"{path}: cannot be used ({error}): another process may be using it") from None
        text = json.dumps(identity, sort_keys=True)
        known = self._meta("identity")
        if known is not None and known != text:
            differs = [k for k, v in identity.items() if json.loads(known).get(k) != v]
            raise InputError(f"{folder}: is a session with another {' and '.join(differs)}: choose another --out")
        self._put("identity", text)
        self.run = int(self._meta("runs") or 0)
        self._put("runs", str(self.run + 1))
        self._written = time.monotonic()
        self._started = time.monotonic()
        self.earlier: dict[str, Any] = json.loads(self._meta("progress") or "{}")
        self._commit()

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
        self._database.executemany("insert or replace into entries values (?, ?, ?, ?, ?, ?, ?)", rows)

    def note_hit(self, hit: Hit, record: dict[str, Any]) -> None:
        """A hit, at once."""
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
        self._put("progress", text)
        self._database.execute("insert into progress values (?, ?, ?)", (self.run, now - self._started, text))
        self._commit()

    def hits(self) -> dict[str, dict[str, Any]]:
        """Records of hits by cause, of this and earlier runs."""
        rows = self._database.execute("select cause, record from hits order by rowid").fetchall()
        return {cause: json.loads(record) for cause, record in rows}

    def restore(self, entries: Entries) -> Array:
        """Entries of earlier runs behind the starts, the latest where there are too many. Returns their vectors."""
        room = entries.limit // 2
        rows = self._database.execute(
            "select id, point, vector, parent, oldest, depth, score from entries where id >= ? "
            "order by id desc limit ?",
            (entries.starts, room),
        ).fetchall()[::-1]
        if not rows:
            return entries.vectors[:0]
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
        self._database.execute("commit")
        self._database.close()
