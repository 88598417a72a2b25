"""The database of a campaign: its tables, and how it is opened. One writer, any number of readers.

Tables and columns are documented in docs/campaigns.md; a change of their meaning is another VERSION.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from falsifier.errors import InputError

DATABASE = "campaign.sqlite"
VERSION = 1
_PATIENCE = 5.0  # seconds that a reader or the writer waits for the other to finish a step
TABLES = """
create table campaign (key text primary key, value text not null) without rowid;
create table instance (
    id integer primary key, category text not null, onnx text not null, vnnlib text not null,
    repeat integer not null, stem text not null, time_limit real not null, networks text not null,
    query_path text, sample integer, network_hash text not null, query_hash text not null, fault text not null,
    unique (category, onnx, vnnlib, repeat));
create table attempt (
    id integer primary key, instance_id integer not null references instance, session integer not null,
    worker text not null, started real not null, ended real, verdict text, reason text not null default '',
    prepare real not null default 0, seconds real not null default 0, evaluations integer not null default 0,
    margins text not null default '[]', disjuncts text not null default '[]', engine text not null default '',
    network_hash text not null, query_hash text not null);
create index attempt_of_instance on attempt (instance_id, id);
create table witness (
    attempt_id integer primary key references attempt, path text not null, sha256 text not null,
    class text not null, text blob not null, confirmed real not null);
create table progress (
    time real not null, session integer not null, open integer not null, falsified integer not null,
    lanes integer not null, evaluations integer not null, coverage real);
create view answer as
    select attempt.* from attempt join instance on instance.id = attempt.instance_id
    where attempt.id = (select max(a.id) from attempt a where a.instance_id = instance.id and a.verdict is not null
                        and a.network_hash = instance.network_hash and a.query_hash = instance.query_hash);
"""
"""`answer`: the attempt that counts for each instance that has one: the last that ended about the files as they are."""


@contextmanager
def told(path: Path) -> Iterator[None]:
    """What SQLite has to say about a record, as InputError in one line."""
    try:
        yield
    except sqlite3.OperationalError as error:
        text = str(error)
        if "locked" in text or "busy" in text:
            text = "another process is using it"
        raise InputError(f"{path}: cannot be used: {text}") from None
    except sqlite3.DatabaseError as error:
        raise InputError(f"{path}: is no record of a campaign, or a damaged one ({error})") from None


def writable(path: Path) -> tuple[sqlite3.Connection, bool]:
    """A connection for the one writer, and whether there is a write-ahead log. Raises InputError.

    With it commits wait for no disk (`synchronous = normal`): they outlive the process at once, and a power cut takes
    back the last ones at most, whole: those since the last that did wait.
    """
    with told(path):
        database = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            (mode,) = database.execute("pragma journal_mode = wal").fetchone()
            # a file system without shared memory keeps the old journal, which is sound only where commits wait
            database.execute(f"pragma synchronous = {'normal' if mode == 'wal' else 'full'}")
        except sqlite3.Error:
            database.close()
            raise
    return database, mode == "wal"


def readable(folder: Path) -> sqlite3.Connection:
    """A connection to the record in a folder, for reading: whole, and of a version that is known.

    Raises InputError.
    """
    path = folder / DATABASE
    if not path.is_file():
        raise InputError(f"{folder}: holds no record of a campaign ({DATABASE})")
    with told(path):
        # not `mode=ro`: the last one that closes a database puts its log away, which such a connection cannot
        name = f"file:{quote(str(path.absolute()))}?mode=rw"
        database = _connected(name)
        try:
            try:
                database.execute("select 1 from sqlite_master").fetchall()
            except sqlite3.OperationalError:  # a folder that cannot be written, where no log is left to be read
                if path.with_name(f"{path.name}-wal").exists():
                    raise
                database.close()
                database = _connected(f"{name}&immutable=1")
            demand_sound(database, path)
        except BaseException:
            database.close()
            raise
    return database


def _connected(name: str) -> sqlite3.Connection:
    """A connection that reads alone."""
    database = sqlite3.connect(name, timeout=_PATIENCE, isolation_level=None, uri=True, check_same_thread=False)
    database.execute("pragma query_only = on")
    return database


def is_blank(database: sqlite3.Connection) -> bool:
    """Whether nothing was written yet: a process died before it could begin."""
    (tables,) = database.execute("select count(*) from sqlite_master").fetchone()
    return bool(tables == 0)


def demand_sound(database: sqlite3.Connection, path: Path) -> None:
    """Raise InputError for another program's database, another version of this, or damage."""
    names = {str(name) for (name,) in database.execute("select name from sqlite_master where type = 'table'")}
    if not {"campaign", "instance", "attempt", "witness"} <= names:
        raise InputError(f"{path}: is no record of a campaign: it holds other tables")
    row = database.execute("select value from campaign where key = 'schema'").fetchone()
    if row is None or str(row[0]) != str(VERSION):
        found = "no version" if row is None else f"version {row[0]}"
        raise InputError(
            f"{path}: is a record of {found}, this falsifier reads version {VERSION}: "
            "use the release that wrote it, or another folder"
        )
    (sound,) = database.execute("pragma quick_check(1)").fetchone()
    if sound != "ok":
        raise InputError(f"{path}: is damaged ({' '.join(str(sound).split())}): use a copy, or another folder")
