"""Vectors in k-d trees (scipy), of which any within a distance is asked for.

Their axes are the principal ones, which is what makes few leaves meet a ball: outputs of a network spread along few
directions. A tree cannot grow, so there are several of geometric sizes, and what comes is built into one with all that
are no larger than twice its size: every vector is built in about log2(n / 1000) times, for less than a microsecond
each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_LEAF = 32
_GROWTH = 2  # a tree is at least so many times as large as the next one
_SLACK = 0.5  # what a leaf holds counts only where its box is nearer than 1 / 1.5 of the distance asked for
_SAMPLED, _LEAVES = 64, 1024  # vectors and leaves by which it is measured what a search meets
_WIDE = 30.0  # distances from the middle, beyond which a vector has no say in the axes


class Trees:
    """`[size, d]` vectors. `radius`: the distance that is asked for (not squared)."""

    def __init__(self, radius: float) -> None:
        self._radius = radius
        self._trees: list[tuple[Any, Array]] = []  # scipy's, and its vectors as they came; the largest first
        self._middle, self._axes = np.zeros(0), np.zeros((0, 0))
        self.met = 0.0  # how many vectors lie in the leaves of the largest tree that a search meets, on the average

    def near(self, rows: Array) -> Array:
        """bool `[k]`: whether one is within the radius of `rows` `[k, d]`. Some 0.5 % are missed that are just so."""
        near = np.zeros(len(rows), np.bool_)
        if not self._trees:
            return near
        turned = self._turned(rows)
        for tree, _ in self._trees:
            open_ = np.flatnonzero(~near)
            if not open_.size:
                break
            found, _ = tree.query(turned[open_], 1, eps=_SLACK, distance_upper_bound=self._radius * (1 + 1e-6))
            near[open_] = found <= self._radius
        return near

    def add(self, rows: Array) -> None:
        """Keep `[k, d]`."""
        from scipy.spatial import cKDTree

        while self._trees and len(self._trees[-1][1]) <= _GROWTH * len(rows):
            rows = np.concatenate([self._trees.pop()[1], rows])
        alone = not self._trees
        if alone:
            self._turn(rows)
        tree = cKDTree(self._turned(rows), leafsize=_LEAF, balanced_tree=False)
        self._trees.append((tree, rows))
        if alone:
            self.met = self._measured(tree)

    def _measured(self, tree: Any) -> float:
        draws = np.random.Generator(np.random.PCG64(1))
        points = tree.data[draws.integers(0, tree.n, _SAMPLED)]
        count = tree.n // _LEAF
        if not count:
            return float(tree.n)
        leaves = tree.data[tree.indices[: count * _LEAF].reshape(count, _LEAF)[draws.permutation(count)[:_LEAVES]]]
        low, high = leaves.min(axis=1), leaves.max(axis=1)
        shares = []
        for point in points:
            gap = np.maximum(np.maximum(low - point, point - high), 0)
            shares.append(float(((gap**2).sum(axis=1) <= self._radius**2).mean()))
        return float(np.mean(shares)) * float(tree.n)

    def _turned(self, rows: Array) -> Array:
        return np.asarray((rows.astype(np.float64) - self._middle) @ self._axes)

    def _turn(self, rows: Array) -> None:
        """Axes along which the vectors spread most, those far out left aside: one of 10^15 would leave no digits."""
        wide = rows.astype(np.float64)
        self._middle = np.median(wide, axis=0)
        spread = np.median(np.abs(wide - self._middle), axis=0) + self._radius
        inner = np.clip(wide - self._middle, -_WIDE * spread, _WIDE * spread)
        self._axes = np.linalg.eigh(inner.T @ inner)[1][:, ::-1]
