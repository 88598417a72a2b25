"""Ledger: the best margin and point of every target, and which targets are still open. Lives on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_KEPT_VALUES = 1 << 24  # points are kept for as many of the best targets as fit into this many numbers


class Ledger:
    """Margins `[t]` (-infinity: none yet) and best free points of t targets in f free dimensions."""

    def __init__(self, targets: int, free: int) -> None:
        self.margin = np.full(targets, -np.inf)
        self.reach = np.full(targets, -np.inf)  # margin that a first-order step over the whole box promises
        self.open = np.ones(targets, dtype=bool)
        self._capacity = min(targets, max(64, _KEPT_VALUES // max(free, 1)))
        self._owner = np.full(self._capacity, -1)
        self._slot = np.full(targets, -1)
        self._points: NDArray[Any] | None = None
        self._used = 0

    def improving(self, target: NDArray[np.int64], margin: NDArray[np.float64]) -> NDArray[np.int64]:
        """Lanes that beat their target's best margin: the best one per target."""
        if self.margin.size == 1:
            lane = int(np.argmax(margin)) if margin.size else 0
            better = margin.size > 0 and margin[lane] > self.margin[0]
            return np.array([lane] if better else [], dtype=np.int64)
        lanes = np.flatnonzero(margin > self.margin[target])
        if lanes.size < 2:
            return lanes
        lanes = lanes[np.argsort(margin[lanes], kind="stable")]
        best = np.full(self.margin.size, -1, dtype=np.int64)
        best[target[lanes]] = lanes  # the last write, the greatest margin, stays
        return best[best >= 0]

    def raise_margin(self, target: NDArray[np.int64], margin: NDArray[np.float64], points: NDArray[Any]) -> None:
        """Take in better points `[b, f]`, one per target at most."""
        if target.size == 0:
            return
        self.margin[target] = margin
        if self._points is None:
            self._points = np.zeros((self._capacity, points.shape[1]), dtype=points.dtype)
        if self._capacity == self.margin.size:
            self._points[target] = points
            self._slot[target] = target
            return
        best = np.argsort(-margin, kind="stable")[: self._capacity]
        for lane in best.tolist():
            slot = self._claim(int(target[lane]), float(margin[lane]))
            if slot >= 0:
                self._points[slot] = points[lane]

    def _claim(self, aim: int, value: float) -> int:
        """The slot of a target; a full table gives up its worst target if that is worse than `value`, else -1."""
        slot = int(self._slot[aim])
        if slot >= 0:
            return slot
        if self._used < self._capacity:
            slot = self._used
            self._used += 1
        else:
            slot = int(np.argmin(self.margin[self._owner]))
            if self.margin[self._owner[slot]] >= value:
                return -1
            self._slot[self._owner[slot]] = -1
        self._owner[slot] = aim
        self._slot[aim] = slot
        return slot

    def point(self, aim: int) -> NDArray[Any] | None:
        """The best free point `[f]` of a target, None if none is kept."""
        slot = int(self._slot[aim])
        return None if slot < 0 or self._points is None else self._points[slot].copy()

    def known(self, target: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[Any] | None]:
        """Which lanes' targets have a point, and those points `[b, f]` (rows of unknown ones arbitrary)."""
        slot = self._slot[target]
        return slot >= 0, None if self._points is None else self._points[np.maximum(slot, 0)]

    def ranked(self) -> NDArray[np.int64]:
        """Open targets, the most promising first: by the better of margin and first-order reach, ties by margin."""
        aims = np.flatnonzero(self.open)
        promise = np.maximum(self.margin[aims], self.reach[aims])
        return aims[np.lexsort((-self.margin[aims], -promise))]
