"""Gaussian noise around the parent: the paper's random operator (paper A, 11)."""

from __future__ import annotations

from dataclasses import dataclass

from falsifier.arrays import Array, Rng
from falsifier.search.batch import Batch


@dataclass(frozen=True)
class Noise:
    """x + r, r normal with standard deviation eta / 2."""

    slopes: int = 0
    name: str = "random"

    def __call__(self, batch: Batch, eta: Array, rng: Rng) -> Array:
        return batch.x + 0.5 * eta * rng.normal(tuple(batch.x.shape), batch.x)
