"""The margin read off the tree: >= 0 iff the query holds, and the compiled margin where the two mean the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from analytic_engine import AnalyticEngine
from hypothesis import HealthCheck, given, settings
from query_trees import bounds, compare, queries, query, slots, table

from falsifier.problem import Problem
from falsifier.query.depth import depth
from falsifier.query.evaluate import Arithmetic, holds
from falsifier.query.tree import And, Difference, Or, Query
from falsifier.spec import Rounding, compile_query

X, Y = slots(0, 2), slots(2, 2)


def at(what: Query, x: Any, y: Any, arithmetic: Arithmetic = Arithmetic.EXACT) -> float:
    return depth(what, [np.array(x, np.float64), np.array(y, np.float64)], arithmetic)


@pytest.mark.parametrize(
    ("formula", "margin"),
    [
        (compare(Y[0], ">=", 1.0), 2.0),
        (compare(Y[0], "<=", 1.0), -2.0),
        (compare(1.0, "<=", Y[0]), 2.0),
        (compare(Y[0], ">", 3.0), -np.spacing(3.0)),
        (compare(Y[0], "==", 3.0), 0.0),
        (compare(Y[0], "!=", 3.0), -np.spacing(2.9)),
        (compare(Y[0], "!=", 1.0), 2.0 - np.spacing(1.0)),
        (And((compare(Y[0], ">=", 1.0), compare(Y[1], ">=", 1.5))), -0.5),
        (Or((compare(Y[0], ">=", 1.0), compare(Y[1], ">=", 1.5))), 2.0),
        (And((compare(Y[0], ">=", 1.0), compare(X[0], ">=", 0.25))), 2.0),  # met, by how much does not count
        (And((compare(Y[0], ">=", 1.0), compare(X[0], ">=", 0.75))), -np.inf),
        (compare(X[0], "<=", 1.0), np.inf),
        (Or(()), -np.inf),
        (table([[(2, ">=", 1.0), (3, ">=", 1.5)], [(3, ">=", 0.25)]]), 0.75),
        (table([[(2, ">=", 1.0), (0, ">=", 0.25)]]), 2.0),
    ],
)
def test_of_one_formula(formula: Any, margin: float) -> None:
    assert at(query([*bounds([0, 0], [1, 1]), formula], 2, 2), [0.5, 0.5], [3.0, 1.0]) == margin


def test_nan_never_satisfies() -> None:
    what = query([compare(Y[0], ">=", 1.0)], 2, 2)
    assert at(what, [0.5, 0.5], [np.nan, 1.0]) == -np.inf


def test_the_published_rule_reads_strict_as_not_strict_in_1_0() -> None:
    what = query([compare(Y[0], ">", 3.0)], 2, 2)
    assert at(what, [0.5, 0.5], [3.0, 0.0], Arithmetic.PUBLISHED) == 0.0


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(queries(2, 2, degree=2))
def test_its_sign_is_the_evaluators_verdict(what: Query) -> None:
    rng = np.random.default_rng(0)
    for x in rng.integers(-12, 13, (12, 2)) / 4:
        for arithmetic in Arithmetic:
            values = [x, 2 * x]
            assert (depth(what, values, arithmetic) >= 0) == holds(what, values, arithmetic)


def test_its_value_is_the_compiled_margin() -> None:
    rng = np.random.default_rng(1)
    for _ in range(40):
        a, b, c = (float(v) for v in rng.integers(-12, 13, 3) / 4)
        parts = (And((compare(Y[0], ">=", a), compare(b, ">", Y[1]))), compare(Difference(Y[0], (Y[1],)), "<=", c))
        what = query([*bounds([-3.0, -3.0], [3.0, 3.0]), Or(parts)], 2, 2)
        spec = compile_query(what, np.float64, Rounding.INWARD)
        problem = Problem(spec, AnalyticEngine(np.eye(2), dtype=np.float64))
        points = rng.uniform(-3, 3, (8, 2))
        compiled = problem.screen(problem.domain.restrict(points)).max(axis=1)
        mine = [depth(what, [x, x], Arithmetic.EXACT) for x in points]
        np.testing.assert_allclose(mine, compiled, rtol=0, atol=1e-12)
