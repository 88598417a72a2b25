"""Scaling: how far a mutator may go from a parent (eta), from the lanes' boxes (paper A, 12 to 14).

One file per rule. Another one is a class with `name` and `eta`, put into a `Recipe`.
"""

from __future__ import annotations

from typing import Protocol

from falsifier.arrays import Array
from falsifier.search.batch import Batch


class Scaling(Protocol):
    """Gives step sizes."""

    @property
    def name(self) -> str: ...

    def eta(self, batch: Batch) -> Array:
        """Step sizes in units of the inputs, non-negative: `[b, f]`, `[b, 1]` or `[1, 1]`."""
        ...
