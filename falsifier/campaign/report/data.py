"""A campaign's record read into plain values, as it stands at one moment; a campaign at work is not disturbed.

Whatever stands in the file is data: nothing of it is trusted to be well-formed.
"""

from __future__ import annotations

import json
import math
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from falsifier.campaign.schema import DATABASE, readable, told
from falsifier.verdict import Verdict

BEGUN, OPEN = "begun", "open"  # in place of a verdict: an attempt runs or was lost; there was none yet
VERDICTS = (*(verdict.value for verdict in Verdict), BEGUN, OPEN)
MOST_TEXT = 1 << 28  # bytes of a witness that is read


@dataclass(frozen=True)
class Row:
    """An instance and the attempt that counts: the last that ended.

    number: its place in the plan, from 1; repeat: how many rows before it read the same; query, sample: the file of its
    query, or which sample of the data set it asks about; verdict: one of VERDICTS; prepare, seconds: of its own clock,
    reading and searching; margins: the best of each disjunct that stayed open; disjuncts: their numbers in the query;
    attempt: whose witness it is.
    """

    number: int
    family: str
    onnx: str
    vnnlib: str
    repeat: int
    limit: float | None
    networks: tuple[tuple[str | None, str], ...]
    query: str | None
    sample: int | None
    network_hash: str
    query_hash: str
    verdict: str = OPEN
    reason: str = ""
    class_: str = ""
    prepare: float = 0.0
    seconds: float = 0.0
    evaluations: int = 0
    margins: tuple[float, ...] = ()
    disjuncts: tuple[int, ...] = ()
    engine: str = ""
    attempts: int = 0
    attempt: int | None = None

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What the instance is called in any campaign."""
        return self.family, self.onnx, self.vnnlib, self.repeat

    @property
    def total(self) -> float:
        """Seconds of its own clock."""
        return self.prepare + self.seconds

    @property
    def decided(self) -> bool:
        return self.verdict in (Verdict.SAT.value, Verdict.UNSAT.value)


@dataclass(frozen=True)
class Sample:
    """Where the campaign stood. time: seconds since its session began; coverage: a share, where one was measured."""

    time: float
    session: int
    falsified: int
    evaluations: int
    coverage: float | None


@dataclass(frozen=True)
class Recorded:
    """A campaign. facts: its table of keys and values; began, last: unix seconds of its first and last moment."""

    folder: Path
    facts: Mapping[str, Any]
    rows: tuple[Row, ...]
    progress: tuple[Sample, ...]
    began: float | None
    last: float | None

    @property
    def name(self) -> str:
        return self.folder.absolute().name or str(self.folder)

    @property
    def ended(self) -> bool:
        """Whether the campaign came to its end."""
        return bool(self.facts.get("ended"))


def record_folder(given: Path) -> Path:
    """The folder of a campaign that is named by it or by its record."""
    return given.absolute().parent if given.name == DATABASE and given.is_file() else given


def read_record(given: Path) -> Recorded:
    """What a campaign's record holds now. Raises InputError where there is none, or it cannot be read."""
    folder = record_folder(given)
    with opened(folder) as database:
        facts = {_text(key): _json(_text(value)) for key, value in database.execute("select key, value from campaign")}
        rows = tuple(_rows(database))
        progress = tuple(_samples(database))
        began, last = database.execute("select min(started), max(coalesce(ended, started)) from attempt").fetchone()
    return Recorded(folder, facts, rows, progress, _number(began), _number(last))


@contextmanager
def witness_reader(recorded: Recorded) -> Iterator[Callable[[int], str | None]]:
    """A function from an attempt to the text of its witness, None where there is none or it is damaged.

    Raises InputError.
    """
    with opened(recorded.folder) as database:

        def text_of(attempt: int) -> str | None:
            found = database.execute("select text from witness where attempt_id = ?", (attempt,)).fetchone()
            return _unpacked(found[0]) if found else None

        yield text_of


@contextmanager
def opened(folder: Path) -> Iterator[sqlite3.Connection]:
    """The record in a folder for reading, all of it as it is at one moment. Raises InputError."""
    with closing(readable(folder)) as database, told(folder / DATABASE):
        database.text_factory = lambda raw: raw.decode("utf-8", "replace")
        database.execute("begin")
        yield database


def _rows(database: sqlite3.Connection) -> Iterator[Row]:
    database.row_factory = sqlite3.Row
    answers = {row["instance_id"]: row for row in database.execute("select * from answer")}
    attempts = dict(database.execute("select instance_id, count(*) from attempt group by instance_id").fetchall())
    classes = dict(database.execute("select attempt_id, class from witness").fetchall())
    for number, instance in enumerate(database.execute("select * from instance order by id"), 1):
        at = instance["id"]
        yield _row(number, _Fields(instance), _Fields(answers.get(at)), attempts.get(at, 0), classes)
    database.row_factory = None


class _Fields:
    """A row of the database by column, as the type that is asked for: a column may be missing, or hold anything."""

    def __init__(self, row: sqlite3.Row | None) -> None:
        self._values: dict[str, Any] = {} if row is None else {name: row[name] for name in row.keys()}  # noqa: SIM118
        self.there = row is not None

    def text(self, name: str) -> str:
        return _text(self._values.get(name))

    def number(self, name: str) -> float | None:
        return _number(self._values.get(name))

    def json(self, name: str) -> Any:
        return _json(self.text(name) or "null")


def _row(number: int, instance: _Fields, last: _Fields, attempts: int, classes: Mapping[Any, Any]) -> Row:
    verdict = last.text("verdict") if last.there else BEGUN if attempts else OPEN
    margins, attempt, sample = _numbers(last.json("margins")), last.number("id"), instance.number("sample")
    disjuncts = tuple(map(int, _numbers(last.json("disjuncts"))))
    return Row(
        number=number,
        family=instance.text("category"),
        onnx=instance.text("onnx"),
        vnnlib=instance.text("vnnlib"),
        repeat=int(instance.number("repeat") or 0),
        limit=instance.number("time_limit"),
        networks=tuple(_networks(instance.json("networks"))),
        query=instance.text("query_path") or None,
        sample=None if sample is None else int(sample),
        network_hash=instance.text("network_hash"),
        query_hash=instance.text("query_hash"),
        verdict=verdict if verdict in VERDICTS else Verdict.ERROR.value,
        reason=last.text("reason") if last.there else instance.text("fault"),
        class_=_text(classes.get(attempt)),
        prepare=last.number("prepare") or 0.0,
        seconds=last.number("seconds") or 0.0,
        evaluations=int(last.number("evaluations") or 0),
        margins=margins,
        disjuncts=disjuncts if len(disjuncts) == len(margins) else tuple(range(len(margins))),
        engine=last.text("engine"),
        attempts=attempts,
        attempt=None if attempt is None else int(attempt),
    )


def _networks(given: Any) -> Iterator[tuple[str | None, str]]:
    """From `[{name, path}]`."""
    for item in given if isinstance(given, list) else ():
        if isinstance(item, dict) and isinstance(item.get("path"), str):
            yield (item["name"] if isinstance(item.get("name"), str) else None), item["path"]


def _samples(database: sqlite3.Connection) -> Iterator[Sample]:
    columns = "time, session, falsified, evaluations, coverage"
    for time, session, *counts, coverage in database.execute(f"select {columns} from progress order by session, time"):
        falsified, evaluations = (int(_number(count) or 0) for count in counts)
        yield Sample(_number(time) or 0.0, int(_number(session) or 0), falsified, evaluations, _number(coverage))


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)


def _json(text: str) -> Any:
    """The value of a JSON text, or the text where it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _numbers(values: Any) -> tuple[float, ...]:
    """A list of finite numbers; of anything else, none."""
    found = [_number(value) for value in values] if isinstance(values, list) else []
    return tuple(value for value in found if value is not None) if None not in found else ()


def _number(value: Any) -> float | None:
    """A finite number, or None."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return None
    return float(value)


def _unpacked(blob: Any) -> str | None:
    """The text of a witness, packed by zlib or gzip."""
    if isinstance(blob, str):
        return blob
    if not isinstance(blob, bytes):
        return None
    packed = zlib.decompressobj(wbits=47)
    try:
        text = packed.decompress(blob, MOST_TEXT)
    except zlib.error:
        return None
    return text.decode("utf-8", "replace") if packed.eof else None
