"""Records of campaigns made by hand: the tables filled with what a test says."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from falsifier.campaign.schema import DATABASE, TABLES, VERSION

START = 1_700_000_000.0


@dataclass(frozen=True)
class Attempt:
    """An attempt; verdict None: it did not end."""

    verdict: str | None = "sat"
    seconds: float = 1.0
    prepare: float = 0.5
    reason: str = ""
    evaluations: int = 10
    margins: Sequence[float] = ()
    disjuncts: Sequence[int] = ()
    witness: str | None = None
    class_: str = "exact"


@dataclass(frozen=True)
class Instance:
    """An instance with its attempts, the last of which counts."""

    category: str = "family"
    onnx: str = "net.onnx"
    vnnlib: str = "q.vnnlib"
    attempts: Sequence[Attempt] = (Attempt(),)
    network: Path | None = None
    query: Path | None = None
    network_hash: str = "n"
    query_hash: str = "q"


def write_record(
    folder: Path,
    instances: Sequence[Instance],
    progress: Sequence[tuple[float, int, int, int, float | None]] = (),
    facts: Mapping[str, Any] | None = None,
) -> Path:
    """A record in a folder. progress: time, session, falsified, evaluations, coverage."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / DATABASE
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("pragma journal_mode = wal")
        database.executescript(TABLES)
        database.execute("begin")
        given = {"schema": VERSION, "falsifier": "0.1.0", "ended": "2026-01-01T00:00:00Z"} | dict(facts or {})
        database.executemany("insert into campaign values (?, ?)", [(k, json.dumps(v)) for k, v in given.items()])
        for i, instance in enumerate(instances, 1):
            _insert(database, i, instance)
        database.executemany(
            "insert into progress values (?, ?, 0, ?, 0, ?, ?)", [(t, s, f, e, c) for t, s, f, e, c in progress]
        )
        database.execute("commit")
    return path


def change(path: Path, *statements: str) -> None:
    """Run statements on a record."""
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()


def _insert(database: sqlite3.Connection, number: int, given: Instance) -> None:
    networks = json.dumps([] if given.network is None else [{"name": None, "path": str(given.network)}])
    query = None if given.query is None else str(given.query)
    hashes = given.network_hash, given.query_hash
    row = (number, given.category, given.onnx, given.vnnlib, 0, f"stem{number}", 60.0, networks, query, None, *hashes)
    database.execute(f"insert into instance values ({', '.join('?' * 12)}, '')", row)
    for attempt in given.attempts:
        ended = None if attempt.verdict is None else START + number + attempt.seconds
        kept = (attempt.verdict, attempt.reason, attempt.prepare, attempt.seconds, attempt.evaluations)
        lists = json.dumps(list(attempt.margins)), json.dumps(list(attempt.disjuncts))
        values = (None, number, 1, "", START + number, ended, *kept, *lists, "onnxruntime", *hashes)
        made = database.execute(f"insert into attempt values ({', '.join('?' * 16)})", values).lastrowid
        if attempt.witness is not None:
            packed = gzip.compress(attempt.witness.encode())
            database.execute("insert into witness values (?, '', '', ?, ?, 0)", (made, attempt.class_, packed))
