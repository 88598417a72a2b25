"""Coverage by nearest neighbour (source paper B4): a vector is new iff none that is kept lies within a threshold.

Squared L2. Most children lie near their parents, whose vectors are at hand: one subtraction settles them. The rest is
looked up (`kept`), exactly while few vectors are kept. In one batch only so many are looked up, and no more than it
takes to find those that it may add.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import InputError
from falsifier.fuzz.coverage.kept import Kept

Array = NDArray[Any]

_EXACT = 4096  # vectors up to which the search is exact
_LOOKED_UP = 256  # rows of a batch that are looked up, at most
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
        self._most = most
        self._projection: Array | None = None
        if d > _WIDE:
            normal = np.random.Generator(np.random.PCG64(1)).standard_normal((d, _WIDE))
            self._projection = (normal / np.sqrt(_WIDE)).astype(np.float32)
        self._kept = Kept(min(d, _WIDE), threshold, exact if approximate else 1 << 62)
        self.lookups = 0

    @property
    def full(self) -> bool:
        """Whether nothing more is new, for as many are kept as may be."""
        return self.size >= self._most

    @property
    def size(self) -> int:
        """Vectors that are kept."""
        return self._kept.size

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
        if not lanes.size or self.full:
            return lanes[:0]
        rows = self.prepared(vectors[lanes])
        new: list[Array] = []
        room = self._admitted
        for first in range(0, len(rows), self._admitted):
            part = rows[first : first + self._admitted]
            self.lookups += len(part)
            far = np.flatnonzero(~self._kept.near(part))
            far = far[self._apart(part[far])[:room]]
            if far.size:
                self._kept.add(part[far])
                new.append(lanes[first + far])
                room -= far.size
            if not room:
                break
        return np.concatenate(new) if new else lanes[:0]

    def _apart(self, rows: Array) -> Array:
        """Positions of rows that are new to one another as well, the first ones first."""
        with np.errstate(over="ignore", invalid="ignore"):
            squares = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
        before = np.tril(squares <= self.threshold, -1)  # [i, j]: j comes first, and is near
        taken = ~before.any(axis=1)
        for i in np.flatnonzero(~taken).tolist():
            taken[i] = not (before[i] & taken).any()
        return np.flatnonzero(taken)

    def restore(self, vectors: Array) -> None:
        if len(vectors):
            self._kept.add(self.prepared(vectors))
