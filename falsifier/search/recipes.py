"""Recipes: the fuzzing loop put together. The paper's own settings, and ours."""

from __future__ import annotations

from falsifier.search.coverage.neurons import Neurons
from falsifier.search.coverage.patterns import Patterns
from falsifier.search.directions import MarginDirection, PaperDirection
from falsifier.search.energy import DecayingEnergy, PaperEnergy
from falsifier.search.loop import Recipe
from falsifier.search.mutators.boundary import Boundary
from falsifier.search.mutators.climb import Climb
from falsifier.search.mutators.fgsm import Fgsm
from falsifier.search.mutators.kick import Kick
from falsifier.search.mutators.noise import Noise
from falsifier.search.mutators.pgd import Pgd
from falsifier.search.mutators.vertex import Vertex
from falsifier.search.scaling.anisotropic import Anisotropic
from falsifier.search.scaling.dynamic import Dynamic
from falsifier.search.scaling.scaling import Scaling


def paper_recipe(scaling: Scaling | None = None, *, threshold: float = 0.1, slopes: int = 10) -> Recipe:
    """Paper A as it is written: its four mutators at equal weights, one drawn for each step; scalar pgd steps;
    anisotropic scaling with s = 0.1; cross-entropy or output variance; neuron coverage; e = max(10 q + 100 v, 0.1);
    lanes drawn from the whole corpus; nothing retires. The corpus is bounded all the same, at 65,536 entries.

    threshold: that a neuron must exceed to fire; slopes: pgd's steps.
    """
    return Recipe(
        mutators=[(Pgd(slopes, scalar=True), 1.0), (Fgsm(scalar=True), 1.0), (Boundary(), 1.0), (Noise(), 1.0)],
        scaling=scaling or Anisotropic(),
        energy=PaperEnergy(),
        direction=PaperDirection(),
        coverage=[Neurons(threshold)],
        capacity=1 << 16,
    )


def our_recipe(scaling: Scaling | None = None) -> Recipe:
    """The completions: the margin as direction, a step for every dimension, lanes in equal parts for every open
    specification, four mutators in one batch, energies that decay, patterns beside neurons, retired specifications."""
    return Recipe(
        mutators=[
            (Climb(), 8.0),
            (Pgd(), 2.0),
            (Fgsm(), 0.2),
            (Kick(), 0.2),
            (Vertex(), 0.2),
            (Boundary(), 0.1),
            (Noise(), 0.1),
        ],
        scaling=scaling or Dynamic(),
        energy=DecayingEnergy(),
        direction=MarginDirection(),
        coverage=[Patterns()],
        parts=4,
        even=True,
        wander=0.25,
        retire=True,
        keep_records=True,
    )
