"""Mutators: make children from parent lanes. One file each (paper A, 7 to 11, and ours).

Another one is a class with `name`, `slopes` and a call, put into a `Recipe` with a weight.
"""

from __future__ import annotations

from typing import Protocol

from falsifier.arrays import Array, Rng
from falsifier.search.batch import Batch


class Mutator(Protocol):
    """Changes points. It never judges them: the loop projects, evaluates and admits what it returns.

    name: as shown in records. slopes: how many gradients of each lane it asks for, 0 for one that needs none.
    """

    @property
    def name(self) -> str: ...

    @property
    def slopes(self) -> int: ...

    def __call__(self, batch: Batch, eta: Array, rng: Rng) -> Array:
        """Children `[b, f]` of a batch, which it leaves as it is.

        eta: step sizes as a `Scaling` gives them, `[b, f]` or what broadcasts to that. All random draws come from
        `rng`. Children may lie outside the box.
        """
        ...
