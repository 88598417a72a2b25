"""The vectors that nearest-neighbour coverage keeps, and whether any of them is near.

The latest are compared one by one, which a product of matrices does. From time to time they go over, many at once,
into trees, or into a graph where trees do not do: in many dimensions a ball meets nearly all of a tree's leaves.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import InputError
from falsifier.fuzz.coverage.graph import Graph
from falsifier.fuzz.coverage.trees import Trees

Array = NDArray[Any]

_LATEST = 1024  # vectors beside trees and graph, at most; or
_PART = 256  # that part of all
_SHARE = 1 / 8  # of a tree that a search may meet, for trees to be taken
_MET = 1 << 13  # vectors that a search may meet, for more to go into trees


class Kept:
    """`[size, d]` vectors. `threshold`: the squared distance that counts as near; `exact`: how many are compared one by
    one before there is anything else."""

    def __init__(self, d: int, threshold: float, exact: int) -> None:
        self._d, self._threshold, self._exact = d, threshold, exact
        self._rows = np.zeros((64, d), np.float32)
        self._norms = np.zeros(64, np.float32)
        self._latest = 0
        self._trees: Trees | None = None
        self._graph: Graph | None = None
        self.size = 0

    def near(self, rows: Array) -> Array:
        """bool `[k]`: whether one within the threshold of `rows` `[k, d]` is kept."""
        near = np.zeros(len(rows), np.bool_)
        if self._latest:
            near = self._nearest_of_latest(rows) <= self._threshold
        for part in (self._trees, self._graph):
            if part is not None:
                open_ = np.flatnonzero(~near)
                near[open_] = part.near(rows[open_])
        return near

    def _nearest_of_latest(self, rows: Array) -> Array:
        """`[k]`: squared distances. The nearest is found by a product, its distance by a difference."""
        with np.errstate(over="ignore", invalid="ignore"):
            latest = self._rows[: self._latest]
            nearest = (self._norms[: self._latest] - 2 * (rows @ latest.T)).argmin(axis=1)
            return np.asarray(((rows - latest[nearest]) ** 2).sum(axis=1))

    def add(self, rows: Array) -> None:
        """Keep `[k, d]`."""
        end = self._latest + len(rows)
        while end > len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
            self._norms = np.concatenate([self._norms, np.zeros_like(self._norms)])
        at = slice(self._latest, end)
        self._rows[at] = rows
        with np.errstate(over="ignore"):
            self._norms[at] = (rows**2).sum(axis=1)
        self._latest = end
        self.size += len(rows)
        first = self._trees is None and self._graph is None
        if self._latest > (self._exact if first else max(_LATEST, self.size // _PART)):
            self._settle(self._rows[: self._latest].copy())
            self._latest = 0

    def _settle(self, rows: Array) -> None:
        if self._graph is None:
            if self._trees is None:
                demand_extra()
                trees = Trees(float(np.sqrt(self._threshold)))
                trees.add(rows)
                if trees.met <= _SHARE * len(rows):
                    self._trees = trees
                    return
            elif self._trees.met <= _MET:
                self._trees.add(rows)
                return
            self._graph = Graph(self._d, self._threshold)
        self._graph.add(rows)


def demand_extra() -> None:
    """Raises InputError without the libraries of the extra."""
    if missing := missing_of_extra():
        raise InputError(
            f"more vectors are kept than are compared one by one: searching them needs {missing}, of the "
            "extra: pip install 'vnn-falsifier[fuzz]' (or give --exact-coverage)"
        )


def missing_of_extra() -> str:
    """Which libraries are missing for searching vectors otherwise than one by one; empty where none is."""
    return " and ".join(name for name in ("scipy", "faiss") if find_spec(name) is None)
