"""Some dimensions to their bounds: most known witnesses have most coordinates there."""

from __future__ import annotations

from dataclasses import dataclass

from falsifier.arrays import Array, Rng, namespace
from falsifier.search.batch import Batch


@dataclass(frozen=True)
class Vertex:
    """A share of the dimensions, another one for each lane, goes to a bound; which bound is drawn, too.

    Steps do not depend on eta: what leads to a corner is not a matter of scale.
    """

    slopes: int = 0
    name: str = "vertex"

    def __call__(self, batch: Batch, eta: Array, rng: Rng) -> Array:
        xp = namespace(batch.x)
        shape = tuple(batch.x.shape)
        share = rng.uniform((shape[0], 1), batch.x) ** 3
        chosen = rng.uniform(shape, batch.x) < xp.clip(share, 1.0 / shape[1], 1.0)
        corner = xp.where(rng.uniform(shape, batch.x) < 0.5, batch.lower, batch.upper)
        return xp.where(chosen, corner, batch.x)
