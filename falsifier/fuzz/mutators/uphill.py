"""Steps along an objective's own gradient: to where it says that a hit begins, and beyond by several rates."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Rng
from falsifier.fuzz.objectives import Uphill
from falsifier.fuzz.space import Space

Array = NDArray[Any]


class UphillSteps:
    """Each child is one step from its parent: of Newton's length to value 0, or by a rate of the span, by sign."""

    name = "uphill"
    most = 3  # evaluations of a child of its own: a run forward and back, and one more forward

    def __init__(self, space: Space, objective: Uphill) -> None:
        self._space, self._objective = space, objective
        self.evaluations = 0

    def children(self, parents: Array, oldest: Array, rng: Rng) -> Array:
        b, n = parents.shape
        value, slope = self._objective.uphill(parents, oldest)
        self.evaluations = self.most * b
        wide, span = slope.astype(np.float64), self._space.span.astype(np.float64)
        largest = np.maximum(np.abs(wide).max(axis=1, keepdims=True), 1e-300)
        unit = wide / largest
        rate = 10.0 ** (-4 * rng.uniform((b, 1)))
        by_sign = rate * span * np.sign(unit)
        direction = unit * span**2
        direction /= np.maximum(np.abs(direction).max(axis=1, keepdims=True), 1e-300)
        gain = (unit * direction).sum(axis=1, keepdims=True) * largest
        # to the value 0 and around it: hits of a disagreement lie on both sides of a tie
        share = 1 + 0.05 * rng.normal((b, 1)) + (rng.uniform((b, 1)) < 0.3) * rng.uniform((b, 1))
        newton = -value[:, None] * share / np.maximum(gain, 1e-300) * direction
        move = np.where(rng.uniform((b, 1)) < 0.5, by_sign, newton)
        noise = 0.1 * rate * span * rng.normal((b, n)) * (rng.uniform((b, 1)) < 0.5)
        return np.asarray(parents + np.nan_to_num(move + noise), dtype=parents.dtype)
