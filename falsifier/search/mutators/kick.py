"""The moves of basin hopping: Gaussian kicks, differences and crossovers with other entries of the group."""

from __future__ import annotations

from dataclasses import dataclass

from falsifier.arrays import Array, Rng, full, namespace
from falsifier.search.batch import Batch
from falsifier.search.moves import kick
from falsifier.search.starts import place


@dataclass(frozen=True)
class Kick:
    """One of `moves.kick` for each lane, in the unit cube of its box; a share `fresh` of the lanes starts anew."""

    fresh: float = 0.05
    slopes: int = 0
    name: str = "kick"

    def __call__(self, batch: Batch, eta: Array, rng: Rng) -> Array:
        xp = namespace(batch.x)
        width = batch.width
        width = xp.where(width > 0, width, xp.ones_like(width))
        unit, one, two = ((x - batch.lower) / width for x in (batch.x, batch.partner(rng), batch.partner(rng)))
        fresh = full((int(batch.x.shape[0]), 1), self.fresh, batch.x)
        return place(kick(rng, unit, one, two, fresh), batch.lower, batch.upper)
