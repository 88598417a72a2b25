"""An engine whose network is a formula, y = W x + V (x * x): exact for small dyadic numbers, in numpy or torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from falsifier.arrays import full, is_numpy, namespace
from falsifier.objective import Ascent, ObjectiveForm
from falsifier.spec.margin import score

Array = Any


class AnalyticEngine:
    """W and V `[m, n]`. More lanes than `most` in one run raise MemoryError; `runs` lists the lanes of every run."""

    name = "analytic"
    device = "cpu"
    stepped = False
    lane_bytes = 64

    def __init__(
        self,
        linear: ArrayLike,
        square: ArrayLike | None = None,
        dtype: Any = np.float64,
        *,
        torch: bool = False,
        most: int = 10**9,
    ) -> None:
        self.dtype = np.dtype(dtype)
        self.differentiable = True
        self._torch = torch
        host = np.atleast_2d(np.asarray(linear, self.dtype))
        self.m, self.n = host.shape
        self.linear = self.asarray(host)
        self.square = self.asarray(np.zeros_like(host) if square is None else np.atleast_2d(np.asarray(square)))
        self.most = most
        self.runs: list[int] = []

    def asarray(self, x: NDArray[Any]) -> Array:
        host = np.array(x, dtype=self.dtype)
        if not self._torch:
            return host
        import torch

        return torch.from_numpy(host)

    def outputs(self, x: Array) -> Array:
        if len(x) > self.most:
            raise MemoryError
        assert x.shape[1] == self.n
        self.runs.append(len(x))
        return x @ self.linear.T + (x * x) @ self.square.T

    def activations(self, x: Array, tensors: Sequence[str]) -> dict[str, Array]:
        return {}

    def vjp(self, x: Array, seed: Array, window: Array | None = None) -> tuple[Array, Array]:
        return self.outputs(x), seed @ self.linear + 2 * x * (seed @ self.square)

    def ascend(self, x: Array, objective: ObjectiveForm, window: Array | None = None) -> Ascent:
        y = self.outputs(x)
        xp = namespace(x)
        rows = xp.broadcast_to(objective.rows, (len(x), *objective.rows.shape[1:]))
        slack = (rows @ y[:, :, None])[:, :, 0] + objective.offset
        value, weight = score(slack, objective.scale, objective.reduction)
        seed = (weight[:, None, :] @ rows)[:, 0, :]
        return Ascent(y, slack, value, weight, seed @ self.linear + 2 * x * (seed @ self.square))


class NanEngine(AnalyticEngine):
    """The same, NaN where the first input is negative."""

    def outputs(self, x: Array) -> Array:
        y = super().outputs(x)
        nan = full((1, 1), float("nan"), y)
        return namespace(y).where(x[:, :1] < 0, nan, y)


def host(x: Array) -> NDArray[Any]:
    """As a numpy array."""
    return np.asarray(x if is_numpy(x) else x.numpy())
