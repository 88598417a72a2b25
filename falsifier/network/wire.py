"""The wire format of protobuf, as far as it takes to walk through a message without a library, and to write a field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

LENGTH = 2
"""The wire type of what has a length."""

Data = Any  # bytes or an mmap: what both have is indexing and slicing


class MalformedError(Exception):
    """No protobuf, or one that is cut off."""


def fields(data: Data, start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """The fields of a message: number, wire type, and where the value lies. Raises MalformedError."""
    at = start
    while at < stop:
        key, at = varint(data, at, stop)
        number, wire = key >> 3, key & 7
        if number == 0:  # none has that, but a file of zeros, however long
            raise MalformedError
        begin = at
        if wire == 0:
            _, at = varint(data, at, stop)
        elif wire == LENGTH:
            length, begin = varint(data, at, stop)
            at = begin + length
        elif wire in (1, 5):
            at += 8 if wire == 1 else 4
        else:
            raise MalformedError
        if at > stop:
            raise MalformedError
        yield number, wire, begin, at


def varint(data: Data, at: int, stop: int) -> tuple[int, int]:
    """A number, and where it ends. Raises MalformedError."""
    value = shift = 0
    while at < stop and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise MalformedError


def integers(data: Data, wire: int, start: int, stop: int) -> list[int]:
    """Signed integers of a field, packed or one."""
    found: list[int] = []
    while start < stop and wire in (0, LENGTH):
        value, start = varint(data, start, stop)
        found.append(value - (1 << 64) if value >= 1 << 63 else value)
    return found


def number_field(number: int, value: int) -> bytes:
    """A field that holds a number, 0 or more."""
    return _varint_bytes(number << 3) + _varint_bytes(value)


def bytes_field(number: int, value: bytes) -> bytes:
    """A field that holds bytes, a text or a message."""
    return _varint_bytes(number << 3 | LENGTH) + _varint_bytes(len(value)) + value


def _varint_bytes(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
