"""Edits of text (source paper B3): insert, delete, replace, swap, splice and repeat tokens of an integer input.

Text is a row of token ids. Where the row has a filler (-1), text ends before the first one and its length varies; else
its length is fixed, and what an insertion pushes out at the end is lost.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Rng

Array = NDArray[Any]

FILLER = -1


class Edits:
    """Edits columns `start .. stop` of points, ids in 0 .. size - 1; one to four edits a child."""

    name = "edits"

    def __init__(self, start: int, stop: int, size: int, *, filled: bool, shortest: int = 1) -> None:
        self._part = slice(start, stop)
        self._size, self._filled, self._shortest = size, filled, shortest
        self._edits = (self._insert, self._delete, self._replace, self._swap, self._splice, self._repeat, self._fresh)

    def children(self, parents: Array, oldest: Array, rng: Rng) -> Array:
        out = parents.copy()
        rows = parents[:, self._part].astype(np.int64)
        rounds = 1 + rng.integers(0, 4, (len(rows),))
        for turn in range(4):
            kind = np.where(turn < rounds, rng.integers(0, len(self._edits), (len(rows),)), -1)
            for k, edit in enumerate(self._edits):
                lanes = np.flatnonzero(kind == k)
                if lanes.size:
                    rows[lanes] = edit(rows[lanes], rng)
        out[:, self._part] = rows
        return out

    def _lengths(self, rows: Array) -> Array:
        if not self._filled:
            return np.full(len(rows), rows.shape[1])
        ended = rows == FILLER
        return np.asarray(np.where(ended.any(axis=1), ended.argmax(axis=1), rows.shape[1]))

    def _at(self, length: Array, rng: Rng) -> Array:
        """A position `[b, 1]` in each text."""
        return np.asarray(rng.uniform((len(length),)) * np.maximum(length, 1), np.int64)[:, None]

    def _tokens(self, shape: tuple[int, ...], rng: Rng) -> Array:
        return np.asarray(rng.integers(0, self._size, shape))

    def _insert(self, rows: Array, rng: Rng) -> Array:
        at, place = self._at(self._lengths(rows) + 1, rng), np.arange(rows.shape[1])
        moved = np.concatenate([rows[:, :1], rows[:, :-1]], axis=1)
        new = self._tokens((len(rows), 1), rng)
        return np.where(place < at, rows, np.where(place == at, new, moved))

    def _delete(self, rows: Array, rng: Rng) -> Array:
        length = self._lengths(rows)
        at, place = self._at(length, rng), np.arange(rows.shape[1])
        last = np.full((len(rows), 1), FILLER) if self._filled else self._tokens((len(rows), 1), rng)
        moved = np.concatenate([rows[:, 1:], last], axis=1)
        return np.where((place < at) | (length <= self._shortest)[:, None], rows, moved)

    def _replace(self, rows: Array, rng: Rng) -> Array:
        at = self._at(self._lengths(rows), rng)
        return np.where(np.arange(rows.shape[1]) == at, self._tokens((len(rows), 1), rng), rows)

    def _swap(self, rows: Array, rng: Rng) -> Array:
        length = self._lengths(rows)
        a, b = self._at(length, rng), self._at(length, rng)
        out, lanes = rows.copy(), np.arange(len(rows))[:, None]
        out[lanes, a], out[lanes, b] = rows[lanes, b], rows[lanes, a]
        return out

    def _splice(self, rows: Array, rng: Rng) -> Array:
        """The head of one text and the tail of another, cut at the same place."""
        at = self._at(self._lengths(rows), rng)
        other = rows[rng.permutation(len(rows))]
        mixed = np.where(np.arange(rows.shape[1]) < at, rows, other)
        return mixed if not self._filled else _closed(mixed)

    def _repeat(self, rows: Array, rng: Rng) -> Array:
        """A stretch of the text once more, behind itself."""
        length = self._lengths(rows)
        at, place = self._at(length, rng), np.arange(rows.shape[1])
        size = np.minimum(1 + rng.integers(0, 4, (len(rows), 1)), np.maximum(length[:, None] - at, 0))
        source = np.where(place < at + size, place, place - size)
        return np.take_along_axis(rows, np.maximum(source, 0), axis=1)

    def _fresh(self, rows: Array, rng: Rng) -> Array:
        """Another text, of any length: edits alone stay near the starts for long."""
        other = self._tokens(rows.shape, rng)
        if not self._filled:
            return other
        length = rng.integers(self._shortest, rows.shape[1] + 1, (len(rows), 1))
        return np.where(np.arange(rows.shape[1]) < length, other, FILLER)


def _closed(rows: Array) -> Array:
    """Fillers from the first one on."""
    return np.where(np.cumsum(rows == FILLER, axis=1) > 0, FILLER, rows)
