"""A constant step, whatever the box: the baseline that knows nothing of scales (paper A, 12)."""

from __future__ import annotations

from dataclasses import dataclass

from falsifier.arrays import Array, full
from falsifier.search.batch import Batch


@dataclass(frozen=True)
class Fixed:
    """eta = step, in units of the inputs."""

    step: float = 0.01
    name: str = "fixed"

    def eta(self, batch: Batch) -> Array:
        return full((1, 1), self.step, batch.x)
