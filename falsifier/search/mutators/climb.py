"""A short climb by Polyak steps, from a kicked or an unmoved parent: what hopping does in a round, as a mutator.

length = 1.1 * lack / |slope|^2 in the unit cube of the box, where lack is how far the score is from 0: in a linear
piece such a step lands just beyond the bound. A cap on the longest coordinate, which shrinks, keeps it within what the
gradient knows about.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from falsifier.arrays import Array, Rng, namespace
from falsifier.search.batch import Batch
from falsifier.search.mutators.kick import Kick

_OVER = 1.1
_CAP, _CAP_DECAY = 0.3, 0.85  # of the longest coordinate, in widths
_TINY = 1e-15


@dataclass(frozen=True)
class Climb:
    """`slopes` steps; the child is the best point on the way. `kicked`: the share of lanes that a kick moves first."""

    slopes: int = 30
    kicked: float = 0.7
    kick: Kick = field(default_factory=Kick)
    name: str = "climb"

    def __call__(self, batch: Batch, eta: Array, rng: Rng) -> Array:
        xp = namespace(batch.x)
        assert batch.slope is not None, "the loop draws this one only where there is a gradient"
        moved = rng.uniform((int(batch.x.shape[0]), 1), batch.x) < self.kicked
        x = xp.where(moved, self.kick(batch, eta, rng), batch.x)
        best, best_margin = x, None
        width, cap = batch.width, _CAP
        for _ in range(self.slopes):
            at = batch.slope(x)
            better = at.margin == at.margin if best_margin is None else at.margin > best_margin
            best = xp.where(better[:, None], x, best)
            best_margin = at.margin if best_margin is None else xp.where(better, at.margin, best_margin)
            slope = at.gradient * width
            longest = xp.max(xp.abs(slope), axis=1)[:, None]
            lack = xp.clip(-(at.margin if at.score is None else at.score), 0.0, 1e30)[:, None]
            usable = (longest > _TINY) & (longest < 1 / _TINY)
            safe = xp.where(usable, longest, xp.ones_like(longest))
            scaled = xp.where(usable, slope / safe, 0 * slope)
            square = xp.sum(scaled * scaled, axis=1)[:, None]
            length = xp.minimum(_OVER * lack / (safe * xp.clip(square, 1.0, None)), cap + 0 * lack)
            x = batch.inside(x + length * scaled * width)
            cap *= _CAP_DECAY
        return best
