"""A batch: the lanes of one step of the fuzzing loop, as mutators and scalings see them.

Axes: b lane, f free input, k atom.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from falsifier.arrays import Array, Rng, namespace

if TYPE_CHECKING:
    from falsifier.problem import Problem
    from falsifier.search.directions import Slope


@dataclass(frozen=True)
class Batch:
    """Drawn parents.

    x `[b, f]`; original `[b, f]`: the point that each lineage began with; lower, upper `[b, f]`: what lanes may move
    in; target, label (-1: none), drawn (how often the entry was a parent before) `[b]` int64; margin `[b]`.

    `slope(x)` gives margin, score and gradient of the loop's direction at points `[b, f]` of these lanes, None where
    the engine has no gradient; `partner(rng)` gives points `[b, f]`, for each lane another entry of its group.
    """

    problem: Problem
    x: Array
    original: Array
    lower: Array
    upper: Array
    target: Array
    label: Array
    drawn: Array
    margin: Array
    slope: Callable[[Array], Slope] | None
    partner: Callable[[Rng], Array]

    @property
    def width(self) -> Array:
        return self.upper - self.lower

    def inside(self, x: Array) -> Array:
        """Points `[b, f]` of these lanes, moved into their boxes; NaN stays."""
        xp = namespace(x)
        return xp.minimum(xp.maximum(x, self.lower), self.upper)
