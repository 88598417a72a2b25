"""The input region: which atoms belong to it, and whether a search was ever inside."""

from __future__ import annotations

from typing import Any

import models
import numpy as np
import pytest
from analytic_engine import AnalyticEngine
from query_trees import bounds, compare, query, slots

from falsifier import StopReason, Verdict, falsify
from falsifier.network.observation import Observer
from falsifier.problem import Problem
from falsifier.query.tree import And, Or, Product, Sum
from falsifier.spec import compile_query
from falsifier.spec.region import region_atoms

X0, X1, Y0 = slots(0, 3)
BOX = bounds([-1.0, -1.0], [1.0, 1.0])
DISC = compare(Sum((Product((X0, X0)), Product((X1, X1)))), "<=", 0.01)
ABOVE = compare(X0, ">=", X1)
MIXED = compare(Sum((X0, Y0)), ">=", 0.5)


def compiled(*assertions: Any, growth: int = 10**6) -> Any:
    return compile_query(query([*BOX, *assertions], 2, 1, (2, 0)), np.float32, growth=growth)


def test_atoms_of_inputs_alone() -> None:
    assert region_atoms(compiled(MIXED, compare(Y0, ">=", 0))) is None
    spec = compiled(DISC, MIXED, ABOVE)
    atoms = region_atoms(spec)
    assert atoms is not None
    assert atoms.sum() == 2
    both = region_atoms(compiled(Or((And((DISC, MIXED)), MIXED, ABOVE))))
    assert both is not None
    assert sorted(both.sum(axis=1).tolist()) == [0, 1, 1]


@pytest.mark.parametrize("ask", ["evaluate", "observe", "screen", "ascend", "pull"])
@pytest.mark.parametrize("alternatives", [0, 30])
def test_entering_is_noted(ask: str, alternatives: int) -> None:
    """With and without a tree; a point inside that misses everything else counts, one outside does not."""
    ors = [Or((compare(Y0, ">=", 100 + i), compare(Y0, "<=", -100 - i))) for i in range(alternatives)]
    spec = compiled(DISC, compare(Y0, ">=", 99), *ors)
    assert (spec.tree is not None) == bool(alternatives)
    problem = Problem(spec, AnalyticEngine([[1.0, 1.0]], dtype=np.float32))
    aim = np.zeros(2, np.int64)
    observer = Observer((1,), lambda x: (problem.engine.outputs(x), x[:, :1]))
    for points, entered in (([[0.9, 0.9], [0.5, 0]], False), ([[0.9, 0.9], [0.05, 0]], True)):
        at = np.array(points, np.float32)
        further: dict[str, list[Any]] = {"screen": [], "observe": [aim, observer], "pull": [aim, lambda _, y: y]}
        getattr(problem, ask)(at, *further.get(ask, [aim]))
        assert problem.entered == entered


def test_without_a_region_there_is_nothing_to_enter() -> None:
    assert Problem(compiled(MIXED), AnalyticEngine([[1.0, 1.0]])).entered


def searched(formula: str) -> Any:
    text = (
        "(vnnlib-version <2.0>)\n(declare-network N (declare-input X float32 [1,2]) (declare-output Y float32 [1,1]))\n"
        "(assert (and (>= X[0,0] -1.0) (<= X[0,0] 1.0) (>= X[0,1] -1.0) (<= X[0,1] 1.0)))\n"
        f"(assert {formula})\n(assert (>= Y[0,0] -10.0))\n"
    )
    return falsify(models.affine([[1, 1]]), text, timeout=60, max_evaluations=20_000)


def test_a_region_that_cannot_be_entered_is_told() -> None:
    """x^2 + 2xy + y^2 + 0.01 <= 0: intervals do not see that it is empty, and no point is in it."""
    squares = "(* X[0,0] X[0,0]) (* 2.0 X[0,0] X[0,1]) (* X[0,1] X[0,1])"
    result = searched(f"(<= (+ {squares}) -0.01)")
    assert (result.verdict, result.reason) == (Verdict.UNKNOWN, StopReason.EVALUATIONS)
    assert "; no point of the input region was found" in result.reason_text


def test_thin_curved_regions_are_entered() -> None:
    """A shell of radius 0.9 and thickness 0.0005."""
    square = "(+ (* X[0,0] X[0,0]) (* X[0,1] X[0,1]))"
    result = searched(f"(and (<= {square} 0.81) (>= {square} 0.8091) (>= X[0,1] 0.4))")
    assert result.verdict is Verdict.SAT


def test_an_interval_proves_an_empty_region() -> None:
    result = searched("(<= (* X[0,0] X[0,1]) -1.01)")
    assert (result.verdict, result.reason) == (Verdict.UNSAT, StopReason.EMPTY_INPUT_SET)
