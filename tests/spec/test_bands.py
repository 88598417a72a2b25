"""Inputs that stay close to others are searched as differences."""

from __future__ import annotations

from typing import Any

import models
import numpy as np
import pytest
from analytic_engine import AnalyticEngine, host
from query_trees import bounds, compare, query, slots
from several_networks import VERSION, asserts, inside, network

from falsifier import Verdict, falsify
from falsifier.problem import Problem
from falsifier.query.tree import And, Compare, Difference, Or
from falsifier.spec import Spec, compile_query

X, Y = slots(0, 4), slots(4, 1)
BOX = bounds([0, 0, 0, 0], [1, 1, 1, 1])


def close(i: int, j: int, width: float = 0.125) -> list[Compare]:
    """x_j lies at most `width` above and at most half of that below x_i."""
    difference = Difference(X[j], (X[i],))
    return [compare(difference, "<=", width), compare(difference, ">=", -width / 2)]


def compiled(*more: Any, dtype: Any = np.float64) -> Spec:
    return compile_query(query([*BOX, *more, compare(Y[0], ">=", 0)], 4, 1), dtype)


def test_a_close_input_is_its_difference() -> None:
    spec = compiled(*close(0, 2))
    assert spec.domain is not None
    assert spec.targets is not None
    assert spec.domain.free.tolist() == [0, 1, 2, 3]
    assert spec.targets.lower[0] == pytest.approx([0, 0, -0.0625, 0])
    assert spec.targets.upper[0] == pytest.approx([1, 1, 0.125, 1])
    points = np.array([[0.5, 0.25, 0.0625, 0.75], [0.96875, 0, 0.0625, 0], [0, 0, -0.0625, 0]])
    inputs = spec.domain.embed(points)
    assert inputs.tolist() == [[0.5, 0.25, 0.5625, 0.75], [0.96875, 0, 1, 0], [0, 0, 0, 0]]
    assert spec.domain.restrict(inputs)[0].tolist() == points[0].tolist()
    assert spec.domain.pull(np.array([[1.0, 2, 4, 8]])).tolist() == [[5, 2, 4, 8]]


def test_every_point_of_the_box_meets_the_comparisons() -> None:
    """In float32, where a sum may round beyond what the difference allows: so they need not be atoms."""
    spec = compiled(*close(0, 2, 0.1), *close(3, 1, 1e-3), dtype=np.float32)
    assert spec.targets is not None
    assert spec.domain is not None
    assert spec.targets.k == 1
    rng = np.random.default_rng(0)
    share = rng.integers(0, 2, (4000, 4)) * rng.integers(0, 2, (4000, 4)) + rng.random((4000, 4)) / 2
    points = (spec.targets.lower + np.minimum(share, 1) * (spec.targets.upper - spec.targets.lower)).astype(np.float32)
    inputs = spec.domain.embed(points).astype(np.float64)
    assert ((inputs >= 0) & (inputs <= 1)).all()
    for first, second, width in ((0, 2, 0.1), (3, 1, 1e-3)):
        difference = inputs[:, second] - inputs[:, first]
        assert ((difference <= width) & (difference >= -width / 2)).all()
        assert (difference > 0.99 * width).any()


def test_a_comparison_stays_where_clipping_may_break_it_or_a_disjunct_asks_for_more() -> None:
    wide = compiled(*close(0, 2), compare(X[2], "<=", 0.5))  # x_0 = 1 is too far from every x_2
    assert wide.targets is not None
    assert wide.domain is not None
    assert wide.domain.band is not None
    assert wide.targets.k == 3
    difference = Difference(X[2], (X[0],))
    either = Or((And((compare(difference, "<=", 0.0625), compare(Y[0], ">=", 1))), compare(Y[0], ">=", 2)))
    tighter = compiled(*close(0, 2), either)
    assert tighter.targets is not None
    assert tighter.targets.present.sum(axis=1).tolist() == [2, 1]


def test_torch_gives_what_numpy_gives() -> None:
    spec = compiled(*close(0, 2), *close(1, 3))
    points = np.random.default_rng(0).random((7, 4)) / 16
    results = []
    for torch in (False, True):
        problem = Problem(spec, AnalyticEngine([[1.0, -2, 3, 5]], torch=torch))
        lanes = problem.engine.asarray(points)
        target = problem.targets.form[:1, 0].repeat(7)
        results.append([host(a) for a in (problem.embed(lanes), problem.ascend(lanes, target)[2])])
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "more",
    [
        close(0, 2, 8.0),  # wider than the box
        close(0, 2)[:1],  # one side alone
        [*close(0, 2), compare(X[3], "==", X[2]), compare(X[1], "==", X[2]), compare(X[0], "==", X[1])],  # one input
        [compare(Difference(X[2], (X[0], X[1])), "<=", 0.1), compare(Difference(X[2], (X[0], X[1])), ">=", -0.1)],
    ],
)
def test_no_band(more: list[Compare]) -> None:
    spec = compiled(*more)
    assert spec.domain is not None
    assert spec.domain.band is None


def test_an_input_that_others_follow_keeps_its_own_axis() -> None:
    spec = compiled(compare(X[2], "==", X[3]), *close(0, 2))
    assert spec.domain is not None
    assert spec.domain.band is None
    spec = compiled(compare(X[0], "==", X[3]), *close(0, 2))
    assert spec.domain is not None
    assert spec.domain.band is not None
    assert spec.domain.embed(np.array([[0.5, 0, 0.125]])).tolist() == [[0.5, 0, 0.625, 0.5]]


def test_two_copies_of_a_network_that_see_almost_the_same_input_are_told_apart() -> None:
    """100 inputs each, at most 0.05 apart: boxes alone are not met within these evaluations."""
    n, rng = 100, np.random.default_rng(100)

    def layer(rows: int, columns: int, name: str) -> models.Step:
        return models.gemm(rng.standard_normal((rows, columns)) / np.sqrt(columns), name=name)

    steps = [layer(50, n, "1"), ("Relu", [], {}), layer(50, 50, "2"), ("Relu", [], {}), layer(1, 50, "3")]
    text = VERSION + network("f", n=n) + network("g", "(equal-to f) ", n=n)
    text += "".join(inside(f"X_{k}[0,{i}]", "0.0", "1.0") for k in "fg" for i in range(n))
    for i in range(n):
        text += inside(f"(- X_f[0,{i}] X_g[0,{i}])", "-0.05", "0.05")
    text += asserts("(> (- Y_f[0,0] Y_g[0,0]) 0.23)")
    result = falsify(models.chain(steps, [1, n], [1, 1]), text, timeout=60, max_evaluations=20_000)
    assert result.verdict is Verdict.SAT
    assert result.class_ == "exact"
