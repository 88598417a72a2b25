"""Problems on formulas instead of networks, in numpy arrays or torch tensors, for tests of search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import models
import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Rng, to_host
from falsifier.budget import Budget
from falsifier.objective import Ascent, ObjectiveForm
from falsifier.problem import Problem
from falsifier.query import parse
from falsifier.search import SearchResult, search
from falsifier.search.stage import Stage
from falsifier.spec import Rounding, Spec, compile_query
from falsifier.spec.margin import score

Floats = NDArray[Any]
Function = Callable[[Floats], Floats]  # [b, n] -> [b, m]
Pullback = Callable[[Floats, Floats], Floats]  # points [b, n], seed [b, m] -> gradient [b, n]


class FormulaEngine:
    """A formula as an engine (`Engine`); it computes in numpy whatever arrays it hands out."""

    device = "cpu"
    dtype: np.dtype[Any] = np.dtype(np.float32)
    stepped = False
    lane_bytes = 0

    def __init__(
        self, formula: Formula, *, torch: bool = False, differentiable: bool = True, name: str = "formula"
    ) -> None:
        self._formula, self._torch, self.name = formula, torch, name
        self.n, self.m = formula.n, formula.m
        self.differentiable = differentiable and formula.pullback is not None
        self.seen: list[Floats] = []  # every point that was evaluated

    def asarray(self, x: Any) -> Any:
        host = np.array(x, dtype=self.dtype)
        if not self._torch:
            return host
        import torch

        return torch.from_numpy(host)

    def outputs(self, x: Any) -> Any:
        host = to_host(x)
        self.seen.append(host)
        with np.errstate(all="ignore"):
            return self.asarray(self._formula.function(host))

    def activations(self, x: Any, tensors: Sequence[str]) -> dict[str, Any]:
        return {}

    def vjp(self, x: Any, seed: Any, window: Any = None) -> tuple[Any, Any]:
        y = self.outputs(x)
        if self._formula.pullback is None:
            raise AssertionError("asked for a gradient that is not there")
        with np.errstate(all="ignore"):
            return y, self.asarray(self._formula.pullback(to_host(x), to_host(seed)))

    def ascend(self, x: Any, objective: ObjectiveForm, window: Any = None) -> Ascent:
        y = to_host(self.outputs(x))
        rows, offset, scale = (to_host(a) for a in (objective.rows, objective.offset, objective.scale))
        with np.errstate(all="ignore"):
            slack = (rows @ y[:, :, None])[:, :, 0] + offset
            value, weight = score(slack, scale, objective.reduction)
            _, gradient = self.vjp(x, (weight[:, None, :] @ rows)[:, 0, :])
        self.seen.pop()
        outputs, slacks, scores, weights = (self.asarray(a) for a in (y, slack, value, weight))
        return Ascent(outputs, slacks, scores, weights, gradient)

    def points(self) -> Floats:
        """Every point that was evaluated, `[e, n]`."""
        return np.concatenate(self.seen) if self.seen else np.zeros((0, self.n))


@dataclass(frozen=True)
class Formula:
    """n inputs, m outputs, and how to compute them."""

    n: int
    m: int
    function: Function
    pullback: Pullback | None = None


@dataclass
class Toy:
    """An instance on a formula: a `ProblemSource`, and the evaluations it made on either engine."""

    formula: Formula
    text: str
    budget: Budget
    torch: bool = False
    differentiable: bool = True
    rounding: Rounding = Rounding.INWARD
    nearest: Toy | None = None
    accelerator: bool = False  # whether torch can be gone over to

    def __post_init__(self) -> None:
        self.spec: Spec = compile_query(parse(self.text), np.float32, self.rounding)
        self.one = FormulaEngine(self.formula, name="single-sample", differentiable=False)
        self.many = FormulaEngine(self.formula, torch=self.torch, differentiable=self.differentiable)
        self.single = Problem(self.spec, self.one, self.budget)
        self.batched = Problem(self.spec, self.many, self.budget)
        self._judge = Problem(self.spec, FormulaEngine(self.formula, differentiable=False))

    def accelerate(self) -> bool:
        if self.torch or not self.accelerator:
            return False
        self.torch = True
        self.many = FormulaEngine(self.formula, torch=True, differentiable=self.differentiable)
        self.batched = Problem(self.spec, self.many, self.budget)
        return True

    def margin(self, point: Floats) -> float:
        """The margin of a free point `[f]` for the first target."""
        return float(to_host(self._judge.evaluate(point[None], np.zeros(1, np.int64)).margin)[0])

    def holds(self, x: Floats) -> bool:
        """Whether full inputs `[n]` satisfy the query."""
        points = self._judge.domain.restrict(x[None].astype(np.float32))
        return bool((to_host(self._judge.screen(points)) >= 0).any())


def toy(
    formula: Formula,
    clauses: str,
    lower: Sequence[float],
    upper: Sequence[float],
    cap: int = 100_000,
    **options: Any,
) -> Toy:
    """A toy instance: inputs in a box, and further assertions as text."""
    text = models.declare(formula.n, formula.m) + models.box(list(lower), list(upper)) + clauses
    return Toy(formula, text, Budget(max_evaluations=cap), **options)


def run(
    instance: Toy,
    seed: int = 0,
    stages: str | list[Stage] = "standard",
    confirm: Callable[[Floats], bool] | None = None,
) -> SearchResult:
    """Search a toy instance."""
    return search(instance, instance.budget, Rng(seed), confirm or instance.holds, stages)


def relu_network(seed: int, sizes: tuple[int, ...]) -> Formula:
    """A random ReLU network."""
    rng = np.random.default_rng(seed)
    weights = [rng.normal(0, 1.4 / np.sqrt(a), (a, b)).astype(np.float32) for a, b in pairwise(sizes)]

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

    return Formula(sizes[0], sizes[-1], lambda x: states(x)[-1], pullback)
