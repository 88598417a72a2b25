"""Small hits: the fewest coordinates that differ from the ancestor, then the smallest and plainest differences.

Deterministic passes over `holds(point)`, each of which only ever replaces the point by a smaller one that still holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.fuzz.space import Space

Array = NDArray[Any]

_TRIES = 2000  # points that are tried, by default
_HALVINGS = 12
_SINGLE = 64  # changed coordinates up to which each is made smaller on its own


class _Spent(Exception):  # noqa: N818 - not an error: the end of the tries
    pass


class Minimiser:
    """`holds`: whether a point `[n]` shows the same fault. `tries`: how often it may be asked."""

    def __init__(self, space: Space, holds: Callable[[Array], bool], tries: int = _TRIES) -> None:
        self._space, self._holds, self._left = space, holds, tries
        self.best: Array = np.zeros(0)

    def minimise(self, x: Array, ancestor: Array) -> Array:
        """A point no larger than `x` (`[n]`, which holds), measured from `ancestor` `[n]`."""
        self.best = x.copy()
        try:
            self._fewer(ancestor)
            self._nearer(ancestor)
            self._plainer(ancestor)
        except _Spent:
            pass
        return self.best

    def _consider(self, x: Array) -> bool:
        if np.array_equal(x.view(_BITS[x.itemsize]), self.best.view(_BITS[x.itemsize])):
            return False
        if self._left <= 0:
            raise _Spent
        self._left -= 1
        if not self._holds(x):
            return False
        self.best = x.copy()
        return True

    def _changed(self, ancestor: Array) -> Array:
        return np.flatnonzero(self.best.view(_BITS[ancestor.itemsize]) != ancestor.view(_BITS[ancestor.itemsize]))

    def _fewer(self, ancestor: Array) -> None:
        """Blocks of coordinates back to the ancestor's, from all of them down to single ones."""
        size = max(len(self._changed(ancestor)), 1)
        while size >= 1:
            changed = self._changed(ancestor)
            for start in range(0, len(changed), size):
                x = self.best.copy()
                block = changed[start : start + size]
                x[block] = ancestor[block]
                self._consider(x)
            size = size // 2 if size > 1 else 0

    def _nearer(self, ancestor: Array) -> None:
        """Towards the ancestor: all coordinates together, then one by one, each by halving."""
        changed = self._changed(ancestor)
        blocks = [changed, *(changed[i : i + 1] for i in range(len(changed) if len(changed) <= _SINGLE else 0))]
        for block in blocks:
            if not len(block):
                continue
            far, low, high = self.best[block].copy(), 0.0, 1.0
            for _ in range(_HALVINGS):
                share = (low + high) / 2
                x = self.best.copy()
                x[block] = self._between(ancestor[block], far, share, block)
                if self._consider(x):
                    high = share
                else:
                    low = share

    def _between(self, a: Array, b: Array, share: float, block: Array) -> Array:
        wide = a.astype(np.float64) + share * (b.astype(np.float64) - a.astype(np.float64))
        return np.where(self._space.lattice[block], np.rint(wide), wide).astype(b.dtype)

    def _plainer(self, ancestor: Array) -> None:
        """Fewer digits, where they fit into the ranges and the ball around the ancestor."""
        lower, upper = self._space.ball(ancestor)
        for digits in (0, 1, 2, 3, 4):
            with np.errstate(invalid="ignore", over="ignore"):
                x = np.asarray(np.round(self.best.astype(np.float64), digits), self.best.dtype)
            x[self.best == ancestor] = self.best[self.best == ancestor]
            x = np.where((x >= lower) & (x <= upper) & np.isfinite(x), x, self.best)
            if self._consider(x):
                return


_BITS: dict[int, Any] = {2: np.int16, 4: np.int32, 8: np.int64}
