"""Cutting a batch into chunks: by memory, near a deadline also by measured speed, halved when memory runs out.

A chunk never decides what a row gets, only when. Rows that the budget leaves no room for come back filled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from falsifier.arrays import Array, full, is_numpy, is_out_of_memory, namespace, wait_for
from falsifier.budget import Budget
from falsifier.errors import EngineError
from falsifier.records import record

_FIRST_LANES = 64  # of a kind of run whose speed is not known yet
_REFUSED = 16  # lanes that a kind of run which has not worked yet may fail on, one by one
_AHEAD = 0.05  # seconds of work that a device is given before its speed is read again
_SHARE = 4  # near a deadline a chunk takes at most 1 / _SHARE of the time left


@record
class Column:
    """One result of a run: its value in rows that are left out, and its width (None: one number per row)."""

    fill: float
    width: int | None = None


@dataclass
class Chunks:
    """Runs batches of one problem. `like`: an array of the engine's kind; `lanes`: how many fit in memory, by kind."""

    like: Array
    budget: Budget | None
    lanes: Callable[[str], int]
    _works: set[str] = field(default_factory=set)
    _limit: dict[str, int] = field(default_factory=dict)
    _seconds: dict[str, float] = field(default_factory=dict)
    _queued: float = 0.0  # seconds of work that a device may still have before it

    def run(
        self, kind: str, body: Callable[[slice], list[Array]], lanes: int, columns: Sequence[Column], cost: int = 1
    ) -> list[Array]:
        """`body` over all lanes, part by part, results joined; each lane costs `cost` evaluations.

        Raises what `body` raises, MemoryError and its like only where a single lane does not fit. Where an engine that
        works refuses some lanes, say for an index out of range, those are filled.
        """
        parts: list[list[Array]] = []
        done = 0
        while done < lanes:
            size = self._size(kind, cost)
            if size <= 0:
                break
            size = -(-(lanes - done) // math.ceil((lanes - done) / size))  # equal ones: a small last one is slow
            try:
                with np.errstate(all="ignore"):  # infinities and NaN are results here, not faults
                    parts.append(self._timed(kind, body, slice(done, done + size)))
            except (MemoryError, RuntimeError) as error:
                if isinstance(error, EngineError):
                    parts.append(self._apart(kind, body, range(done, done + size), columns, error))
                elif not is_out_of_memory(error) or size == 1:
                    raise
                else:
                    self._limit[kind] = size // 2
                    continue
            else:
                self._works.add(kind)
            done += size
            if self.budget is not None:
                self.budget.charge(size * cost)
        if done < lanes or not parts:
            parts.append(self._filled(lanes - done, columns))
        return self._joined(parts)

    def _joined(self, parts: list[list[Array]]) -> list[Array]:
        if len(parts) == 1:
            return parts[0]
        xp = namespace(self.like)
        return [xp.concat(list(column), axis=0) for column in zip(*parts, strict=True)]

    def _filled(self, lanes: int, columns: Sequence[Column]) -> list[Array]:
        return [full((lanes,) if c.width is None else (lanes, c.width), c.fill, self.like) for c in columns]

    def _apart(
        self, kind: str, body: Callable[[slice], list[Array]], lanes: range, columns: Sequence[Column], error: Exception
    ) -> list[Array]:
        """The lanes of a chunk that failed, in ever smaller parts. Raises `error` where a kind of run never works."""
        parts: list[list[Array]] = []
        left, refused = [lanes], 0
        while left:
            piece = left.pop()
            try:
                if len(piece) == len(lanes):  # known to fail
                    raise error
                with np.errstate(all="ignore"):
                    parts.append(body(slice(piece.start, piece.stop)))
                self._works.add(kind)
            except EngineError:
                half = len(piece) // 2
                if half:
                    left += [piece[half:], piece[:half]]
                    continue
                refused += 1
                if kind not in self._works and (refused == _REFUSED or not left):
                    raise error from None
                parts.append(self._filled(1, columns))
        return self._joined(parts)

    def _timed(self, kind: str, body: Callable[[slice], list[Array]], part: slice) -> list[Array]:
        """One chunk; its speed is noted where a deadline needs it."""
        if self.budget is None or math.isinf(self.budget.deadline):
            return body(part)
        lanes = part.stop - part.start
        if kind in self._seconds and not is_numpy(self.like):
            # A device works in the background: to wait for every run would leave it idle between them.
            self._queued += self._seconds[kind] * lanes
            if self._queued <= min(_AHEAD, self.budget.remaining() / (2 * _SHARE)):
                return body(part)
        wait_for(self.like)
        start = self.budget.clock()
        result = body(part)
        wait_for(self.like)
        self._seconds[kind], self._queued = (self.budget.clock() - start) / lanes, 0.0
        return result

    def _size(self, kind: str, cost: int) -> int:
        """How many lanes the next chunk may have; 0 where the budget is spent."""
        if kind not in self._limit:
            self._limit[kind] = self.lanes(kind)
        limit = self._limit[kind]
        if self.budget is None:
            return limit
        limit = int(min(limit, self.budget.evaluations_left() // cost))
        if math.isinf(self.budget.deadline):
            return limit
        left = self.budget.remaining()
        if left <= 0:
            return 0
        if kind not in self._seconds:
            return min(limit, _FIRST_LANES)
        return min(limit, max(1, int(left / _SHARE / max(self._seconds[kind], 1e-9))))
