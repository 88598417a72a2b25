"""Problems on analytic functions in numpy, for tests of search that need no network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.budget import Budget
from falsifier.objective import Reduction
from falsifier.spec.margin import score, slack

Floats = NDArray[Any]
Function = Callable[[Floats], Floats]  # [b, f] -> [b, m]
Pullback = Callable[[Floats, Floats], Floats]  # points [b, f], seed [b, m] -> gradient [b, f]


@dataclass
class ToyEvaluation:
    outputs: Floats
    slack: Floats
    margin: Floats


@dataclass
class ToyProblem:
    """t targets `rows [t, k, m] @ y >= bound [t, k]` in boxes `[t, f]` (or `[1, f]`)."""

    function: Function
    lower: Floats
    upper: Floats
    rows: Floats
    bound: Floats
    pullback: Pullback | None = None
    budget: Budget = field(default_factory=Budget)
    serial: bool = False
    stepped: bool = False
    dtype: Any = np.float32

    def __post_init__(self) -> None:
        self.lower, self.upper, self.rows, self.bound = (
            np.asarray(a, dtype=np.float32) for a in (self.lower, self.upper, self.rows, self.bound)
        )
        self.t, self.f, self.k = self.rows.shape[0], self.lower.shape[1], self.rows.shape[1]
        self.like = np.empty(0, dtype=np.float32)
        self.differentiable = self.pullback is not None
        self.shared_box = self.lower.shape[0] == 1
        self.calls = 0

    def box(self, target: NDArray[np.int64]) -> tuple[Floats, Floats]:
        if self.shared_box:
            return np.repeat(self.lower, len(target), 0), np.repeat(self.upper, len(target), 0)
        return self.lower[target], self.upper[target]

    def embed(self, points: Floats) -> Floats:
        return points

    def evaluate(self, points: Floats, target: NDArray[np.int64]) -> ToyEvaluation:
        lower, upper = self.box(target)
        if not ((points >= lower) & (points <= upper)).all():
            raise AssertionError("a point outside its target's box was evaluated")
        self.budget.charge(len(points))
        self.calls += 1
        y = self.function(points).astype(np.float32)
        slacks = slack((self.rows[target] @ y[:, :, None])[:, :, 0], 1.0, self.bound[target])
        return ToyEvaluation(y, slacks, slacks.min(axis=1))

    def screen(self, points: Floats) -> Floats:
        self.budget.charge(len(points))
        y = self.function(points).astype(np.float32)
        slacks = slack(np.einsum("tkm,bm->btk", self.rows, y), 1.0, self.bound[None])
        inside = ((points[:, None] >= self.lower) & (points[:, None] <= self.upper)).all(axis=2)
        return np.where(inside, slacks.min(axis=2), -np.inf)

    def ascend(
        self,
        points: Floats,
        target: NDArray[np.int64],
        reduction: Reduction = Reduction.HINGE,
        scale: Floats | None = None,
        window: Floats | None = None,
    ) -> tuple[ToyEvaluation, Floats, Floats]:
        evaluation = self.evaluate(points, target)
        scale = np.ones_like(evaluation.slack) if scale is None else scale
        value, weight = score(evaluation.slack, scale, reduction)
        if self.pullback is None:
            raise AssertionError("asked for a gradient that is not there")
        seed = (weight[:, None, :] @ self.rows[target])[:, 0, :]
        return evaluation, value, self.pullback(points, seed)


@dataclass
class ToySource:
    """A source whose problems are given, or the same one twice."""

    single: ToyProblem
    other: ToyProblem | None = None
    nearest: ToySource | None = None

    @property
    def batched(self) -> ToyProblem:
        return self.single if self.other is None else self.other


def relu_network(seed: int, sizes: tuple[int, ...]) -> tuple[Function, Pullback]:
    """A random ReLU network and its pullback."""
    rng = np.random.default_rng(seed)
    shapes = pairwise(sizes)
    weights = [rng.normal(0, 1.4 / np.sqrt(a), (a, b)).astype(np.float32) for a, b in shapes]

    def states(x: Floats) -> list[Floats]:
        kept = [x]
        for i, weight in enumerate(weights):
            y = kept[-1] @ weight
            kept.append(np.maximum(y, 0) if i + 1 < len(weights) else y)
        return kept

    def pullback(x: Floats, seed: Floats) -> Floats:
        kept = states(x)
        grad = seed @ weights[-1].T
        for weight, value in zip(weights[-2::-1], kept[-2:0:-1], strict=True):
            grad = (grad * (value > 0)) @ weight.T
        return grad

    return lambda x: states(x)[-1], pullback
