"""Coverage by nearest neighbour (source paper B4): a vector is new iff none that is kept lies within a threshold.

Squared L2. Most children lie near their parents, whose vectors are at hand: one subtraction settles them. The rest is
looked up, exactly while few vectors are kept, in a graph of neighbours (faiss, approximate) beyond. In one batch only
so many are looked up, so that the cost of an evaluation stays flat however many vectors are kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import InputError

Array = NDArray[Any]

_EXACT = 4096  # vectors up to which the search is exact
_LOOKED_UP = 256  # rows of a batch that are looked up, at most
_LINKS, _BEAM = 16, 32  # of the graph of neighbours: links of a node, width of a search
_WIDE = 64  # dimensions above which vectors are projected


class NearestNeighbour:
    """`threshold`: a squared distance; `admitted`: rows of one batch that are kept, at most.

    Vectors of more than 64 dimensions are projected onto 64 random directions, which keeps distances to some 15 %.
    `approximate` False: exact, however many are kept. Once `most` are kept nothing more is new. Entries that are not
    finite count as 0, infinities as large.
    """

    name = "nearest"

    def __init__(
        self,
        d: int,
        threshold: float = 1.0,
        *,
        admitted: int = 64,
        approximate: bool = True,
        exact: int = _EXACT,
        most: int = 1 << 62,
    ) -> None:
        if not threshold > 0:
            raise InputError(f"the threshold of coverage is a positive squared distance, not {threshold:g}")
        self.threshold = threshold
        self._admitted = admitted
        self._exact = exact if approximate else 1 << 62
        self._most = most
        self._projection: Array | None = None
        if d > _WIDE:
            normal = np.random.Generator(np.random.PCG64(1)).standard_normal((d, _WIDE))
            self._projection = (normal / np.sqrt(_WIDE)).astype(np.float32)
        self._d = min(d, _WIDE)
        self._kept = np.zeros((64, self._d), np.float32)
        self._norms = np.zeros(64, np.float32)
        self.size = 0
        self.lookups = 0
        self._graph: Any = None

    def prepared(self, vectors: Array) -> Array:
        """Rows as they are kept."""
        rows = np.nan_to_num(vectors.astype(np.float32, copy=False), nan=0.0, posinf=1e15, neginf=-1e15)
        return rows if self._projection is None else np.clip(rows, -1e15, 1e15) @ self._projection

    def novel(self, vectors: Array, parents: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            difference = vectors - parents
            near = np.einsum("bd,bd->b", difference, difference) <= self.threshold
        lanes = np.flatnonzero(~near)
        if lanes.size > _LOOKED_UP:  # evenly over the batch: mutators and parents are spread over it
            lanes = lanes[np.linspace(0, lanes.size - 1, _LOOKED_UP).astype(int)]
        if not lanes.size or self.size >= self._most:
            return lanes[:0]
        rows = self.prepared(vectors[lanes])
        far = np.flatnonzero(self._distances(rows) > self.threshold)
        taken = self._apart(rows[far])
        if taken:
            self._keep(rows[far[taken]])
        return lanes[far[taken]]

    def _apart(self, rows: Array) -> list[int]:
        """Rows that are new to one another as well, the first ones first."""
        taken: list[int] = []
        with np.errstate(over="ignore", invalid="ignore"):
            for i in range(len(rows)):
                if len(taken) >= self._admitted:
                    break
                if not taken or bool((((rows[taken] - rows[i]) ** 2).sum(axis=1) > self.threshold).all()):
                    taken.append(i)
        return taken

    def restore(self, vectors: Array) -> None:
        if len(vectors):
            self._keep(self.prepared(vectors))

    def _distances(self, rows: Array) -> Array:
        """`[k]`: squared distance to the nearest kept vector."""
        self.lookups += len(rows)
        if not self.size:
            return np.full(len(rows), np.inf)
        if self._graph is not None:
            found = self._graph.search(rows, 1)[0][:, 0]
            return np.asarray(found)
        with np.errstate(over="ignore", invalid="ignore"):
            kept = self._kept[: self.size]
            nearest = (self._norms[: self.size] - 2 * (rows @ kept.T)).argmin(axis=1)
            return np.asarray(((rows - kept[nearest]) ** 2).sum(axis=1))

    def _keep(self, rows: Array) -> None:
        if self._graph is None and self.size + len(rows) > self._exact:
            self._graph = _graph(self._d)
            self._graph.add(self._kept[: self.size])
        if self._graph is not None:
            self._graph.add(np.ascontiguousarray(rows))
        else:
            while self.size + len(rows) > len(self._kept):
                self._kept = np.concatenate([self._kept, np.zeros_like(self._kept)])
                self._norms = np.concatenate([self._norms, np.zeros_like(self._norms)])
            at = slice(self.size, self.size + len(rows))
            self._kept[at] = rows
            with np.errstate(over="ignore"):
                self._norms[at] = (rows**2).sum(axis=1)
        self.size += len(rows)


def _graph(d: int) -> Any:
    try:
        import faiss
    except ImportError:
        raise InputError(
            "more vectors are kept than are searched exactly: approximate search needs faiss, which comes with the "
            "extra: pip install 'vnn-falsifier[fuzz]' (or give --exact-coverage)"
        ) from None
    graph = faiss.IndexHNSWFlat(d, _LINKS)
    graph.hnsw.efSearch = _BEAM
    graph.hnsw.efConstruction = _BEAM
    return graph
