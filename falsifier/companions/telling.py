"""What a companion is told when it starts, and what it tells: records of one head and numbers.

The main process reads bytes of a process that may have gone wrong in any way: nothing is unpickled, every field is
looked at.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MARK = b"FCW1"
_HEAD = struct.Struct("<4sBIQ48sI")  # mark, kind, target, evaluations, stage, numbers that follow
_NUMBER = np.dtype("<f8")


@dataclass(frozen=True)
class Task:
    """The instance and the search that a companion is started for.

    networks: names and paths; query: a path or a text; deadline: a reading of `time.monotonic`, whose clock all
    processes of a machine share.
    """

    networks: list[tuple[str | None, str]]
    query: str
    require: str
    portfolio: str
    budgets: str | None
    rng_seed: int
    deadline: float

    def packed(self) -> bytes:
        """One line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def unpacked(cls, line: bytes) -> Task:
        """The task of such a line."""
        fields = json.loads(line)
        return cls(**fields | {"networks": [(name, path) for name, path in fields["networks"]]})


class Kind(IntEnum):
    """What a record says."""

    STANDS = 0  # how many evaluations were made so far
    HELD = 1  # a point that would do, while a better one is looked for
    FOUND = 2  # a point that ends the search


@dataclass(frozen=True)
class Told:
    """One record. point `[n]` float64, flat over all inputs; empty for `STANDS`."""

    kind: Kind
    target: int
    evaluations: int
    stage: str
    point: NDArray[np.float64]

    def packed(self) -> bytes:
        """The bytes."""
        numbers = np.asarray(self.point, dtype=_NUMBER).tobytes()
        stage = self.stage.encode("ascii", "replace")
        return _HEAD.pack(_MARK, self.kind, self.target, self.evaluations, stage, self.point.size) + numbers


class RubbishError(Exception):
    """Bytes that are no record."""


class Ear:
    """Records from bytes as they come in."""

    def __init__(self, n: int, targets: int) -> None:
        """n: numbers of a point; targets: how many there are."""
        self._n, self._targets, self._bytes = n, targets, bytearray()

    def hear(self, some: bytes) -> Iterator[Told]:
        """The records that are whole now. Raises RubbishError."""
        self._bytes += some
        while len(self._bytes) >= _HEAD.size:
            mark, kind, target, evaluations, stage, size = _HEAD.unpack_from(self._bytes)
            if mark != _MARK or kind > max(Kind) or target >= self._targets or size != (self._n if kind else 0):
                raise RubbishError
            end = _HEAD.size + size * _NUMBER.itemsize
            if len(self._bytes) < end:
                return
            point: NDArray[Any] = np.frombuffer(bytes(self._bytes[_HEAD.size : end]), dtype=_NUMBER)
            del self._bytes[:end]
            name = stage.rstrip(b"\0").decode("ascii", "replace")
            if not (name.isprintable() and np.isfinite(point).all()):
                raise RubbishError
            yield Told(Kind(kind), target, evaluations, name, point)
