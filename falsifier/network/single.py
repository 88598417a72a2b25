"""The engine of last resort: the reference itself, one sample after the other, without gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import EngineError
from falsifier.network.reference import Reference
from falsifier.objective import Ascent, ObjectiveForm


class SingleSampleEngine:
    """An `Engine` whose results are the reference's by construction."""

    name = "single-sample"
    device = "cpu"
    stepped = False
    lane_bytes = 0  # one sample is held at a time
    differentiable = False

    def __init__(self, reference: Reference) -> None:
        self._reference = reference
        self.dtype = reference.dtype
        self.n = reference.n

    @property
    def m(self) -> int:
        """May run the reference once, where the model leaves output shapes open."""
        return self._reference.m

    def asarray(self, x: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(x, dtype=self.dtype)

    def outputs(self, x: NDArray[Any]) -> NDArray[Any]:
        """`[b, n]` -> `[b, m]`, b runs."""
        if not len(x):
            return np.empty((0, self.m), dtype=self.dtype)
        run = self._reference.run_flat
        first = run(x[0])
        results = np.empty((len(x), first.size), dtype=self.dtype)
        results[0] = first
        for lane in range(1, len(x)):
            results[lane] = run(x[lane])
        return results

    def activations(self, x: NDArray[Any], tensors: Sequence[str]) -> dict[str, NDArray[Any]]:
        raise EngineError("inner tensors are not available from the model as it is")

    def vjp(
        self, x: NDArray[Any], seed: NDArray[Any], window: NDArray[Any] | None = None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        raise EngineError("this network is run one sample at a time, without gradients")

    def ascend(self, x: NDArray[Any], objective: ObjectiveForm, window: NDArray[Any] | None = None) -> Ascent:
        raise EngineError("this network is run one sample at a time, without gradients")
