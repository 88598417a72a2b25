"""Equalities of what networks compute with numbers that float32 does not hold."""

from __future__ import annotations

import models
import numpy as np
import pytest
from query_trees import bounds, compare, query, slots

from falsifier import Verdict, falsify
from falsifier.query.tree import Or
from falsifier.spec import Rounding, compile_query

X0, Y0, Y1 = slots(0, 3)


@pytest.mark.parametrize("rounding", list(Rounding))
def test_the_nearest_value_where_none_is_left(rounding: Rounding) -> None:
    what = query([*bounds([0], [1]), compare(Y0, "==", "0.1")], 1, 2, (2, 0))
    spec = compile_query(what, np.float32, rounding)
    assert spec.targets is not None
    assert spec.targets.bound.tolist() == [[-np.float32(0.1), np.float32(0.1)]]
    assert spec.targets.exact.tolist() == [rounding is Rounding.NEAREST]


def test_what_is_held_stays_exact() -> None:
    """0.25 is a float32; 0.1 in another disjunct takes nothing from it; a float64 network holds both as read."""
    parts = Or((compare(Y0, "==", 0.25), compare(Y1, "==", "0.1"), compare(Y1, ">=", "0.1")))
    what = query([*bounds([0], [1]), parts], 1, 2, (2, 0))
    spec = compile_query(what, np.float32)
    assert spec.targets is not None
    assert spec.targets.exact.tolist() == [True, False, True]
    wide = compile_query(what, np.float64).targets
    assert wide is not None
    assert wide.exact.all()


def test_1_0_compares_outputs_in_float64() -> None:
    what = query([*bounds([0], [1]), compare(Y0, "==", "0.1")], 1, 2)
    targets = compile_query(what, np.float32).targets
    assert targets is not None
    assert targets.bound[0, 1] > -targets.bound[0, 0]  # no float32 is 0.1


def test_found_under_the_published_rule() -> None:
    text = (
        "(vnnlib-version <2.0>)\n(declare-network N (declare-input X float32 [1,1]) (declare-output Y float32 [1,1]))\n"
        "(assert (and (>= X[0,0] -1.0) (<= X[0,0] 2.0)))\n(assert (== Y[0,0] 0.1))\n"
    )
    net = models.chain([("Clip", [models.constant("a", 0.1), models.constant("b", 1.0)], {})], [1, 1], [1, 1])
    result = falsify(net, text, timeout=60, max_evaluations=20_000)
    assert (result.verdict, result.class_) == (Verdict.SAT, "correct")
    assert falsify(net, text, timeout=60, max_evaluations=2000, require="exact").verdict is Verdict.UNKNOWN
