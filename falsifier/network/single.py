"""The engine of last resort: the reference itself, one sample after the other, without gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import EngineError, InputError
from falsifier.network.reference import Sampled
from falsifier.objective import Ascent, ObjectiveForm


class SingleSampleEngine:
    """An `Engine` whose results are the reference's by construction."""

    name = "single-sample"
    device = "cpu"
    stepped = False
    lane_bytes = 0  # one sample is held at a time
    differentiable = False

    def __init__(self, reference: Sampled) -> None:
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
        """`[b, n]` -> `[b, m]`, b runs. What the model refuses, say an index out of range, gets a row of NaN."""
        rows = [self._row(point) for point in x]
        width = next((row.size for row in rows if row is not None), None)
        results = np.full((len(rows), self.m if width is None else width), np.nan, dtype=self.dtype)
        for lane, row in enumerate(rows):
            if row is not None:
                results[lane] = row
        return results

    def _row(self, point: NDArray[Any]) -> NDArray[Any] | None:
        try:
            return self._reference.run_flat(point)
        except InputError:
            return None

    def activations(self, x: NDArray[Any], tensors: Sequence[str]) -> dict[str, NDArray[Any]]:
        raise EngineError("inner tensors are not available from the model as it is")

    def vjp(
        self, x: NDArray[Any], seed: NDArray[Any], window: NDArray[Any] | None = None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        raise EngineError("this network is run one sample at a time, without gradients")

    def ascend(self, x: NDArray[Any], objective: ObjectiveForm, window: NDArray[Any] | None = None) -> Ascent:
        raise EngineError("this network is run one sample at a time, without gradients")
