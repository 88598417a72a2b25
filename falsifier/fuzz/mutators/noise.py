"""White noise, the mutator of source paper B (B3): normal, capped around the oldest ancestor, clipped to the range."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Rng
from falsifier.fuzz.space import Space

Array = NDArray[Any]


class Noise:
    """x + sigma * span * N(0, I), with one of several widths per lane, and at times in a few dimensions only.

    `sigmas`: standard deviations as parts of a dimension's span; the paper's one width is `(0.2,)` in inputs of [0, 1].
    `sparse`: the share of lanes that move few dimensions.
    """

    name = "noise"

    def __init__(self, space: Space, sigmas: tuple[float, ...] = (0.2, 0.05, 0.01, 0.001), sparse: float = 0.5) -> None:
        self._space = space
        self._sigmas = np.array(sigmas, space.dtype)
        self._sparse = sparse

    def children(self, parents: Array, oldest: Array, rng: Rng) -> Array:
        b, n = parents.shape
        width = self._sigmas[rng.integers(0, len(self._sigmas), (b, 1))]
        noise = rng.normal((b, n), parents) * width
        if self._sparse:
            # of the sparse lanes each dimension moves with a probability between 1 / n and 1, drawn per lane
            share = np.exp(-rng.uniform((b, 1), parents) * np.log(max(n, 2)))
            share = np.where(rng.uniform((b, 1), parents) < self._sparse, share, 1)
            noise = np.where(rng.uniform((b, n), parents) < share, noise, 0)
        step = noise * self._space.span
        if self._space.lattice.any():
            # an integer moves by one at least, where it moves
            whole = np.where(step != 0, np.sign(step) * np.maximum(np.ceil(np.abs(step)), 1), 0)
            step = np.where(self._space.lattice, whole, step)
        return np.asarray(parents + step, dtype=parents.dtype)
