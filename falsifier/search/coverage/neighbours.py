"""Coverage by nearest neighbour (source paper B4), exact: what is further than a threshold from all that is kept.

For stores that are small enough to be compared as a whole: one product of matrices, where the activations lie.
`falsifier.fuzz.coverage.nearest` is the one for very many, on the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from falsifier.arrays import (
    Array,
    arange,
    as_int64,
    as_wide,
    full,
    is_numpy,
    namespace,
    stable_order,
    take_rows,
    zeros,
)

_SHARE = 0.05  # of the median squared distance between lanes of the first step
_LARGE = 1e15  # what stands for an infinity; its square is finite
_CANDIDATES = 256  # lanes of one step that are compared with one another, the first ones
_ROUNDS = 8  # in which they settle who comes first


@dataclass
class Neighbours:
    """A lane is novel if its activations are further than `threshold` (squared L2) from all that are kept and from
    those of novel lanes before it in the batch.

    `threshold` None: a twentieth of the median squared distance between lanes of the first step. At most 256 lanes of a
    step are novel, and none is once `most` are kept. Infinities count as large, NaN as 0.
    """

    threshold: float | None = None
    most: int = 4096
    channels: bool = True
    name: str = "neighbours"
    _kept: Array = field(default=None, repr=False)  # [most + 1, w]; the last row takes what is not kept
    _norms: Array = field(default=None, repr=False)  # [most + 1], infinite where nothing is kept
    _count: Array = field(default=None, repr=False)  # [1]
    _reach: Array = field(default=None, repr=False)  # [1], the threshold

    def watch(self, layers: Sequence[str]) -> Sequence[str]:
        return layers

    def novel(self, activations: Array) -> Array:
        rows = _finite(activations)
        if self._kept is None:
            self._begin(rows)
        far = self._far(rows)
        candidates = stable_order(as_int64(~far))[:_CANDIDATES]  # those that are far, in their order, then others
        picked = take_rows(rows, candidates)
        fresh = self._first(picked, take_rows(far, candidates))
        xp = namespace(rows)
        place = self._count + as_int64(fresh).cumsum(0) - 1
        fresh = fresh & (place < self.most)
        place = xp.where(fresh, place, full((1,), self.most, place))
        self._kept[place] = picked
        self._norms[place] = xp.sum(picked * picked, axis=1)
        self._norms[self.most :] = float("inf")
        self._count = self._count + xp.sum(as_int64(fresh))
        novel = far & False
        novel[candidates] = fresh
        return novel

    def figures(self) -> dict[str, int]:
        return {"neighbours": 0 if self._count is None else int(self._count[0])}

    def _begin(self, rows: Array) -> None:
        b, w = rows.shape
        self._kept = zeros((self.most + 1, w), rows)
        self._norms = full((self.most + 1,), float("inf"), rows)
        self._count = as_int64(arange(1, rows))
        if self.threshold is not None:
            self._reach = full((1,), self.threshold, rows)
            return
        xp, half = namespace(rows), b // 2
        self._reach = full((1,), 1.0, rows)
        if half:
            distances = xp.sort(_squares(rows[:half] - rows[half : 2 * half]))
            self._reach = xp.clip(_SHARE * distances[half // 2 : half // 2 + 1], 1e-12, 1e30)

    def _far(self, rows: Array) -> Array:
        """bool `[b]`: nothing that is kept is near. The nearest is found by a product, its distance by a difference."""
        xp = namespace(rows)
        parts = []
        for block in _blocks(rows, self.most):
            part = rows[block]
            nearest = xp.argmin(self._norms - 2 * (part @ self._kept.T), axis=1)
            parts.append(_squares(part - take_rows(self._kept, nearest)) > self._reach)
        return (xp.concat(parts) if len(parts) > 1 else parts[0]) | (self._count == 0)

    def _first(self, rows: Array, far: Array) -> Array:
        """bool `[c]`: rows to take, the first ones first, so that no two are near one another.

        In each round those are taken before which no open row is near, and those near them are out. Chains of more than
        eight stay open, and are not taken.
        """
        xp = namespace(rows)
        order = arange(rows.shape[0], rows)
        wide = as_wide(rows - rows[:1])  # wide: what a product of matrices cancels is beyond single precision
        norms = _squares(wide)
        squares = norms[:, None] + norms[None, :] - 2 * (wide @ wide.T)
        near = (squares <= self._reach) & (order[None, :] < order[:, None])
        taken, open_ = far & False, far
        for _ in range(_ROUNDS):
            ready = open_ & ~xp.any(near & open_[None, :], axis=1)
            taken = taken | ready
            open_ = open_ & ~ready & ~xp.any(near & ready[None, :], axis=1)
        return taken


def _finite(activations: Array) -> Array:
    xp = namespace(activations)
    rows = xp.clip(activations, -_LARGE, _LARGE)
    return xp.where(xp.isnan(rows), zeros((1,), rows), rows)


def _squares(difference: Array) -> Array:
    return namespace(difference).sum(difference * difference, axis=-1)


def _blocks(rows: Array, most: int) -> list[slice]:
    """Parts of the batch whose products with all that is kept stay in a cache, on the host."""
    if not is_numpy(rows):
        return [slice(None)]
    size = max(1, (1 << 20) // most)
    return [slice(first, first + size) for first in range(0, len(rows), size)]
