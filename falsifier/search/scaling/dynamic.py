"""Steps that grow with the number of times an entry was drawn (beyond the text of paper A, 14).

A fresh entry is searched nearby; one that was drawn often reaches the far side of its box.
"""

from __future__ import annotations

from dataclasses import dataclass

from falsifier.arrays import Array, as_dtype_of, namespace
from falsifier.search.batch import Batch


@dataclass(frozen=True)
class Dynamic:
    """eta = (1 - (1 - s)^(n + 1)) * max(x - lower, upper - x), n: how often the entry was drawn before."""

    s: float = 0.1
    name: str = "dynamic"

    def eta(self, batch: Batch) -> Array:
        xp = namespace(batch.x)
        reached = 1 - (1 - self.s) ** as_dtype_of(batch.drawn + 1, batch.x)
        return reached[:, None] * xp.maximum(batch.x - batch.lower, batch.upper - batch.x)
