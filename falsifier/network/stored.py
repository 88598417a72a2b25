"""Reading a model without holding its weights more than once.

onnx holds a tensor three times while it is read: as bytes of the file, in the message, and as bytes again behind the
array. Here the message is made without large initializers, and each of them is read from where it lies into its array.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import InputError
from falsifier.input_file import demand_size, opened
from falsifier.network import model as reading
from falsifier.network.wire import LENGTH, Data, MalformedError, bytes_field, fields, number_field, varint

_SMALL = 1 << 20  # bytes of a model that is read as it is
_LARGE = 1 << 15  # bytes of a tensor that stays where it lies
_GRAPH = 7  # a field of a ModelProto
_INITIALIZER = 5  # of a GraphProto
_TYPE, _FLOATS, _RAW, _EXTERNAL, _LOCATION = 2, 4, 9, 13, 14  # of a TensorProto
_KEY, _VALUE = 1, 2  # of a StringStringEntryProto
HERE = ""
"""The location of what lies in the model's own file: no other file has this name."""

_TYPES = {
    1: "<f4",
    2: "u1",
    3: "i1",
    4: "<u2",
    5: "<i2",
    6: "<i4",
    7: "<i8",
    9: "?",
    10: "<f2",
    11: "<f8",
    12: "<u4",
    13: "<u8",
}  # by TensorProto.DataType: what numpy reads as it lies there

Read = Any  # a function from a TensorProto to its array


@contextmanager
def reader(path: Path | None, data: bytes | None, origin: str, limit: int) -> Iterator[tuple[bytes, Read]]:
    """The bytes of a model, large initializers left out, and what reads its initializers, while the context lasts.

    `data`: the bytes, where they are in memory; else those of the file, of at most `limit` bytes. Raises InputError,
    and so does what reads, with the name `origin`.
    """
    with ExitStack() as stack:
        file = None
        if data is None:
            assert path is not None
            file = stack.enter_context(opened(path))
            demand_size(file, str(path), limit)
            size = file.seek(0, 2)
            if size <= _SMALL:
                file.seek(0)
                data, file = file.read(), None
        if file is not None:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                text = _framed(mapped)
        else:
            assert data is not None
            text = _framed(data) if len(data) > _SMALL else data
        yield text, _Reader(file, data, None if path is None else path.parent, origin)


class _Reader:
    """Reads initializers: `file` or `data` holds the model itself, `folder` what lies beside it."""

    def __init__(self, file: BufferedReader | None, data: bytes | None, folder: Path | None, origin: str) -> None:
        self._file, self._data, self._folder, self._origin = file, data, folder, origin

    def __call__(self, proto: Any) -> NDArray[Any]:
        """An initializer as an array, half precision widened to float32. Raises InputError where it is cut off."""
        from onnx import TensorProto

        if proto.data_location != TensorProto.EXTERNAL:
            return reading.tensor(proto)
        info = {entry.key: entry.value for entry in proto.external_data}
        offset, location = int(info.get("offset", 0)), info.get("location", HERE)
        if proto.data_type not in _TYPES:
            copy = TensorProto()
            copy.CopyFrom(proto)
            copy.raw_data = self._bytes(location, offset, int(info["length"]) if "length" in info else -1)
            copy.data_location = TensorProto.DEFAULT
            del copy.external_data[:]
            return reading.tensor(copy)
        dtype, shape = np.dtype(_TYPES[proto.data_type]), tuple(proto.dims)
        count = math.prod(shape)
        if location == HERE and self._file is None:
            assert self._data is not None
            found = np.frombuffer(self._data, dtype, count, offset).reshape(shape)
            return reading.widened(found if found.flags.aligned else found.copy())
        array = np.empty(count, dtype)
        with self._open(location) as file:
            file.seek(offset)
            into: Any = array.view(np.uint8)
            if file.readinto(into) != array.nbytes:
                raise InputError(
                    f"{self._origin}: the data of initializer {proto.name!r} is cut off: export the model again"
                )
        return reading.widened(array.reshape(shape))

    def _bytes(self, location: str, offset: int, length: int) -> bytes:
        with self._open(location) as file:
            file.seek(offset)
            return file.read(length)

    @contextmanager
    def _open(self, location: str) -> Iterator[BufferedReader]:
        """A file that tensors lie in. Where it may lie onnxruntime has judged, which has loaded the model before."""
        if location == HERE:
            assert self._file is not None
            yield self._file
            return
        assert self._folder is not None
        with (self._folder / location).open("rb") as file:
            yield file


def _framed(data: Data) -> bytes:
    """A model whose large embedded initializers are said to lie in `HERE`; as it is where it is malformed."""
    try:
        return b"".join(
            bytes_field(_GRAPH, _framed_graph(data, a, b)) if (number, wire) == (_GRAPH, LENGTH) else bytes(data[at:b])
            for at, number, wire, a, b in _spans(data, 0, len(data))
        )
    except MalformedError:
        return bytes(data[:])


def _framed_graph(data: Data, start: int, stop: int) -> bytes:
    return b"".join(
        bytes_field(_INITIALIZER, _framed_tensor(data, a, b))
        if (number, wire) == (_INITIALIZER, LENGTH) and b - a > _LARGE
        else bytes(data[at:b])
        for at, number, wire, a, b in _spans(data, start, stop)
    )


def _framed_tensor(data: Data, start: int, stop: int) -> bytes:
    """A tensor with its place instead of its elements, where these are stored in one piece as numpy reads them."""
    spans = list(_spans(data, start, stop))
    kind = next((varint(data, a, b)[0] for _, number, wire, a, b in spans if (number, wire) == (_TYPE, 0)), 0)
    held = [span for span in spans if span[1] == _RAW or (span[1] == _FLOATS and kind == 1)]
    if kind not in _TYPES or len(held) != 1 or held[0][2] != LENGTH or held[0][4] - held[0][3] < _LARGE:
        return bytes(data[start:stop])
    _, _, _, a, b = held[0]
    place = {"location": HERE, "offset": str(a), "length": str(b - a)}
    entries = [bytes_field(_KEY, key.encode()) + bytes_field(_VALUE, value.encode()) for key, value in place.items()]
    rest = [bytes(data[span[0] : span[4]]) for span in spans if span is not held[0]]
    return b"".join([*rest, *(bytes_field(_EXTERNAL, entry) for entry in entries), number_field(_LOCATION, 1)])


def _spans(data: Data, start: int, stop: int) -> Iterator[tuple[int, int, int, int, int]]:
    """The fields of a message: where it begins, number, wire type, and where its value lies."""
    at = start
    for number, wire, a, b in fields(data, start, stop):
        yield at, number, wire, a, b
        at = b
