"""Projected gradient ascent from a random point near the parent (paper A, 8); with one step it is `fgsm`."""

from __future__ import annotations

from dataclasses import dataclass

from falsifier.arrays import Array, Rng, namespace
from falsifier.search.batch import Batch


@dataclass(frozen=True)
class Pgd:
    """Starts uniform in [x - eta, x + eta]; `slopes` steps of gamma * sign(gradient).

    gamma = 2 * eta / steps, its mean over lanes and dimensions as in the paper where `scalar`, else each dimension its
    own (a step of the mean leaves wide dimensions and overshoots narrow ones).
    """

    slopes: int = 10
    scalar: bool = False
    name: str = "pgd"

    def __call__(self, batch: Batch, eta: Array, rng: Rng) -> Array:
        xp = namespace(batch.x)
        assert batch.slope is not None, "the loop draws this one only where there is a gradient"
        gamma = 2 * (xp.mean(eta, axis=None, keepdims=True) if self.scalar else eta) / self.slopes
        x = batch.x + eta * (2 * rng.uniform(tuple(batch.x.shape), batch.x) - 1)
        x = batch.inside(x)
        for _ in range(self.slopes):
            x = batch.inside(x + gamma * xp.sign(batch.slope(x).gradient))
        return x
