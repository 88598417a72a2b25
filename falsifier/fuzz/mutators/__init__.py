"""Mutators: children from parents, a whole batch at a time. One file per kind.

A mutator only proposes: what it returns is projected into the space, run, and judged by others.
"""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from falsifier.arrays import Rng

Array = NDArray[Any]


class Mutator(Protocol):
    """Makes `[b, n]` children from `[b, n]` parents. It may keep state, and must draw from `rng` alone."""

    name: str

    def children(self, parents: Array, oldest: Array, rng: Rng) -> Array:
        """One child for each parent, of the same shape and type. oldest: int64 `[b]`, starts they descend from."""
        ...


class Wandering(Mutator, Protocol):
    """A mutator with lanes of its own, whose points do not descend from the parents that it is given.

    After `children`: home, int64 `[b]`, the starts that its points belong to; evaluations, the runs it made itself.
    most: of these for one child.
    """

    home: Array
    evaluations: int
    most: int
