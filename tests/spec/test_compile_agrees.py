"""The compiled margin is >= 0 exactly where the tree holds: random queries, an exact oracle, numpy and torch."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from analytic_engine import AnalyticEngine, host
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from query_trees import bounds, compare, formulas, queries, query, satisfied, slots, term, value_of

from falsifier.problem import Problem
from falsifier.query.folding import leaves
from falsifier.query.tree import And, Compare, Difference, Formula, Negate, Product, Query, Reference, Relation, Sum
from falsifier.spec import compile_query
from falsifier.spec.compile import GROWTH

N, M = 2, 2
LINEAR = np.array([[1.0, -0.5], [0.25, 2.0]])
SQUARE = np.array([[0.0, 0.5], [0.0, 0.0]])
GRID = np.stack(np.meshgrid(np.arange(-12, 13, 4) / 4, [-3.25, -2, -1, -0.25, 0, 0.5, 3]), -1).reshape(-1, 2)
ALWAYS_TREE = -(10**9)
pytestmark = pytest.mark.usefixtures("real_numbers")
slow = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def engine(dtype: Any = np.float64, torch: bool = False, **kwargs: Any) -> AnalyticEngine:
    return AnalyticEngine(LINEAR, SQUARE, dtype, torch=torch, **kwargs)


def found(what: Query, points: np.ndarray[Any, Any], dtype: Any, torch: bool, growth: int = GROWTH) -> list[bool]:
    """Per full point, whether the compiled query says that it is satisfied there."""
    spec = compile_query(what, dtype, growth=growth)
    if spec.empty:
        return [False] * len(points)
    problem = Problem(spec, engine(dtype, torch))
    inputs = problem.engine.asarray(points)
    short = problem.domain.restrict(inputs)
    reachable = (host(problem.embed(short)) == points).all(axis=1)
    screened = host(problem.screen(short))
    target = np.arange(len(points)) % problem.t
    index = target if not torch else __import__("torch").from_numpy(target)
    own = host(problem.evaluate(short, index).margin)
    inside = screened[np.arange(len(points)), target] > -np.inf
    assert np.array_equal(own[inside], screened[np.arange(len(points)), target][inside])
    return list(reachable & (screened >= 0).any(axis=1))


def truths(what: Query, points: np.ndarray[Any, Any]) -> list[bool]:
    outputs = engine().outputs(points)
    return [satisfied(what, np.concatenate([x, y])) for x, y in zip(points, outputs, strict=True)]


@slow
@given(queries(N, M))
@pytest.mark.parametrize("torch", [False, True])
def test_linear_queries(torch: bool, what: Query) -> None:
    assert found(what, GRID, np.float64, torch) == truths(what, GRID)


@slow
@given(queries(N, M, 2, (2, 0)))
def test_polynomial_queries_in_float32(what: Query) -> None:
    assert found(what, GRID, np.float32, False) == truths(what, GRID)


@slow
@given(queries(N, M, 2))
@pytest.mark.parametrize("torch", [False, True])
def test_the_tree_that_replaces_a_normal_form(torch: bool, what: Query) -> None:
    assert found(what, GRID, np.float64, torch, ALWAYS_TREE) == truths(what, GRID)


scales = st.sampled_from([0.5, 1.0, -1.0, 2.0])
tie_lists = st.lists(
    st.tuples(scales, st.integers(0, 3), st.integers(0, 3), st.sampled_from([0.0, 1.0, -0.5])), max_size=4
)


def rounded(formula: Formula, row: Any) -> bool:
    """Whether an equality fails by rounding alone, like 3 x == 0.25, which no number of the type meets."""
    at = [Fraction(float(value)) for value in row]
    equalities = [atom for atom in leaves(formula) if isinstance(atom, Compare) and atom.relation is Relation.EQ]
    gaps = [abs(value_of(atom.left, at) - value_of(atom.right, at)) for atom in equalities]
    return any(0 < gap < 1e-12 for gap in gaps)


@slow
@given(tie_lists, formulas(6))
@example([], And((compare(Negate(Reference(0)), "==", Negate(Difference(term(0.25), (Reference(0), Reference(0))))),)))
@pytest.mark.parametrize("growth", [GROWTH, ALWAYS_TREE])
def test_tied_inputs(growth: int, ties: list[tuple[float, int, int, float]], more: Any) -> None:
    """x_j == a * x_i + c as conjuncts: eliminating inputs loses no solution, and but for rounding it invents none."""
    x = slots(0, 4)
    equal = [compare(x[j], "==", Sum((Product((term(a), x[i])), term(c)))) for a, i, j, c in ties]
    box = bounds([-3.0] * 4, [3.0] * 4)
    what, tie_query = query([*box, *equal, more], 4, 2), query(equal, 4, 2)
    spec = compile_query(what, np.float64, growth=growth)
    mix = AnalyticEngine(np.array([[1.0, 0.5, 0, 0], [0, 0, -1, 2]]))
    rng = np.random.default_rng(0)
    points = rng.integers(-6, 7, (15, 4)) / 2
    for a, i, j, c in ties:
        points[:, j] = a * points[:, i] + c
    if spec.domain is not None:
        points = np.concatenate([points, spec.domain.embed(rng.integers(-6, 7, (15, spec.domain.f)) / 2)])
    slots_of = np.concatenate([points, mix.outputs(points)], axis=1)
    expected = np.array([satisfied(what, row) for row in slots_of])
    if spec.domain is None:
        assert not expected.any()
        return
    problem = Problem(spec, mix)
    embedded = problem.embed(problem.domain.restrict(points))
    kept = (embedded == points).all(axis=1)
    assert kept[expected].all()
    margins = problem.screen(problem.domain.restrict(points)).max(axis=1)
    exact = np.array([satisfied(tie_query, row) and not rounded(more, row) for row in slots_of]) & kept
    assert np.array_equal((margins >= 0)[exact], expected[exact])


def test_the_grid_meets_both_answers() -> None:
    """The properties above would be empty if random queries never held."""
    what = query([*bounds([-3.0] * 2, [3.0] * 2), compare(Reference(2), ">=", 0.5)], 2, 2)
    answers = truths(what, GRID)
    assert any(answers)
    assert not all(answers)
