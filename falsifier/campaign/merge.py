"""Records put together: those of shards, or of campaigns over different instances, become one."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from falsifier.campaign import answers
from falsifier.campaign.exports import RESULTS, Exports, witness_path
from falsifier.campaign.lock import FolderLock
from falsifier.campaign.schema import DATABASE, TABLES, VERSION, readable, told, writable
from falsifier.campaign.session import MUST_STAY, given, option
from falsifier.counted import counted
from falsifier.errors import InputError
from falsifier.verdict import Verdict

Key = tuple[str, str, str, int]

_SETTLED = frozenset({Verdict.SAT.value, Verdict.UNSAT.value})
_RANKS = {Verdict.ERROR.value: 1, Verdict.TIMEOUT.value: 2, Verdict.UNKNOWN.value: 2, **dict.fromkeys(_SETTLED, 3)}
_INSTANCE = (
    "category, onnx, vnnlib, repeat, id, stem, time_limit, networks, query_path, sample, network_hash, query_hash, "
    "fault"
)
_ATTEMPT = (
    "instance_id, id, session, worker, started, ended, verdict, reason, prepare, seconds, evaluations, margins, "
    "disjuncts, engine, network_hash, query_hash"
)


@dataclass
class _Source:
    """A record that is merged: its values, instances by key, and its answers by key."""

    folder: Path
    database: sqlite3.Connection
    values: dict[str, Any]
    instances: dict[Key, tuple[Any, ...]] = field(default_factory=dict)  # id, stem and what follows it
    verdicts: dict[Key, str] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path, database: sqlite3.Connection) -> _Source:
        with told(folder / DATABASE):
            values = {key: json.loads(value) for key, value in database.execute("select key, value from campaign")}
            source = cls(folder, database, values)
            for *key, number, stem, limit, networks, path, sample, one, other, fault in database.execute(
                f"select {_INSTANCE} from instance"
            ):
                source.instances[_key(key)] = number, stem, limit, networks, path, sample, one, other, fault
            for *key, verdict in database.execute(
                "select category, onnx, vnnlib, repeat, verdict from answer join instance on instance.id = instance_id"
            ):
                source.verdicts[_key(key)] = verdict
        return source

    def hashes(self, key: Key) -> tuple[Any, ...]:
        return self.instances[key][6:8]


def merge(out: Path, folders: Sequence[Path]) -> tuple[Counter[Verdict], list[str]]:
    """Make the record of `out` of those in `folders`; how many of each verdict it has, and lines for the user.

    An instance that several records have keeps the attempts of all; what settles it counts before what leaves it open.

    Raises InputError for a folder that holds no record, for records whose answers do not go together (contradictory
    ones, other files under the same names, another rule for witnesses), and where `out` holds results or cannot be
    written.
    """
    for name in (DATABASE, RESULTS):
        if (out / name).exists():
            raise InputError(f"{out / name}: exists: choose another folder for the merged record")
    with ExitStack() as stack:
        sources = [_Source.read(f, stack.enter_context(closing(readable(f)))) for f in folders]
        notes = _demand_together(sources)
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{out}: cannot be written: {error.strerror}") from None
        stack.enter_context(FolderLock(out))
        part = out / f"{DATABASE}.part"
        try:
            for end in ("", "-wal", "-shm", "-journal"):  # what is left of a merge that was killed
                part.with_name(part.name + end).unlink(missing_ok=True)
            database, _ = writable(part)
            with closing(database), told(part):
                _Merged(database, sources).write()
            os.replace(part, out / DATABASE)
        except OSError as error:
            raise InputError(f"{out}: cannot be written: {error.strerror}") from None
        finally:
            with suppress(OSError):
                part.unlink()
        database = stack.enter_context(closing(readable(out)))
        answers.export(database, Exports(out))
        found = Counter(Verdict(word) for (word,) in database.execute("select verdict from answer"))
        (total,) = database.execute("select count(*) from instance").fetchone()
    if total > found.total():
        left = total - found.total()
        have, them = ("has", "it") if left == 1 else ("have", "them")
        notes.append(f"{counted(left, 'instance')} {have} no answer: falsifier campaign ... --resume runs {them}")
    return found, notes


def _demand_together(sources: Sequence[_Source]) -> list[str]:
    """Lines about what differs and may. Raises InputError for what may not."""
    first = sources[0]
    for i, source in enumerate(sources):
        for other in sources[:i]:
            if source.folder.samefile(other.folder):
                raise InputError(f"{source.folder}: is given twice: give each record once")
            _demand_agreement(other, source)
        for name in MUST_STAY:
            rules = [str(own.values.get("settings", {}).get(name)) for own in (first, source)]
            if rules[0] != rules[1]:
                raise InputError(
                    f"{source.folder}: was made with --{name} {rules[1]:.12}, {first.folder} with {rules[0]:.12}: "
                    "their answers do not mean the same"
                )
    return [*_differing(sources), *_missing_shards(sources), *_unfinished(sources)]


def _demand_agreement(one: _Source, other: _Source) -> None:
    for key in one.instances.keys() & other.instances.keys():
        name = f"{key[1]}, {key[2]}"
        if one.hashes(key) != other.hashes(key):
            raise InputError(
                f"{other.folder}: its files of {name} are others than those of {one.folder}: "
                "run one of them again with --resume"
            )
        verdicts = one.verdicts.get(key), other.verdicts.get(key)
        if set(verdicts) == _SETTLED:
            raise InputError(
                f"{other.folder}: says {verdicts[1]} of {name}, {one.folder} says {verdicts[0]}: one of them is wrong"
            )


def _differing(sources: Sequence[_Source]) -> Iterator[str]:
    settings = [source.values.get("settings", {}) for source in sources]
    for name in sorted(set().union(*settings)):
        values = {given(own.get(name)) for own in settings}
        if len(values) > 1:
            yield f"the records were made with different {option(name)}: {', '.join(sorted(values))}"
    releases = {str(source.values.get("falsifier")) for source in sources}
    if len(releases) > 1:
        yield f"the records were made by different releases of falsifier: {', '.join(sorted(releases))}"


def _missing_shards(sources: Sequence[_Source]) -> Iterator[str]:
    parts = [str(source.values.get("shard", "")) for source in sources]
    counts = {part.partition("/")[2] for part in parts}
    (count,) = counts if len(counts) == 1 else ("",)
    missing = [f"{i}/{count}" for i in range(1, int(count or 0) + 1) if f"{i}/{count}" not in parts]
    if missing:
        yield f"shards that are missing: {', '.join(missing)}"


def _unfinished(sources: Sequence[_Source]) -> Iterator[str]:
    for source in sources:
        if source.values.get("ended") is None:
            yield f"{source.folder}: has not come to its end: it was cut short, or runs still"


class _Merged:
    """The new record, written in one transaction."""

    def __init__(self, database: sqlite3.Connection, sources: Sequence[_Source]) -> None:
        self._database, self._sources = database, sources
        self._sessions: list[dict[str, Any]] = []
        self._session: list[dict[int, int]] = []  # of each source: its number of a session to that here
        order: dict[Key, tuple[int, int]] = {}  # the least number that a record gives it: its place in the plan
        for i, source in enumerate(sources):
            for key, (number, *_) in source.instances.items():
                order[key] = min(order.get(key, (number, i)), (number, i))
        self._number = {key: at for at, key in enumerate(sorted(order, key=order.__getitem__), 1)}
        self._stem: dict[Key, str] = {}

    def write(self) -> None:
        """Everything."""
        database = self._database
        database.execute("begin immediate")
        for statement in filter(str.strip, TABLES.split(";")):
            database.execute(statement)
        for source in self._sources:
            self._add_sessions(source)
        self._add_values()
        self._add_instances()
        self._add_attempts()
        database.execute("commit")

    def _add_sessions(self, source: _Source) -> None:
        """The sessions of a record and their progress, those that another one had already left out."""
        numbers, new = {}, []
        for number, facts in enumerate(source.values.get("sessions", ())):
            if facts not in self._sessions:
                self._sessions.append(facts)
                new.append(number)
            numbers[number] = self._sessions.index(facts)
        self._session.append(numbers)
        columns = "time, session, open, falsified, lanes, evaluations, coverage"
        for time, number, *rest in source.database.execute(f"select {columns} from progress order by rowid"):
            if number in new:
                row = (time, numbers[number], *rest)
                self._database.execute("insert into progress values (?, ?, ?, ?, ?, ?, ?)", row)

    def _add_values(self) -> None:
        ends = [source.values.get("ended") for source in self._sources]
        values = self._sources[0].values | {
            "schema": VERSION,
            "shard": "",
            "sessions": self._sessions,
            "created": min(str(source.values.get("created")) for source in self._sources),
            "ended": max(map(str, ends)) if all(ends) else None,
            "merged": [str(source.folder.absolute()) for source in self._sources],
        }
        rows = [(key, json.dumps(value)) for key, value in values.items()]
        self._database.executemany("insert into campaign values (?, ?)", rows)

    def _add_instances(self) -> None:
        taken: set[tuple[str, str]] = set()
        for key, number in self._number.items():
            _, stem, *rest = next(s.instances[key] for s in self._sources if key in s.instances)
            free, more = stem, 1
            while free and (key[0], free) in taken:
                more += 1
                free = f"{stem}_{more}"
            taken.add((key[0], free))
            self._stem[key] = free
            row = (number, *key, free, *rest)
            self._database.execute(f"insert into instance values ({', '.join('?' * len(row))})", row)

    def _add_attempts(self) -> None:
        """All attempts; of an instance those of the record that knows most about it last, so that they count."""
        found = []
        for at, source in enumerate(self._sources):
            keys = {own[0]: key for key, own in source.instances.items()}
            for number, attempt, session, *rest in source.database.execute(f"select {_ATTEMPT} from attempt"):
                key = keys[number]
                rank = _RANKS.get(source.verdicts.get(key, ""), 0)
                found.append(((rank, at, attempt), key, self._session[at].get(session, 0), tuple(rest)))
        found.sort(key=lambda entry: entry[0])
        last: dict[tuple[Key, int, tuple[Any, ...]], tuple[int, int, int]] = {}
        for order, key, session, rest in found:  # one that two records share counts where it is last
            last[key, session, rest] = order
        number = 0
        for order, key, session, rest in found:
            if last[key, session, rest] != order:
                continue
            number += 1
            row = (number, self._number[key], session, *rest)
            self._database.execute(f"insert into attempt values ({', '.join('?' * len(row))})", row)
            self._add_witness(number, key, self._sources[order[1]].database, order[2])

    def _add_witness(self, number: int, key: Key, database: sqlite3.Connection, attempt: int) -> None:
        query = "select sha256, class, text, confirmed from witness where attempt_id = ?"
        for row in database.execute(query, (attempt,)):
            path = witness_path(key[0], self._stem[key])
            self._database.execute("insert into witness values (?, ?, ?, ?, ?, ?)", (number, path, *row))


def _key(fields: Sequence[Any]) -> Key:
    category, onnx, vnnlib, repeat = fields
    return category, onnx, vnnlib, repeat
