"""Stacks: what a point of one question gets in a stack is what it gets alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from analytic_engine import AnalyticEngine, host
from query_trees import bounds, compare, query, slots

from falsifier.arrays import as_like
from falsifier.problem import Problem
from falsifier.query.tree import And, Or, Product, Sum
from falsifier.spec import Rounding, Spec, compile_query
from falsifier.spec.stacking import obstacle, part_of, stacked, widened

X, Y = slots(0, 3), slots(3, 2)
LINEAR = [[1.0, -0.5, 0.25], [0.5, 2.0, -1.0]]

ONE = query([*bounds([-1, -1, 0], [1, 2, 0]), compare(Y[0], ">=", 0.5)], 3, 2)
OTHER_PIN = query([*bounds([0, -1, 1], [1, 1, 1]), compare(Y[1], "<=", Y[0])], 3, 2)
SAME_BOX = query([*bounds([-1, -1, 0], [1, 2, 0]), compare(Y[1], ">", 3), compare(Y[0], "<=", 0.25)], 3, 2)
BOXES = query(
    [
        *bounds([-1, -1, -1], [1, 1, 1]),
        Or(
            (
                And((compare(X[0], ">=", 0.5), compare(Y[0], ">=", 1))),
                And((compare(X[0], "<=", 0), compare(Y[1], ">=", 1))),
            )
        ),
    ],
    3,
    2,
)
WITH_INPUTS = query([*bounds([-1, -1, 0], [1, 2, 0]), compare(Sum((Y[0], X[1])), ">=", 2)], 3, 2)
QUERIES = [ONE, OTHER_PIN, SAME_BOX, BOXES, WITH_INPUTS]


def specs() -> list[Spec]:
    return [compile_query(q, np.float64) for q in QUERIES]


@pytest.mark.parametrize("torch", [False, True])
def test_margins_and_gradients_are_those_of_each_question_alone(torch: bool) -> None:
    alone = [Problem(spec, AnalyticEngine(LINEAR, torch=torch)) for spec in specs()]
    stack = Problem(stacked([part_of(s) for s in specs()], 2, Rounding.INWARD), AnalyticEngine(LINEAR, torch=torch))
    rng = np.random.default_rng(0)
    at = 0
    for problem in alone:
        for own in range(problem.t):
            target = as_like(np.full(8, at + own), stack.like)
            lower, upper = (host(side) for side in stack.box(target))
            points = lower + (upper - lower) * rng.random((8, stack.f))
            inputs = stack.embed(stack.engine.asarray(points))
            mine = problem.domain.restrict(inputs)
            assert np.array_equal(host(problem.embed(mine)), host(inputs))  # pinned values are those of the question
            aim = as_like(np.full(8, own), problem.like)
            expected, _, slope = problem.ascend(mine, aim)
            got, _, gradient = stack.ascend(stack.engine.asarray(points), target)
            np.testing.assert_allclose(host(got.margin), host(expected.margin))
            wide = np.zeros((8, 3))
            wide[:, host(problem.domain.free)] = host(slope)
            free = np.isin(host(stack.domain.free), host(problem.domain.free))
            np.testing.assert_allclose(host(gradient)[:, free], wide[:, host(stack.domain.free)][:, free])
        at += problem.t
    assert at == stack.t


def test_boxes_and_forms_are_kept_once() -> None:
    parts = [part_of(spec) for spec in specs()]
    targets = stacked(parts, 2, Rounding.INWARD).targets
    assert targets is not None
    assert len(targets.lower) == 4  # of six targets: three share the first box
    assert targets.box.tolist() == [0, 1, 0, 2, 3, 0]
    rows = {tuple(row) for row in np.c_[targets.forms.outputs, targets.forms.inputs].tolist()}
    assert len(rows) == targets.forms.r == 4  # Y0, Y1, their difference, Y0 + X1


def test_a_point_is_judged_against_the_targets_of_its_box() -> None:
    stack = Problem(stacked([part_of(s) for s in specs()], 2, Rounding.INWARD), AnalyticEngine(LINEAR))
    assert stack.in_box.tolist() == [[0, 2, 5], [1, -1, -1], [3, -1, -1], [4, -1, -1]]
    box = np.array([0, 3, 1])
    lower, upper = stack.targets.lower[box], stack.targets.upper[box]
    points = (lower + upper) / 2
    got = stack.screen_boxes(points, box)
    for lane, row in enumerate(stack.in_box[box]):
        for place, aim in enumerate(row):
            alone = stack.evaluate(points[lane : lane + 1], np.array([max(aim, 0)])).margin[0]
            assert got[lane, place] == (alone if aim >= 0 else -np.inf)
    every = stack.screen(points)
    assert every[0, [0, 2, 5]].tolist() == got[0].tolist()


def test_many_identical_boxes_take_the_room_of_one() -> None:
    part = part_of(compile_query(ONE, np.float64))
    targets = stacked([part] * 500, 2, Rounding.INWARD).targets
    assert targets is not None
    assert (targets.t, len(targets.lower), targets.forms.r) == (500, 1, 1)


@pytest.mark.parametrize(
    ("assertion", "why"),
    [
        (compare(Product((Y[0], Y[1])), ">=", 2), "polynomials"),
        (compare(X[0], "==", X[1]), "tie"),
        (And(tuple(compare(x, "==", 0.5) for x in X)), "fixed"),
    ],
)
def test_what_does_not_stack(assertion: Any, why: str) -> None:
    spec = compile_query(query([*bounds([-1] * 3, [1] * 3), assertion, compare(Y[0], ">=", 5)], 3, 2), np.float64)
    assert why in str(obstacle(spec))
    with pytest.raises(ValueError, match=why):
        part_of(spec)


def test_trees_do_not_stack() -> None:
    atoms = Or((compare(Y[0], ">=", 1), compare(Y[1], ">=", 1)))
    spec = compile_query(query([*bounds([-1] * 3, [1] * 3), atoms, atoms], 3, 2), np.float64, growth=-100)
    assert spec.tree is not None
    assert "tree" in str(obstacle(spec))


def test_a_stack_that_frees_what_every_question_pins_is_noticed() -> None:
    def pinned(value: float) -> Spec:
        low, high = [value] * 9, [value] * 9
        low[0], high[0] = -1, 1
        return compile_query(query([*bounds(low, high), compare(slots(9, 1)[0], ">=", 0)], 9, 1), np.float64)

    alike = [part_of(pinned(0.5)), part_of(pinned(0.5))]
    apart = [part_of(pinned(0.5)), part_of(pinned(0.25))]
    assert not widened(stacked(alike, 1, Rounding.INWARD), alike)
    assert widened(stacked(apart, 1, Rounding.INWARD), apart)
