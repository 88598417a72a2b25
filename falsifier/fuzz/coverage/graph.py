"""Vectors in a graph of neighbours (faiss, HNSW), of which any within a distance is asked for.

A search is as wide as it has to be: a narrow one finds most of what there is to be found, and a wide one is for what
the narrow one did not find.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_LINKS, _BUILT = 16, 32  # links of a node, width of the search for them
_BEAMS = (8, 32)  # widths of the searches, one after the other


class Graph:
    """`[size, d]` vectors. `threshold`: the squared distance that is asked for."""

    def __init__(self, d: int, threshold: float) -> None:
        import faiss

        self._faiss = faiss
        self._threshold = threshold
        self._index = self._faiss.IndexHNSWFlat(d, _LINKS)
        self._index.hnsw.efConstruction = _BUILT

    def near(self, rows: Array) -> Array:
        """bool `[k]`: whether one is within the threshold of `rows` `[k, d]`. Some 0.2 % are missed."""
        near = np.zeros(len(rows), np.bool_)
        for beam in _BEAMS:
            open_ = np.flatnonzero(~near)
            if not open_.size:
                break
            self._index.hnsw.efSearch = beam
            near[open_] = self._index.search(rows[open_], 1)[0][:, 0] <= self._threshold
        return near

    def add(self, rows: Array) -> None:
        """Keep `[k, d]`. Many at once: the library makes a lock for every vector that it has, whatever it is given."""
        threads = self._faiss.omp_get_max_threads()
        self._faiss.omp_set_num_threads(1)  # several would link in whatever order they come
        try:
            self._index.add(np.ascontiguousarray(rows))
        finally:
            self._faiss.omp_set_num_threads(threads)
