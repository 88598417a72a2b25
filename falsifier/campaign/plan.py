"""The plan of a campaign: which questions it asks, read from the competition's instances.csv. No query is opened here.

A row that cannot be used costs itself alone: it becomes a job with a fault, which the record shows as `error`.
"""

from __future__ import annotations

import csv
import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from falsifier.campaign.contents import Content, content_of
from falsifier.errors import InputError
from falsifier.input_file import TEXT, demand_size, limit_or, opened
from falsifier.instance import LINE_ENDS, NamedNetwork, parse_network, parse_seconds

if TYPE_CHECKING:
    from falsifier.network import Network
    from falsifier.query.tree import Query
    from falsifier.spec import Rounding, Spec

DEFAULT_TIMEOUT = 60.0  # seconds of an instance whose row gives none
_VERSIONS = ("1.0", "2.0")  # folders of a benchmark that hold an instances.csv each


class Question(Protocol):
    """What a job asks."""

    @property
    def direct(self) -> bool:
        """Whether `part` needs no query."""
        ...

    @property
    def bytes(self) -> int:
        """About how much memory the parsed query takes."""
        ...

    @property
    def digest(self) -> str:
        """Sha256 of what is asked: equal only where a witness of one is one of the other.

        Raises InputError and OSError.
        """
        ...

    def query(self) -> Query:
        """The query, read anew at every call. Raises InputError."""
        ...

    def spec(self, query: Query | None, network: Network, rounding: Rounding) -> Spec:
        """The question compiled for a network that its query was bound to. Raises InputError, UnsupportedError."""
        ...


@dataclass(frozen=True)
class QueryFile:
    """A question in a file."""

    path: Path
    direct: ClassVar[bool] = False

    @property
    def bytes(self) -> int:
        try:
            return os.stat(self.path).st_size * (32 if self.path.suffix == ".gz" else 4)
        except OSError:
            return 0

    @property
    def digest(self) -> str:
        with opened(self.path) as file:
            demand_size(file, str(self.path), limit_or(TEXT))
            return hashlib.file_digest(file, "sha256").hexdigest()

    def query(self) -> Query:
        from falsifier.query import read

        return read(self.path)

    def spec(self, query: Query | None, network: Network, rounding: Rounding) -> Spec:
        from falsifier.spec import compile_query

        reference = network.reference
        types = [tensor.dtype for tensor in reference.inputs]
        return compile_query(query or self.query(), reference.dtype, rounding, types=types)


@dataclass(frozen=True)
class Job:
    """One instance of a campaign.

    onnx, vnnlib: as the row has them, for the results; stem: of its witness file; limit: seconds of its own clock;
    network: content of its files, equal for jobs that can share batches; fault: why it cannot be run, empty where it
    can; repeat: how many rows before it read the same; network_hash, query_hash: sha256 of the contents of its files,
    empty where they cannot be read; number: its place in the whole plan, from 1.
    """

    category: str
    onnx: str
    vnnlib: str
    limit: float
    networks: tuple[NamedNetwork, ...] = ()
    question: Question | None = None
    stem: str = ""
    network: str = ""
    fault: str = ""
    repeat: int = 0
    network_hash: str = ""
    query_hash: str = ""
    number: int = 0

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What a record knows it by: its row, and which of the rows that read the same it is."""
        return self.category, self.onnx, self.vnnlib, self.repeat


def read_instances(path: Path, *, timeout: float | None = None, category: str | None = None) -> list[Job]:
    """The jobs of an instances.csv: rows `onnx,vnnlib[,timeout]`, paths relative to the file.

    timeout: the most that a row gets, in seconds. category: instead of the name of the folder that the file is in.

    Raises InputError where the file itself cannot be read.
    """
    rows = list(_rows(path))
    name = category or _category(path)
    jobs: list[Job] = []
    seen: dict[tuple[Any, ...], int] = {}
    for line, fields in rows:
        try:
            job = _job(path, fields, timeout, name)
            same = seen.setdefault(_identity(job), line)
            if same != line:
                raise InputError(f"the same networks and query as in line {same}: each pair is run once")
        except InputError as error:
            onnx, vnnlib = (*fields[:2], "", "")[:2]
            job = Job(name, onnx, vnnlib, 0.0, fault=f"{path}:{line}: {error}")
        jobs.append(job)
    return jobs


def arranged(jobs: Iterable[Job]) -> list[Job]:
    """Jobs with what depends on all of them: the content of their networks, and witness names of their own.

    Where two jobs of a category would write the same file, the folders of network and query join the name.
    """
    contents: dict[Path, Content] = {}
    rows: Counter[tuple[str, str, str, int]] = Counter()
    known: list[Job] = []
    for each in jobs:
        job = _told(_with_content(each, contents))
        known.append(replace(job, repeat=rows[job.key], number=len(known) + 1))
        rows[job.key] += 1
    owners: dict[tuple[str, str], int] = {}
    for job in known:
        owners[job.category, job.stem] = owners.get((job.category, job.stem), 0) + 1
    taken: set[tuple[str, str]] = set()
    out = []
    for job in known:
        stem = job.stem
        if owners[job.category, stem] > 1 and not job.fault:
            stem = _long_stem(job)
        number, free = 1, stem
        while (job.category, free) in taken and not job.fault:
            number += 1
            free = f"{stem}_{number}"
        taken.add((job.category, free))
        out.append(replace(job, stem=free))
    return out


def by_network(jobs: Sequence[Job]) -> list[list[int]]:
    """Numbers of the jobs without a fault, those with the same networks together, in order of first appearance."""
    groups: dict[str, list[int]] = {}
    for number, job in enumerate(jobs):
        if not job.fault:
            groups.setdefault(job.network, []).append(number)
    return list(groups.values())


def in_text(name: str) -> str:
    """A name as UTF-8 has it, since results and databases hold nothing else; other bytes are shown as `\\xff`."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _told(job: Job) -> Job:
    """A job whose texts can be kept; what it opens stays."""
    return replace(
        job,
        category=in_text(job.category),
        onnx=in_text(job.onnx),
        vnnlib=in_text(job.vnnlib),
        stem=in_text(job.stem),
        fault=in_text(job.fault),
    )


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line numbers and fields of rows that hold something; a header is passed over."""
    try:
        with opened(path) as raw, TextIOWrapper(raw, encoding="utf-8-sig", newline="") as file:
            demand_size(raw, str(path), limit_or(TEXT))
            reader = csv.reader(file)
            for fields in reader:
                row = [field.strip() for field in fields]
                if not any(row) or [field.lower() for field in row[:2]] == ["onnx", "vnnlib"]:
                    continue
                if row[0].startswith("[") and len(row) > 3:  # a list of networks that nobody quoted
                    row = [", ".join(row[:-2]), *row[-2:]]
                yield reader.line_num, row
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (csv.Error, UnicodeDecodeError):
        raise InputError(f"{path}: not a table of text; for a model give samples with --dataset") from None


def _job(path: Path, fields: list[str], timeout: float | None, category: str) -> Job:
    if len(fields) not in (2, 3) or not all(fields[:2]):
        raise InputError(f"{len(fields)} columns where onnx,vnnlib,timeout are expected")
    onnx, vnnlib = fields[:2]
    limit = parse_seconds(fields[2]) if fields[2:] and fields[2] else timeout or DEFAULT_TIMEOUT
    named = [NamedNetwork(n.name, _found(path.parent, n.path, "network")) for n in parse_network(onnx)]
    query = _found(path.parent, Path(vnnlib.strip(LINE_ENDS)), "query")
    stem = "_".join([*(stem_of(n.path) for n in named), stem_of(query)])
    limit = limit if timeout is None else min(limit, timeout)
    return Job(category, onnx, vnnlib, limit, tuple(named), QueryFile(query), stem)


def _identity(job: Job) -> tuple[Any, ...]:
    """Equal for rows that ask the same."""
    query = job.question.path.resolve() if isinstance(job.question, QueryFile) else job.question
    return (query, *((network.name, network.path.resolve()) for network in job.networks))


def _found(folder: Path, path: Path, what: str) -> Path:
    """The file of that name beside instances.csv, or in the working folder; perhaps packed. Raises InputError."""
    for base in (folder, Path()):
        for name in (path.name, f"{path.name}.gz"):
            candidate = base / path.parent / name
            if candidate.is_file():
                return candidate
    place = "" if path.is_absolute() else f" in {folder.absolute()}"
    raise InputError(f"the {what} {path} does not exist{place}")


def _category(path: Path) -> str:
    folder = path.absolute().parent
    return (folder.parent if folder.name in _VERSIONS else folder).name or "instances"


def stem_of(path: Path) -> str:
    """A file's name in the name of a witness file."""
    name = path.name.removesuffix(".gz")
    return name.removesuffix(".onnx").removesuffix(".vnnlib")


def _long_stem(job: Job) -> str:
    """A stem with the names of the folders that the files are in."""
    query = job.question.path if isinstance(job.question, QueryFile) else Path(job.vnnlib)
    paths = [*(network.path for network in job.networks), query]
    return "_".join(f"{path.absolute().parent.name}_{stem_of(path)}" for path in paths)


def _with_content(job: Job, known: dict[Path, Content]) -> Job:
    if job.fault or job.question is None:
        return job
    try:
        for network in job.networks:
            if network.path not in known:
                known[network.path] = content_of(network.path)
        query = job.question.digest
    except InputError as error:
        return replace(job, fault=str(error))
    except OSError as error:
        return replace(job, fault=f"{error.filename}: cannot be read: {error.strerror}")
    contents = [(network.name, known[network.path]) for network in job.networks]
    digest = hashlib.sha256(repr([(name, content.digest) for name, content in contents]).encode()).hexdigest()
    return replace(job, network=repr(contents), network_hash=digest, query_hash=query)
