"""What a model's file claims, looked at before a library believes it: tensors that are larger than what they hold,
external data outside of the model's folder, functions that call themselves.

Only the frame of the protobuf is walked, without onnx and without reading what the tensors hold: milliseconds for
networks of thousands of nodes, however large. What is malformed is left to onnxruntime, which says so. Its newer
versions refuse most of this themselves; older ones that are supported allocate, or read whatever file is named.
"""

from __future__ import annotations

import errno
import math
import mmap
import os
from pathlib import Path

from falsifier.counted import counted
from falsifier.errors import InputError
from falsifier.input_file import MODEL, opened
from falsifier.network.wire import LENGTH, Data, MalformedError, fields, integers

_GRAPH, _FUNCTIONS = 7, 25  # fields of a ModelProto
_NODE, _INITIALIZER, _SPARSE = 1, 5, 15  # of a GraphProto
_DIMS, _NAME, _EXTERNAL = 1, 8, 13  # of a TensorProto
_DATA = (4, 5, 6, 7, 9, 10, 11)  # its fields that hold elements
_VALUES, _SPARSE_DIMS = 1, 3  # of a SparseTensorProto
_REMEMBERING = b"BatchNormalization"
_PER_BYTE = 8  # elements that a byte holds at most
_MOST_AXES = 64  # of a tensor in numpy
_MOST_NODES = 10**6  # once all functions are written out


def vet(model: str | bytes, folder: str | None, origin: str) -> bool:
    """Look through a model: a path, or bytes whose external data lies in `folder`.

    Returns whether it may remember: onnxruntime writes the statistics that a BatchNormalization in training mode moves
    over the model's own, so that outputs depend on what a session has run before.
    Raises InputError, with the tensor and what is wrong with it.
    """
    try:
        if isinstance(model, bytes):
            return _vet(model, folder, None, origin)
        with opened(model) as file:
            if os.fstat(file.fileno()).st_size == 0:
                return False
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _vet(data, str(Path(model).parent), os.path.realpath(model), origin)
    except MalformedError:
        return False
    except OSError as error:
        if error.errno == errno.ENOMEM:  # no address space
            raise MemoryError(f"{origin}: does not fit into memory") from None
        raise


def _vet(data: Data, folder: str | None, real: str | None, origin: str) -> bool:
    functions = remembers = False
    for number, wire, start, stop in fields(data, 0, len(data)):
        if number == _GRAPH and wire == LENGTH:
            for inner, kind, a, b in fields(data, start, stop):
                if kind == LENGTH and inner == _INITIALIZER:
                    _vet_tensor(data, a, b, folder, real, origin)
                elif kind == LENGTH and inner == _SPARSE:
                    _vet_sparse(data, a, b, origin)
                elif kind == LENGTH and inner == _NODE and not remembers:
                    remembers = data.find(_REMEMBERING, a, b) >= 0
        if number == _FUNCTIONS:
            functions = True
            remembers = remembers or data.find(_REMEMBERING, start, stop) >= 0
    if functions:
        _vet_functions(bytes(data), origin)
    return remembers


def _vet_tensor(data: Data, start: int, stop: int, folder: str | None, real: str | None, origin: str) -> None:
    name, dims, held, external = "", [], 0, {}
    for number, wire, a, b in fields(data, start, stop):
        if number == _DIMS:
            dims += integers(data, wire, a, b)
        elif number == _NAME and wire == LENGTH:
            name = bytes(data[a:b]).decode("utf-8", "replace")
        elif number == _EXTERNAL and wire == LENGTH:
            entry = {n: bytes(data[c:d]) for n, w, c, d in fields(data, a, b) if w == LENGTH}
            external[entry.get(1, b"")] = entry.get(2, b"")
        elif number in _DATA:
            held += b - a + 1  # an empty text is an element too
    _demand_shape(dims, name, origin)
    if b"location" in external:
        held = _size_beside(external[b"location"], folder, real, name, origin)
    if math.prod(dims) > _PER_BYTE * held:
        raise InputError(
            f"{origin}: initializer {name!r} of shape {dims} claims {counted(math.prod(dims), 'element')}, its data "
            f"has {counted(held, 'byte')}: export the model again"
        )


def _vet_sparse(data: Data, start: int, stop: int, origin: str) -> None:
    name, dims = "", []
    for number, wire, a, b in fields(data, start, stop):
        if number == _SPARSE_DIMS:
            dims += integers(data, wire, a, b)
        elif number == _VALUES and wire == LENGTH:
            names = [bytes(data[c:d]) for n, w, c, d in fields(data, a, b) if n == _NAME and w == LENGTH]
            name = b"".join(names).decode("utf-8", "replace")
    _demand_shape(dims, name, origin)
    if math.prod(dims) > MODEL:
        raise InputError(
            f"{origin}: sparse initializer {name!r} of shape {dims} has {math.prod(dims)} elements once it is dense, "
            f"at most {MODEL} are read"
        )


def _demand_shape(dims: list[int], name: str, origin: str) -> None:
    if len(dims) > _MOST_AXES:
        raise InputError(
            f"{origin}: initializer {name!r} has {len(dims)} axes, which no tensor has: export the model again"
        )
    if any(d < 0 for d in dims):
        raise InputError(f"{origin}: initializer {name!r} has the shape {dims}, which no tensor has: export it again")


def _size_beside(raw: bytes, folder: str | None, real: str | None, name: str, origin: str) -> int:
    """The size of a file of external data. Raises InputError where it is none that a model may name."""
    location = os.fsdecode(raw)
    if folder is None:
        raise InputError(
            f"{origin}: initializer {name!r} lies in another file, {location!r}: give the model by its path"
        )
    path = os.path.join(folder, location)
    allowed = {os.path.realpath(folder), os.path.dirname(real or os.path.join(folder, "model"))}
    found = os.path.realpath(path)
    if os.path.isabs(location) or not any(_inside(found, base) for base in allowed):
        raise InputError(
            f"{origin}: initializer {name!r} lies outside of the model's folder, in {location!r}: put that file "
            "beside the model and name it so"
        )
    try:
        with opened(path) as file:
            return os.fstat(file.fileno()).st_size
    except InputError as error:
        why = "which is not there" if not os.path.lexists(path) else f"but {error}"
        raise InputError(
            f"{origin}: initializer {name!r} lies in {location!r}, {why}: put that file beside the model"
        ) from None


def _inside(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def _vet_functions(data: bytes, origin: str) -> None:
    """Demand that functions, written out, end, and in how many nodes."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load_model_from_string(data)
    except DecodeError:
        return
    bodies = {(f.domain, f.name): [(n.domain, n.op_type) for n in f.node] for f in model.functions}
    sizes: dict[tuple[str, str], int] = {}
    for first in bodies:
        stack, open_ = [first], {first}
        while stack:
            name = stack[-1]
            missing = [inner for inner in bodies[name] if inner in bodies and inner not in sizes]
            if not missing:
                sizes[name] = sum(sizes.get(inner, 1) for inner in bodies[name])
                open_.discard(stack.pop())
            elif missing[0] in open_:
                raise InputError(f"{origin}: function {missing[0][1]!r} calls itself: no library runs such a model")
            else:
                stack.append(missing[0])
                open_.add(missing[0])
    total = sum(sizes.get((n.domain, n.op_type), 1) for n in model.graph.node)
    if total > _MOST_NODES:
        raise InputError(
            f"{origin}: its functions, written out, make {total} nodes, at most {_MOST_NODES} are run: simplify it"
        )
