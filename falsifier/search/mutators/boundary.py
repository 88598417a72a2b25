"""Towards the extremes of the box: every dimension half a step up or down (paper A, 10)."""

from __future__ import annotations

from dataclasses import dataclass

from falsifier.arrays import Array, Rng
from falsifier.search.batch import Batch


@dataclass(frozen=True)
class Boundary:
    """x + eta / 2 * sign(r), r standard normal: a random sign for each lane and dimension."""

    slopes: int = 0
    name: str = "boundary"

    def __call__(self, batch: Batch, eta: Array, rng: Rng) -> Array:
        return batch.x + 0.5 * eta * rng.signs(tuple(batch.x.shape), batch.x)
