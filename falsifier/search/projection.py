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
        return batch.inside(_known(x, batch))


@dataclass(frozen=True)
class IntoBall:
    """No farther than `radius` (a number, or `[f]`) from the lineage's original, and into the box.

    Anchored at the original, the distance holds across chains of mutations of any depth.
    """

    radius: float | Array

    def __call__(self, x: Array, batch: Batch) -> Array:
        xp = namespace(x)
        low, high = batch.original - self.radius, batch.original + self.radius
        return batch.inside(xp.minimum(xp.maximum(_known(x, batch), low), high))


def _known(x: Array, batch: Batch) -> Array:
    """Points with the parent's coordinate wherever one is NaN."""
    xp = namespace(x)
    return xp.where(xp.isnan(x), batch.x, x)
