"""A mutator that a user wrote: a function from a batch of inputs to another of the same shapes.

    def my_mutator(inputs, generator):
        inputs["X"][:, 0] *= generator.choice([0.5, 2.0], len(inputs["X"]))
        return inputs

`inputs`: arrays `[b, ...]` by name, copies that may be changed; `generator`: a numpy random Generator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Rng
from falsifier.errors import InputError
from falsifier.fuzz.space import Space

Array = NDArray[Any]


class Written:
    """Wraps the function `name` = "module:function". Raises InputError where it returns other shapes."""

    def __init__(self, name: str, function: Callable[..., Any], space: Space) -> None:
        self.name, self._function, self._space = name, function, space

    def children(self, parents: Array, oldest: Array, rng: Rng) -> Array:
        generator = np.random.Generator(np.random.PCG64(int(rng.integers(0, 1 << 62, (1,))[0])))
        found = self._function(self._space.batches(parents), generator)
        if not isinstance(found, dict):
            raise InputError(f"mutator {self.name!r} returned a {type(found).__name__}: it has to return its inputs")
        children = self._space.join(found)
        if children.shape != parents.shape:
            raise InputError(f"mutator {self.name!r} returned {len(children)} samples for {len(parents)}")
        return children
