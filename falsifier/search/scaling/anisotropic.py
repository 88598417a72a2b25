"""A step for every dimension, from its own width: 1 / s steps cross any dimension (paper A, 14)."""

from __future__ import annotations

from dataclasses import dataclass

from falsifier.arrays import Array
from falsifier.search.batch import Batch


@dataclass(frozen=True)
class Anisotropic:
    """eta = s * (upper - lower)."""

    s: float = 0.1
    name: str = "anisotropic"

    def eta(self, batch: Batch) -> Array:
        return self.s * batch.width
