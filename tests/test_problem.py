"""Problems on engines whose networks are formulas: chunks, targets, gradients, budgets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from analytic_engine import AnalyticEngine, host
from query_trees import bounds, compare, query, slots, table

from falsifier.arrays import as_like
from falsifier.budget import Budget
from falsifier.objective import Reduction
from falsifier.problem import Problem
from falsifier.query.tree import And, Compare, Kind, NetworkDeclaration, Or, Product, Query, Reference, Sum, Variable
from falsifier.spec import compile_query
from falsifier.spec.compile import GROWTH

X, Y = slots(0, 3), slots(3, 2)
LINEAR = [[1.0, -0.5, 0.25], [0.5, 2.0, -1.0]]
SQUARE = [[0.0, 0.5, 0.0], [0.25, 0.0, 0.125]]
BOX = bounds([-1, -1, -1], [1, 2, 3])

LINEAR_ATOMS = Or(
    (
        And((compare(Y[0], ">=", 0.5), compare(Y[1], "<=", Y[0]), compare(Y[1], ">", -3))),
        And((compare(Sum((Y[0], X[1])), ">=", 4), compare(X[0], "<=", X[2]))),
        compare(Y[1], "<", -5),
    )
)
POLYNOMIAL_ATOMS = Or(
    (
        And((compare(Product((Y[0], Y[1])), ">=", 2), compare(Product((X[0], X[0], Y[1])), "<=", 0.25))),
        compare(Sum((Product((X[0], X[1], X[2])), Y[0])), ">=", 5),
    )
)


def problem_of(
    *parts: Any,
    torch: bool = False,
    dtype: Any = np.float64,
    growth: int = GROWTH,
    budget: Budget | None = None,
    most: int = 10**9,
) -> Problem:
    spec = compile_query(query([*BOX, *parts], 3, 2), dtype, growth=growth)
    return Problem(spec, AnalyticEngine(LINEAR, SQUARE, dtype, torch=torch, most=most), budget)


def lanes_of(problem: Problem, count: int, rng_seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(rng_seed)
    points = problem.engine.asarray(rng.uniform(-1, 1, (count, problem.f)))
    return points, as_like(np.arange(count) % problem.t, problem.like)


KINDS: dict[str, tuple[Any, int]] = {
    "linear": (LINEAR_ATOMS, GROWTH),
    "polynomial": (POLYNOMIAL_ATOMS, GROWTH),
    "tree": (LINEAR_ATOMS, -(10**9)),
    "polynomial tree": (POLYNOMIAL_ATOMS, -(10**9)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reduction", list(Reduction))
def test_gradients_match_finite_differences(kind: str, reduction: Reduction) -> None:
    formula, growth = KINDS[kind]
    problem = problem_of(formula, growth=growth)
    points, target = lanes_of(problem, 24)
    scale = np.random.default_rng(1).uniform(0.5, 2, (24, problem.k))
    evaluation, value, gradient = problem.ascend(points, target, reduction, scale)
    assert np.array_equal(evaluation.margin, problem.evaluate(points, target).margin)
    h = 1e-6
    for d in range(problem.f):
        move = h * np.eye(problem.f)[d]
        up, down = (problem.ascend(points + s * move, target, reduction, scale)[1] for s in (1, -1))
        slopes = (up - down) / (2 * h)
        kinks = np.abs((up - value) - (value - down)) > 1e-8  # the min changes its atom within the step
        assert kinks.sum() <= 2
        assert gradient[~kinks, d] == pytest.approx(slopes[~kinks], abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_torch_tensors_give_what_arrays_give(kind: str) -> None:
    formula, growth = KINDS[kind]
    results = []
    for torch in (False, True):
        problem = problem_of(formula, growth=growth, torch=torch)
        points, target = lanes_of(problem, 20)
        evaluation, value, gradient = problem.ascend(points, target)
        box = problem.box(target)
        scale = problem.row_scale(points, target)
        everything = [evaluation.slack, evaluation.margin, value, gradient, problem.screen(points), *box, scale]
        results.append([host(a) for a in everything])
    for a, b in zip(*results, strict=True):
        assert a.dtype == b.dtype
        assert a == pytest.approx(b, abs=1e-12)


def test_hinge_is_the_sum_of_violations() -> None:
    problem = problem_of(LINEAR_ATOMS)
    points, target = lanes_of(problem, 9)
    evaluation, value, _ = problem.ascend(points, target, Reduction.HINGE)
    assert value == pytest.approx(np.minimum(evaluation.slack, 0).sum(axis=1))


def test_padding_never_counts() -> None:
    problem = problem_of(LINEAR_ATOMS)
    points, target = lanes_of(problem, 30)
    evaluation = problem.evaluate(points, target)
    padded = ~problem.targets.present[target]
    assert np.isposinf(evaluation.slack[padded]).all()
    assert np.isfinite(evaluation.margin).all()
    assert (problem.row_scale(points, target)[padded] == 0).all()


def test_screening_is_evaluating_every_pair() -> None:
    clauses = table(
        [[(0, "<=", 0.0), (3, ">=", 0.5)], [(0, ">=", 0.25), (4, "<=", 0.0)], [(1, ">=", 0.0), (3, "<=", 1.0)]]
    )
    problem = problem_of(clauses)
    points, _ = lanes_of(problem, 12)
    screened = problem.screen(points)
    for t in range(problem.t):
        target = np.full(12, t)
        lower, upper = problem.box(target)
        inside = ((points >= lower) & (points <= upper)).all(axis=1)
        assert np.array_equal(screened[inside, t], problem.evaluate(points, target).margin[inside])
        assert np.isneginf(screened[~inside, t]).all()
        assert inside.any()
        assert not inside.all()


def test_many_forms_are_gathered_lane_by_lane() -> None:
    """Hundreds of disjuncts with rows of their own: the values do not depend on which way they are computed."""
    rows = [compare(Sum((Product((_constant(i), Y[0])), Y[1])), ">=", i / 8) for i in range(1, 300)]
    problem = problem_of(Or(tuple(rows)))
    points, target = lanes_of(problem, 300)
    assert not problem._all_forms
    y = problem.engine.outputs(points)
    i = 1 + target
    assert problem.evaluate(points, target).slack[:, 0] == pytest.approx(i * y[:, 0] + y[:, 1] - i / 8)
    assert problem.ascend(points, target)[0].margin == pytest.approx(problem.evaluate(points, target).margin)


def _constant(i: float) -> Any:
    return compare(i, "<", 0).left


@pytest.mark.parametrize("kind", KINDS)
def test_results_do_not_depend_on_chunks(kind: str) -> None:
    """A machine with little memory: runs fail until the chunk is small enough, then nothing is lost."""
    formula, growth = KINDS[kind]
    whole, cut = problem_of(formula, growth=growth), problem_of(formula, growth=growth, most=7)
    points, target = lanes_of(whole, 50)
    for a, b in (
        (whole.evaluate(points, target).slack, cut.evaluate(points, target).slack),
        (whole.screen(points), cut.screen(points)),
        (whole.ascend(points, target)[2], cut.ascend(points, target)[2]),
    ):
        assert a == pytest.approx(b, abs=1e-14)
    assert max(cut.engine.runs) <= 7  # type: ignore[attr-defined]
    with pytest.raises(MemoryError):
        problem_of(formula, growth=growth, most=0).evaluate(points, target)


def test_evaluations_are_counted_and_never_exceed_the_cap() -> None:
    budget = Budget(max_evaluations=25)
    problem = problem_of(LINEAR_ATOMS, budget=budget)
    points, target = lanes_of(problem, 20)
    assert np.isfinite(problem.evaluate(points, target).margin).all()
    assert budget.evaluations == 20
    evaluation, value, gradient = problem.ascend(points, target)
    assert budget.evaluations == 25
    assert np.isfinite(evaluation.margin[:5]).all()
    assert np.isneginf(evaluation.margin[5:]).all()
    assert np.isneginf(value[5:]).all()
    assert (gradient[5:] == 0).all()
    assert np.isneginf(problem.screen(points)).all()
    polynomial = problem_of(POLYNOMIAL_ATOMS, budget=Budget(max_evaluations=21))
    polynomial.ascend(points, target % polynomial.t)
    assert polynomial.budget is not None
    assert polynomial.budget.evaluations == 20


def test_a_deadline_stops_between_chunks() -> None:
    now = [0.0]

    class Slow(AnalyticEngine):
        def outputs(self, x: Any) -> Any:
            now[0] += 0.01 * len(x)
            return super().outputs(x)

    spec = compile_query(query([*BOX, LINEAR_ATOMS], 3, 2), np.float64)
    engine = Slow(LINEAR, SQUARE)
    budget = Budget(deadline=5.0, clock=lambda: now[0])
    problem = Problem(spec, engine, budget)
    points, target = lanes_of(problem, 10_000)
    margin = problem.evaluate(points, target).margin
    done = int(np.isfinite(margin).sum())
    assert np.isneginf(margin[done:]).all()
    assert 450 <= done <= 520
    assert now[0] <= 5.2
    assert budget.evaluations == done


def test_row_scale_makes_a_step_over_the_box_worth_one() -> None:
    linear = Problem(
        compile_query(
            query([*BOX, And((compare(Y[0], ">=", 9), compare(Product((_constant(100), Y[1])), ">=", 9)))], 3, 2),
            np.float64,
        ),
        AnalyticEngine(LINEAR),
    )
    points, target = lanes_of(linear, 4)
    gains = np.abs(LINEAR) @ [2, 3, 4]
    expected = 1 / (gains * [1, 1])  # 100 * Y_1 >= 9 is compiled as Y_1 >= 0.09
    assert linear.row_scale(points, target) == pytest.approx(np.tile(expected, (4, 1)))


def test_row_scale_without_a_gradient_is_one() -> None:
    flat = Problem(
        compile_query(query([*BOX, compare(Y[0], ">=", 9)], 3, 2), np.float64), AnalyticEngine(np.zeros((2, 3)))
    )
    points, target = lanes_of(flat, 2)
    assert flat.row_scale(points, target).tolist() == [[1], [1]]


@pytest.mark.parametrize("kind", ["linear", "polynomial"])
def test_gradients_flow_through_ties(kind: str) -> None:
    """Two copies of a network on tied inputs: the gradient by the free inputs is the sum of both."""
    networks = tuple(
        NetworkDeclaration(
            name, (Variable("X" + name, Kind.INPUT, "real", (2,)),), (Variable("Y" + name, Kind.OUTPUT, "real", (1,)),)
        )
        for name in "fg"
    )
    a, b = Reference(2), Reference(5)
    ties: list[Compare] = [
        compare(Reference(3), "==", Reference(0)),
        compare(Reference(4), "==", Sum((Product((_constant(-2), Reference(1))), _constant(0.5)))),
    ]
    goal = compare(Sum((a, b)), ">=", 9) if kind == "linear" else compare(Product((a, b, Reference(4))), ">=", 9)
    spec = compile_query(Query((2, 0), networks, (*bounds([0, 0], [1, 1]), *ties, goal)), np.float64)
    problem = Problem(spec, AnalyticEngine(np.array([[1, 2, 0, 0], [0, 0, 3, 5]]), np.diag([1, 0, 0, 1])[[0, 3]]))
    assert problem.f == 2
    points, target = np.array([[0.25, 0.5], [0.75, 0.125]]), np.zeros(2, int)
    _, value, gradient = problem.ascend(points, target)
    for d in range(2):
        move = 1e-6 * np.eye(2)[d]
        slope = (problem.ascend(points + move, target)[1] - problem.ascend(points - move, target)[1]) / 2e-6
        assert gradient[:, d] == pytest.approx(slope, abs=1e-5)
    assert (value < 0).all()


def test_no_lanes_give_empty_results() -> None:
    problem = problem_of(LINEAR_ATOMS)
    nothing, target = np.zeros((0, 3)), np.zeros(0, int)
    evaluation, value, gradient = problem.ascend(nothing, target)
    assert evaluation.slack.shape == (0, problem.k)
    assert value.shape == (0,)
    assert gradient.shape == (0, 3)
    assert problem.screen(nothing).shape == (0, problem.t)


def test_sizes_are_checked() -> None:
    spec = compile_query(query([*BOX, LINEAR_ATOMS], 3, 2))
    with pytest.raises(ValueError, match="3 inputs and 2 outputs, the network 2 and 2"):
        Problem(spec, AnalyticEngine(np.zeros((2, 2))))
    empty = compile_query(query(bounds([1], [0]), 1, 1))
    with pytest.raises(ValueError, match="empty input set"):
        Problem(empty, AnalyticEngine([[1.0]]))


def test_a_query_without_outputs_runs_on_any_network() -> None:
    spec = compile_query(query([*BOX, compare(Sum((X[0], X[1])), ">=", 1)], 3, 0), np.float64)
    problem = Problem(spec, AnalyticEngine(LINEAR))
    points, target = np.array([[0.5, 1, 0], [-1, 1, 0]]), np.zeros(2, int)
    evaluation, _, gradient = problem.ascend(points, target)
    assert evaluation.outputs.shape == (2, 2)
    assert evaluation.margin.tolist() == [0.5, -1]
    assert gradient.tolist() == [[0, 0, 0], [1, 1, 0]]


def test_a_shared_box_is_a_view() -> None:
    problem = problem_of(LINEAR_ATOMS)
    lower, upper = problem.box(np.zeros(100, int))
    assert lower.shape == upper.shape == (100, 3)
    assert lower.strides[0] == 0
    assert math.isclose(float(upper[99, 2]), 3)


def test_large_networks_get_small_chunks() -> None:
    """What an engine says about its memory bounds the lanes of a run: gradient runs hold about three times as much."""
    problem = problem_of(LINEAR_ATOMS)
    engine: Any = problem.engine
    engine.lane_bytes = 1 << 24
    points, target = lanes_of(problem, 8)
    problem.evaluate(points, target)
    assert engine.runs == [3, 3, 2]
    engine.runs.clear()
    problem.ascend(points, target)
    assert engine.runs == [1] * 8
