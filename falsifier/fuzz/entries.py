"""The points worth mutating, with lineage (source paper B1), and the draw of parents (B2).

Axes: e entry, n flat input, d coverage vector.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Rng

Array = NDArray[Any]

_RECENT = 128  # entries that count as recent
_BEST = 64  # entries that count as nearest to a hit
_BYTES = 1 << 30  # of points and vectors together, before entries are evicted


class Entries:
    """Entries in the order of their admission. The first `starts` of them are their own oldest ancestors and stay.

    points: `[e, n]`; vectors: `[e, d]`, coverage; parent, oldest: positions `[e]` (-1: evicted, or none); depth `[e]`;
    score `[e]`. When `limit` is reached, every second entry of the older half leaves, starts and best scores excepted.
    """

    def __init__(self, starts: Array, vectors: Array, limit: int | None = None) -> None:
        self.starts = len(starts)
        row = starts.shape[1] * starts.dtype.itemsize + vectors.shape[1] * vectors.dtype.itemsize + 32
        self.limit = max(limit or _BYTES // row, 4 * self.starts + 64)
        self.points, self.vectors = starts.copy(), vectors.copy()
        self.count = len(starts)
        self.parent = np.full(self.count, -1)
        self.oldest = np.arange(self.count)
        self.depth = np.zeros(self.count, np.int64)
        self.score = np.full(self.count, -1e300)
        self.ids = np.arange(self.count)  # never used twice, and starts come first
        self._top = self._best_of(np.arange(self.count))
        self.admitted = self.count  # so far, evicted ones included
        self.evicted = 0

    def __len__(self) -> int:
        return self.count

    def add(self, points: Array, vectors: Array, parents: Array, score: Array) -> None:
        """Admit `[k, n]` points, children of entries `[k]`."""
        k = len(points)
        if self.count + k > self.limit:
            parents = self._evict(parents)
        if self.count + k > len(self.points):
            self._grow(max(2 * len(self.points), self.count + k))
        at = slice(self.count, self.count + k)
        self.points[at], self.vectors[at], self.parent[at] = points, vectors, parents
        known = parents >= 0
        self.oldest[at] = np.where(known, self.oldest[parents], 0)
        self.depth[at] = np.where(known, self.depth[parents] + 1, 0)
        self.score[at] = score
        self.ids[at] = self.admitted + np.arange(k)
        self._top = self._best_of(np.concatenate([self._top, np.arange(self.count, self.count + k)]))
        self.count += k
        self.admitted += k

    def restore(
        self, points: Array, vectors: Array, parents: Array, ids: Array, oldest: Array, depth: Array, score: Array
    ) -> None:
        """Entries of an earlier session, with what they had there; parents are positions."""
        first = self.count
        self.add(points, vectors, parents, score)
        at = slice(first, self.count)
        self.ids[at], self.oldest[at], self.depth[at] = ids, oldest, depth
        self.admitted = int(ids[-1]) + 1

    def choose(self, rng: Rng, count: int, *, scored: bool) -> Array:
        """`[count]` positions: half of recent entries, the rest uniform; where `scored`, a part of the best ones."""
        e = self.count
        every = rng.integers(0, e, (count,))
        recent = e - 1 - rng.integers(0, min(e, _RECENT), (count,))
        turn = rng.uniform((count,))
        chosen = np.where(turn < 0.5, recent, every)
        if scored:
            best = self._top
            chosen = np.where(turn > 0.7, best[rng.integers(0, len(best), (count,))], chosen)
        return np.asarray(chosen)

    def _best_of(self, positions: Array) -> Array:
        """The positions with the best scores, at most 64."""
        if len(positions) <= _BEST:
            return positions
        return np.asarray(positions[np.argpartition(self.score[positions], len(positions) - _BEST)[-_BEST:]])

    def _grow(self, size: int) -> None:
        extra = size - len(self.points)
        self.points = np.concatenate([self.points, np.zeros((extra, self.points.shape[1]), self.points.dtype)])
        self.vectors = np.concatenate([self.vectors, np.zeros((extra, self.vectors.shape[1]), self.vectors.dtype)])
        self.parent, self.oldest, self.depth, self.ids = (
            np.concatenate([a, np.zeros(extra, np.int64)]) for a in (self.parent, self.oldest, self.depth, self.ids)
        )
        self.score = np.concatenate([self.score, np.zeros(extra)])

    def _evict(self, parents: Array) -> Array:
        """Make room; returns `parents` with their new positions."""
        kept = np.ones(self.count, np.bool_)
        kept[self.starts : max(self.starts, self.count // 2) : 2] = False
        kept[self._top] = True
        place = np.where(kept, np.cumsum(kept) - 1, -1)
        rows = np.flatnonzero(kept)
        size = len(rows)
        self.points[:size], self.vectors[:size] = self.points[rows], self.vectors[rows]
        old = self.parent[rows]
        self.parent[:size] = np.where(old >= 0, place[old], -1)
        self.oldest[:size] = place[self.oldest[rows]]
        self.depth[:size], self.score[:size] = self.depth[rows], self.score[rows]
        self.ids[:size] = self.ids[rows]
        self._top = place[self._top]
        self.evicted += self.count - size
        self.count = size
        return np.where(parents >= 0, place[parents], -1)
