"""The search as a whole, on toy problems: it finds what it should within so many evaluations, and stops as it should."""

from __future__ import annotations

import numpy as np
import pytest
from toy_problems import Floats, ToyProblem, ToySource, relu_network

from falsifier.arrays import Rng
from falsifier.budget import Budget
from falsifier.search import SearchResult, search
from falsifier.verdict import StopReason


def run(problem: ToyProblem, cap: int = 100_000, seed: int = 0) -> SearchResult:
    problem.budget = Budget(max_evaluations=cap)
    return search(
        ToySource(problem), problem.budget, Rng(seed), lambda x: bool((problem.screen(x[None])[0] >= 0).any())
    )


def dead_gradient() -> ToyProblem:
    """T13: y = relu(1000 (x0 + x1) - 1998), flat where x0 + x1 < 1.998."""

    def function(x: Floats) -> Floats:
        return np.maximum(1000 * x.sum(axis=1, keepdims=True) - 1998, 0)

    def pullback(x: Floats, seed: Floats) -> Floats:
        return np.where(function(x) > 0, 1000 * seed, 0) * np.ones_like(x)

    return ToyProblem(function, [[0, 0]], [[1, 1]], [[[1]]], [[0.5]], pullback)


@pytest.mark.parametrize("seed", range(10))
def test_dead_gradient_falls_to_corners(seed: int) -> None:
    result = run(dead_gradient(), 5000, seed)
    assert result.found
    assert result.reason is StopReason.CONFIRMED


@pytest.mark.parametrize("seed", range(3))
def test_nan_in_half_the_box(seed: int) -> None:
    def root(x: Floats) -> Floats:
        with np.errstate(invalid="ignore"):
            return np.sqrt(x)

    def pullback(x: Floats, by: Floats) -> Floats:
        with np.errstate(all="ignore"):
            return by * 0.5 / np.sqrt(x)

    assert run(ToyProblem(root, [[-1]], [[1]], [[[1]]], [[0.99]], pullback), 20_000, seed).found
    never = run(ToyProblem(root, [[-1]], [[1]], [[[-1]]], [[1]], pullback), 20_000, seed)
    assert not never.found
    assert never.reason is StopReason.EVALUATIONS


def test_fixed_inputs_take_one_evaluation() -> None:
    for value, found in ((1.0, True), (0.0, False)):
        problem = ToyProblem(
            lambda x, v=value: np.full((len(x), 1), v), np.zeros((1, 0)), np.zeros((1, 0)), [[[1]]], [[0.5]]
        )
        problem.budget = Budget(max_evaluations=100)
        result = search(ToySource(problem), problem.budget, Rng(0), lambda x: True)
        assert result.found is found
        assert result.evaluations == 1 + found  # the confirmation counts
        assert result.reason is (StopReason.CONFIRMED if found else StopReason.SINGLE_POINT)


def test_same_seed_same_result() -> None:
    function, pullback = relu_network(0, (6, 20, 20, 3))
    problem = ToyProblem(function, -np.ones((1, 6)), np.ones((1, 6)), np.eye(3)[None], [[9, 9, 9]], pullback)
    one, two = run(problem, 30_000), run(problem, 30_000)
    bowl = ToyProblem(
        lambda x: -((x - 0.3) ** 2).sum(axis=1, keepdims=True), -np.ones((1, 4)), np.ones((1, 4)), [[[1]]], [[1]]
    )
    first, other = run(bowl, 300), run(bowl, 300, seed=1)
    assert one.evaluations == two.evaluations <= 30_000
    np.testing.assert_array_equal(one.margin, two.margin)
    np.testing.assert_array_equal(one.points[0], two.points[0])
    assert not np.array_equal(first.points[0], other.points[0])


def test_cap_is_never_exceeded() -> None:
    function, pullback = relu_network(1, (5, 10, 2))
    for cap in (1, 2, 10, 1000):
        problem = ToyProblem(function, -np.ones((1, 5)), np.ones((1, 5)), np.eye(2)[None], [[99, 99]], pullback)
        assert run(problem, cap).evaluations <= cap
