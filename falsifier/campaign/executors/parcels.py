"""The files of a unit by their content: what is sent to a machine once, whatever units need it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from falsifier.campaign.plan import Job, QueryFile
from falsifier.campaign.units import Unit
from falsifier.errors import InputError
from falsifier.input_file import MODEL, demand_size, limit_or, opened
from falsifier.network.external_files import external_data


@dataclass(frozen=True)
class Parcel:
    """Files that lie together: a query, or a network and the files that its tensors lie in.

    key: equal where names and contents are; files: by their names, relative to the folder of the first.
    """

    key: str
    files: Mapping[str, Path]

    def read(self) -> dict[str, bytes]:
        """What they hold. Raises InputError for what is no file any more, OSError where reading fails."""
        return {name: _content(path) for name, path in self.files.items()}


class Parcels:
    """The parcels of paths, each looked at once."""

    def __init__(self) -> None:
        self._known: dict[Path, Parcel | None] = {}

    def of(self, unit: Unit) -> dict[Path, Parcel]:
        """By the path of their first file. What cannot be read is left out: whoever runs the job says so."""
        found = {}
        for path in _paths(unit):
            if path not in self._known:
                self._known[path] = _parcel(path)
            parcel = self._known[path]
            if parcel is not None:
                found[path] = parcel
        return found


def moved(unit: Unit, places: Mapping[Path, Path]) -> Unit:
    """The unit with its files at other places."""

    def job_there(job: Job) -> Job:
        networks = tuple(replace(named, path=places.get(named.path, named.path)) for named in job.networks)
        question = job.question
        if isinstance(question, QueryFile):
            question = QueryFile(places.get(question.path, question.path))
        return replace(job, networks=networks, question=question)

    return replace(unit, jobs=tuple(map(job_there, unit.jobs)))


def _paths(unit: Unit) -> Iterator[Path]:
    for job in unit.jobs:
        yield from (named.path for named in job.networks)
        if isinstance(job.question, QueryFile):
            yield job.question.path


def _parcel(path: Path) -> Parcel | None:
    beside = external_data(path) if path.name.endswith(".onnx") else []
    files = {path.name: path}
    for other in beside:
        name = os.path.relpath(other, path.parent)
        if name.startswith(os.pardir) or os.path.isabs(name):  # outside of the model's folder: it is not sent
            continue
        files[name] = other
    digest = hashlib.sha256()
    try:
        for name, file in files.items():
            with opened(file) as stream:
                if file is path:  # what its tensors lie in may be larger
                    demand_size(stream, str(file), limit_or(MODEL))
                digest.update(f"{name}\0{hashlib.file_digest(stream, 'sha256').hexdigest()}\0".encode())
    except (InputError, OSError):
        return None
    return Parcel(digest.hexdigest(), files)


def _content(path: Path) -> bytes:
    with opened(path) as file:
        return file.read()
