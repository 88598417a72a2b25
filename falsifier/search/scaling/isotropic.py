"""One step for all dimensions, from the mean width of the boxes in the batch (paper A, 13)."""

from __future__ import annotations

from dataclasses import dataclass

from falsifier.arrays import Array, namespace
from falsifier.search.batch import Batch


@dataclass(frozen=True)
class Isotropic:
    """eta = s * mean(upper - lower)."""

    s: float = 0.1
    name: str = "isotropic"

    def eta(self, batch: Batch) -> Array:
        return self.s * namespace(batch.x).mean(batch.width, axis=None, keepdims=True)
