"""The files that a model consists of: its own, and those that its tensors lie in."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from falsifier.errors import InputError
from falsifier.input_file import GZIP, MODEL, limit_or, opened, read_bytes
from falsifier.network.wire import LENGTH, Data, MalformedError, fields, varint

if TYPE_CHECKING:
    from onnx import GraphProto, TensorProto

_LOCATION, _PLACE = 13, 14  # fields of a TensorProto: the entries that say where it lies, and whether it lies elsewhere
_SOON_READ = 1 << 22  # bytes; of larger ones a walk reads less, which passes over what tensors hold
_MODEL = "model"
_TENSOR = "tensor"
_INNER = {
    _MODEL: {7: "graph", 25: "function"},
    "function": {7: "node"},
    "graph": {1: "node", 5: _TENSOR},
    "node": {5: "attribute"},
    "attribute": {5: _TENSOR, 6: "graph", 10: _TENSOR, 11: "graph"},
}
"""By message: the fields that hold messages which may hold tensors."""


def with_external_data(model: Path) -> Iterator[Path]:
    """The file of a model, and those that its tensors lie in."""
    yield model
    yield from external_data(model)


def external_data(model: Path) -> list[Path]:
    """The files that a model's tensors lie in, told without a library; none where there is no model to read."""
    try:
        with opened(model) as file:
            if file.read(2) == GZIP:
                found = _locations(read_bytes(model, limit_or(MODEL)))
            else:
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                    found = _locations(data)
    except (InputError, MalformedError, OSError, ValueError):  # no model, which loading says; nothing maps no bytes
        return []
    return [model.parent / location for location in sorted(found)]


def may_be_beside(model: Path, file: str | os.PathLike[str]) -> bool:
    """Whether a file that is there could be one that tensors of a model lie in: in its folder, or by a further name."""
    folders = {os.path.realpath(model.parent), os.path.dirname(os.path.realpath(model))}
    found = os.path.realpath(file)
    return any(found.startswith(folder.rstrip("/") + "/") for folder in folders) or os.stat(file).st_nlink > 1


def _locations(data: Data) -> set[str]:
    """The names of the files that tensors lie in. Raises MalformedError."""
    if len(data) <= _SOON_READ and data.find(b"location") < 0:  # most models: nothing has to be walked
        return set()
    found: set[str] = set()
    waiting = [(_MODEL, 0, len(data))]
    while waiting:
        message, start, stop = waiting.pop()
        if message == _TENSOR:
            found |= _location(data, start, stop)
            continue
        inner = _INNER[message]
        waiting += [
            (inner[number], a, b)
            for number, wire, a, b in fields(data, start, stop)
            if wire == LENGTH and number in inner
        ]
    return found


def _location(data: Data, start: int, stop: int) -> set[str]:
    elsewhere, found = False, set()
    for number, wire, a, b in fields(data, start, stop):
        if number == _PLACE and wire == 0:
            elsewhere = varint(data, a, b)[0] == 1
        elif number == _LOCATION and wire == LENGTH:
            entry = {n: bytes(data[c:d]) for n, w, c, d in fields(data, a, b) if w == LENGTH}
            if entry.get(1) == b"location":
                found.add(os.fsdecode(entry.get(2, b"")))
    return found - {""} if elsewhere else set()


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    """All tensors of a graph and of the graphs inside its nodes."""
    yield from graph.initializer
    yield from inner_tensors(graph)


def inner_tensors(graph: GraphProto) -> Iterator[TensorProto]:
    """The tensors inside of a graph's nodes, and of the graphs that they hold."""
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _tensors(inner)
