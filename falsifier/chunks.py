"""Cutting a batch into chunks: by memory, near a deadline also by measured speed, halved when memory runs out.

A chunk never decides what a row gets, only when. Rows that the budget leaves no room for come back filled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from falsifier.arrays import Array, full, is_numpy, is_out_of_memory, namespace
from falsifier.budget import Budget

_FIRST_LANES = 64  # of a kind of run whose speed is not known yet
_SHARE = 4  # near a deadline a chunk takes at most 1 / _SHARE of the time left


@dataclass(frozen=True)
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
    _limit: dict[str, int] = field(default_factory=dict)
    _seconds: dict[str, float] = field(default_factory=dict)

    def run(
        self, kind: str, body: Callable[[slice], list[Array]], lanes: int, columns: Sequence[Column], cost: int = 1
    ) -> list[Array]:
        """`body` over all lanes, part by part, results joined; each lane costs `cost` evaluations.

        Raises what `body` raises, MemoryError and its like only where a single lane does not fit.
        """
        parts: list[list[Array]] = []
        done = 0
        while done < lanes:
            size = min(self._size(kind, cost), lanes - done)
            if size <= 0:
                break
            try:
                with np.errstate(all="ignore"):  # infinities and NaN are results here, not faults
                    parts.append(self._timed(kind, body, slice(done, done + size)))
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error) or size == 1:
                    raise
                self._limit[kind] = size // 2
                continue
            done += size
            if self.budget is not None:
                self.budget.charge(size * cost)
        if done < lanes or not parts:
            left = lanes - done
            parts.append([full((left,) if c.width is None else (left, c.width), c.fill, self.like) for c in columns])
        if len(parts) == 1:
            return parts[0]
        xp = namespace(self.like)
        return [xp.concat(list(column), axis=0) for column in zip(*parts, strict=True)]

    def _timed(self, kind: str, body: Callable[[slice], list[Array]], part: slice) -> list[Array]:
        """One chunk; its speed is noted where a deadline needs it."""
        if self.budget is None or math.isinf(self.budget.deadline):
            return body(part)
        start = self.budget.clock()
        result = body(part)
        if not is_numpy(self.like):
            result[0].reshape(-1)[:1].sum().item()  # a device works in the background until something is read
        self._seconds[kind] = (self.budget.clock() - start) / (part.stop - part.start)
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
