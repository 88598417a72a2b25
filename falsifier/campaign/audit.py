"""A folder of witnesses judged in one call: by one query, or each by the row of an instances.csv that its name tells.

A network is loaded once for all witnesses of it, a query is read once.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from falsifier.arguments import as_networks
from falsifier.campaign.plan import Job, by_network, stem_of
from falsifier.errors import EngineError, FalsifierError, InputError
from falsifier.instance import NamedNetwork, parse_network
from falsifier.network import Network
from falsifier.query.tree import Query
from falsifier.verdict import Verdict
from falsifier.witness.binding import assign
from falsifier.witness.confirm import Door
from falsifier.witness.files import read_text, read_witness_file, witnesses_in
from falsifier.witness.outcome import Witness

_END = ".counterexample"


class Word(Enum):
    """What becomes of a witness, or of a row without one. The first two are valid."""

    EXACT = "exact"
    CORRECT = "correct"
    REJECTED = "rejected"
    UNREADABLE = "unreadable"
    UNKNOWN = "unknown-row"  # a witness of no row
    CLAIMED = "claimed"  # a row that results.csv calls sat, without a witness
    MISSING = "missing"  # a row without a witness, of which nothing is claimed


VALID = (Word.EXACT, Word.CORRECT)
HARMLESS = (*VALID, Word.MISSING)


@dataclass(frozen=True)
class Finding:
    """One line of an audit: about a file, or a row that has none."""

    word: Word
    subject: str
    reason: str

    def __str__(self) -> str:
        return f"{self.word.value} {self.subject} - {self.reason}"


def audit_of_query(read: Callable[[], Query], networks: Sequence[NamedNetwork], folder: Path) -> Iterator[Finding]:
    """Every witness below a folder, judged by one query. Raises InputError where there is none, or no query."""
    paths = _some(folder)
    door = _door(read(), networks, {})
    return (_judged(door, path) for path in paths)


def audit_of_rows(jobs: Sequence[Job], folder: Path) -> Iterator[Finding]:
    """Every witness below a folder, judged by the row that it is named after, `<onnx stem>_<vnnlib stem>`, network by
    network; then the rows that have none.

    Where rows of several categories share a name, that of the category which the file's folder is named after counts.
    Raises InputError where there is neither a witness nor a results.csv.
    """
    claimed = _claimed(folder / "results.csv")
    paths = _some(folder) if claimed is None else list(witnesses_in(folder))
    mine: dict[int, list[Path]] = {}
    named: dict[str, list[int]] = {}
    for number, job in enumerate(jobs):
        named.setdefault(job.stem, []).append(number)
    for path in paths:
        stem = path.name.removesuffix(".gz").removesuffix(_END)
        rows = named.get(stem, [])
        exact = [number for number in rows if jobs[number].category == path.parent.name] or rows
        if exact:
            mine.setdefault(exact[0], []).append(path)
        elif path.name.removesuffix(".gz").endswith(_END):
            yield Finding(Word.UNKNOWN, str(path), "no row of the table has this name")
    for group in by_network(jobs):
        made: dict[Any, Network] = {}
        for number in group:
            if number in mine:
                yield from _judged_row(jobs[number], mine[number], made)
    for number, job in enumerate(jobs):
        if job.fault:
            yield from (Finding(Word.UNREADABLE, str(path), job.fault) for path in mine.get(number, ()))
        if number not in mine and (claimed is None or {job.stem, f"{job.onnx},{job.vnnlib}"} & claimed):
            word, reason = (Word.MISSING, "no witness") if claimed is None else (Word.CLAIMED, "sat, but no witness")
            yield Finding(word, f"{job.onnx} {job.vnnlib}", reason)


def tally(findings: Iterable[Finding]) -> str:
    """How many of each word."""
    words = [finding.word for finding in findings]
    counts = [f"{words.count(word)} {word.value}" for word in Word if word in words]
    return ", ".join(counts) or "no witnesses"


def _some(folder: Path) -> list[Path]:
    paths = list(witnesses_in(folder))
    if not paths:
        raise InputError(f"{folder}: holds no witness: neither files *{_END}[.gz] or *.txt[.gz] nor folders of tensors")
    return paths


def _door(query: Query, networks: Sequence[NamedNetwork], made: dict[Any, Network]) -> Door:
    models = assign(query, [(network.name, network.path) for network in networks])
    return Door(query, [network.reference for network in as_networks(models, query, made)])


def _judged_row(job: Job, paths: Sequence[Path], made: dict[Any, Network]) -> Iterator[Finding]:
    assert job.question is not None
    try:
        door = _door(job.question.query(), job.networks, made)
    except (FalsifierError, MemoryError) as error:
        yield from (Finding(Word.UNREADABLE, str(path), str(error)) for path in paths)
        return
    yield from (_judged(door, path) for path in paths)


def _judged(door: Door, path: Path) -> Finding:
    try:
        verdict = door.replay(read_witness_file(door.query, path).inputs)
    except (InputError, EngineError, MemoryError) as error:
        reason = re.sub(rf"^{re.escape(str(path))}(:\d+)?: ", "", str(error))  # the name is said already
        return Finding(Word.UNREADABLE, str(path), reason)
    word = Word(verdict.class_.value) if isinstance(verdict, Witness) else Word.REJECTED
    return Finding(word, str(path), verdict.reason)


def _claimed(path: Path) -> set[str] | None:
    """The rows that a results.csv calls sat, as written and by the names of their files; None where there is none.

    Raises InputError.
    """
    if not path.is_file():
        return None
    claimed = set()
    for row in csv.reader(io.StringIO(read_text(path))):
        if len(row) > 4 and row[4].strip() == Verdict.SAT.value:
            networks = parse_network(row[1])
            claimed.add(f"{row[1].strip()},{row[2].strip()}")
            claimed.add("_".join([*(stem_of(n.path) for n in networks), stem_of(Path(row[2].strip()))]))
    return claimed
