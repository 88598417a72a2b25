"""The compiled margin and the evaluator of the syntax tree, written apart, say the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from analytic_engine import AnalyticEngine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from query_trees import bounds, compare, formulas, query, relations, slots

from falsifier.problem import Problem
from falsifier.query.evaluate import Arithmetic, holds
from falsifier.query.tree import And, Compare, Constant, Or, Query, Relation
from falsifier.spec import Rounding, compile_query

pytestmark = pytest.mark.usefixtures("real_numbers")
slow = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
IDENTITY = np.eye(2)
decimals = st.integers(-30, 30).map(lambda i: str(i / 10))
slot = st.sampled_from(slots(0, 4))
simple = st.builds(compare, slot, relations, st.one_of(slot, decimals.map(Constant)))
small = st.recursive(
    simple,
    lambda inner: st.lists(inner, max_size=3).map(tuple).flatmap(lambda p: st.sampled_from([And(p), Or(p)])),
    max_leaves=5,
)


def points_near(dtype: Any) -> np.ndarray[Any, Any]:
    """Points on decimals, and one step of the type beside them."""
    rng = np.random.default_rng(0)
    middle = (rng.integers(-30, 31, (40, 2)) / 10).astype(dtype)
    middle[:10, 1] = middle[:10, 0]
    toward = rng.choice([-np.inf, 0, np.inf], (40, 2))
    with np.errstate(under="ignore"):
        moved = np.nextafter(middle, toward.astype(dtype))
    return np.concatenate([middle, np.where(toward == 0, middle, moved)])


def satisfied_somewhere(what: Query, points: np.ndarray[Any, Any], rounding: Rounding = Rounding.INWARD) -> Any:
    """Whether some target is satisfied at full points; False where a point is outside the domain."""
    spec = compile_query(what, points.dtype, rounding)
    if spec.targets is None:
        return np.zeros(len(points), bool), True
    problem = Problem(spec, AnalyticEngine(IDENTITY, dtype=points.dtype))
    short = problem.domain.restrict(points)
    reachable = (problem.embed(short) == points).all(axis=1)
    return reachable & (problem.screen(short) >= 0).any(axis=1), bool(spec.targets.exact.all())


def by_evaluator(what: Query, points: np.ndarray[Any, Any], arithmetic: Arithmetic) -> Any:
    return np.array([holds(what, [x, x], arithmetic) for x in points])


@slow
@given(st.lists(small, max_size=3))
def test_decimals_in_float32(parts: list[Any]) -> None:
    """1.0, inward: exactly the points that hold in float64, unless a dimension is pinned between two floats."""
    what = query([*bounds([-3.0, -2.1], [3.0, 2.1]), *parts], 2, 2)
    points = points_near(np.float32)
    found, exact = satisfied_somewhere(what, points)
    expected = by_evaluator(what, points, Arithmetic.EXACT)
    assert not (expected & ~found).any()
    assert np.array_equal(found, expected) or not exact


@slow
@given(st.lists(small, max_size=3))
def test_decimals_in_float32_under_the_published_rule_of_2(parts: list[Any]) -> None:
    """2.0: inward satisfies both arithmetics (in one disjunct), nearest is the published one."""
    what = query([*bounds([-3.0, -2.1], [3.0, 2.1]), *parts], 2, 2, (2, 0))
    points = points_near(np.float32)
    published = by_evaluator(what, points, Arithmetic.PUBLISHED)
    inward, exact = satisfied_somewhere(what, points)
    if exact:
        both = published & by_evaluator(what, points, Arithmetic.EXACT)
        assert not (inward & ~both).any()
        if all(isinstance(part, Compare) and part.relation is not Relation.NE for part in parts):
            assert np.array_equal(inward, both)  # one disjunct: no other can make up for it
    nearest, _ = satisfied_somewhere(what, points, Rounding.NEAREST)
    assert np.array_equal(nearest & published, nearest)
    assert np.array_equal(nearest, published) or not exact


@slow
@given(st.lists(formulas(4, 2), max_size=3))
def test_any_arithmetic_in_float64(parts: list[Any]) -> None:
    what = query([*bounds([-3.0, -3.0], [3.0, 3.0]), *parts], 2, 2)
    points = np.random.default_rng(0).integers(-13, 14, (40, 2)) / 4.0
    found, _ = satisfied_somewhere(what, points)
    assert np.array_equal(found, by_evaluator(what, points, Arithmetic.EXACT))
