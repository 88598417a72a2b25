"""The boxes that are neither refuted nor split yet, the worst first out.

Axes: N slot, b box, n flat input.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Boxes:
    """lower, upper `[b, n]`; target `[b]`; axis `[b]`: the input to split by, -1 for a box too small to be split."""

    lower: Floats
    upper: Floats
    target: Ints
    axis: Ints

    def __len__(self) -> int:
        return len(self.target)

    def take(self, index: Any) -> Boxes:
        """Some of them."""
        return Boxes(self.lower[index], self.upper[index], self.target[index], self.axis[index])

    def halves(self) -> Boxes:
        """Each cut in two at the middle of its axis: first all lower halves, then all upper ones."""
        row = np.arange(len(self))
        middle = (self.lower[row, self.axis] + self.upper[row, self.axis]) / 2
        lower, upper = np.concatenate([self.lower] * 2), np.concatenate([self.upper] * 2)
        upper[row, self.axis] = middle
        lower[row + len(self), self.axis] = middle
        return Boxes(lower, upper, np.concatenate([self.target] * 2), np.concatenate([self.axis] * 2))


class Frontier:
    """Slots for boxes, doubled when they are full, at most `most`; a free one has the score -infinity."""

    def __init__(self, n: int, most: int) -> None:
        self._most = most
        self._boxes = Boxes(np.zeros((0, n)), np.zeros((0, n)), np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._score = np.zeros(0)
        self._free = np.zeros(0, np.int64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def room(self, boxes: int) -> bool:
        """Whether this many more find place."""
        return self._count + boxes <= self._most

    def add(self, boxes: Boxes, score: Floats) -> None:
        """Keep boxes by score `[b]`: the upper bound of a margin that is left to refute."""
        if not len(boxes):
            return
        while len(self._free) < len(boxes):
            self._grow()
        slots, self._free = self._free[: len(boxes)], self._free[len(boxes) :]
        for mine, theirs in (
            (self._boxes.lower, boxes.lower),
            (self._boxes.upper, boxes.upper),
            (self._boxes.target, boxes.target),
            (self._boxes.axis, boxes.axis),
        ):
            mine[slots] = theirs
        self._score[slots] = np.minimum(score, np.finfo(float).max)
        self._count += len(boxes)

    def worst(self, count: int) -> Boxes:
        """Take out the boxes with the greatest scores."""
        count = min(count, self._count)
        slots = np.argpartition(self._score, len(self._score) - count)[len(self._score) - count :]
        self._score[slots] = -np.inf
        self._free = np.concatenate([self._free, slots])
        self._count -= count
        return self._boxes.take(slots)

    def _grow(self) -> None:
        size = len(self._score)
        more = max(256, size)
        boxes = self._boxes
        self._boxes = Boxes(
            np.concatenate([boxes.lower, np.zeros((more, boxes.lower.shape[1]))]),
            np.concatenate([boxes.upper, np.zeros((more, boxes.upper.shape[1]))]),
            np.concatenate([boxes.target, np.zeros(more, np.int64)]),
            np.concatenate([boxes.axis, np.zeros(more, np.int64)]),
        )
        self._score = np.concatenate([self._score, np.full(more, -np.inf)])
        self._free = np.concatenate([self._free, np.arange(size, size + more)])
