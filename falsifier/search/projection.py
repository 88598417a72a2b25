"""Projection: back to where lanes may be (paper A, 15)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from falsifier.arrays import Array, namespace
from falsifier.search.batch import Batch


class Projection(Protocol):
    """Takes points `[b, f]` of a batch's lanes to feasible ones. What it returns always lies in the lanes' boxes."""

    def __call__(self, x: Array, batch: Batch) -> Array: ...


@dataclass(frozen=True)
class IntoBox:
    """Elementwise into [lower, upper]."""

    def __call__(self, x: Array, batch: Batch) -> Array:
        xp = namespace(x)
        x = xp.where(xp.isnan(x), batch.x, x)
        return xp.minimum(xp.maximum(x, batch.lower), batch.upper)


@dataclass(frozen=True)
class IntoBall:
    """No farther than `radius` (a number, or `[f]`) from the lineage's original, and into the box.

    Anchored at the original, the distance holds across chains of mutations of any depth.
    """

    radius: float | Array

    def __call__(self, x: Array, batch: Batch) -> Array:
        xp = namespace(x)
        x = xp.where(xp.isnan(x), batch.x, x)
        low, high = batch.original - self.radius, batch.original + self.radius
        x = xp.minimum(xp.maximum(x, low), high)
        return xp.minimum(xp.maximum(x, batch.lower), batch.upper)
