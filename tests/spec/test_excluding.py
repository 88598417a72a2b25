"""A query whose own bounds exclude each other says which, and where."""

from __future__ import annotations

import pytest

from falsifier.query import parse
from falsifier.spec.compile import compile_query

ONE = "(declare-const X_0 Real)\n(declare-const X_1 Real)\n(declare-const Y_0 Real)\n"
TWO = "(vnnlib-version <2.0>)\n(declare-network f (declare-input X {} [1,2])\n(declare-output Y real [1]))\n"
TOLD = "empty input set: the bounds on the inputs contradict each other: "


def reason(text: str) -> str:
    return compile_query(parse(text)).reason


def test_the_narrowest_bounds_of_the_input_and_their_lines() -> None:
    text = ONE + (
        "(assert (and (>= X_0 0) (<= X_0 1)))\n(assert (>= X_1 0.5)) ; once\n(assert (>= X_1 0.75))\n"
        "(assert (<= X_1 0.25))\n(assert (>= 0.625 X_1))\n(assert (>= Y_0 0))\n"
    )
    assert reason(text) == TOLD + "X_1 >= 0.75 (line 6) and X_1 <= 0.25 (line 7)"


def test_in_version_2() -> None:
    bounds = "(assert (<= X[0,0] 1.0))\n(assert (>= X[0,0] 0.0))\n(assert (== X[0,1] 2.5))\n(assert (< X[0,1] 2.5))\n"
    text = TWO.format("float32") + bounds + "(assert (or (>= Y[0] 0.0) (<= Y[0] -1.0)))\n"
    assert reason(text) == TOLD + "X[0,1] == 2.5 (line 6) and X[0,1] < 2.5 (line 7)"


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ("(assert (>= X[0,1] 300))", "X[0,1] >= 300 (line 5) leaves it no value"),
        ("(assert (> X[0,1] 3))(assert (< X[0,1] 4))", "X[0,1] > 3 (line 5) and X[0,1] < 4 (line 5)"),
    ],
)
def test_integers(bounds: str, said: str) -> None:
    text = TWO.format("uint8") + "(assert (<= X[0,0] 1))\n" + bounds + "(assert (>= Y[0] 0.0))"
    assert reason(text) == TOLD + said


def test_bounds_of_disjuncts_are_not_named() -> None:
    either = "(assert (or (and (>= X_0 1) (<= X_0 0)) (and (>= X_0 2) (<= X_0 1))))"
    text = f"{ONE}{either}\n(assert (>= X_1 0))(assert (<= X_1 1))"
    assert reason(text) == TOLD[:-2] + " in every disjunct"
