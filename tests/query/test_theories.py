"""The standard's theories of a query: the examples of its chapter 4, and columns and nodes that say the same."""

from __future__ import annotations

import pytest

from falsifier.query import parse
from falsifier.query.theories import theories

F = "(declare-network f\n  (declare-input X real [2])\n  (declare-output Y real [2])\n)\n"
G = (
    "(declare-network g {same}\n  (declare-input A real [2])\n"
    '  (declare-hidden H real [1] "h")\n  (declare-output B real [1])\n)\n'
)
H = "(declare-network h {same}\n  (declare-input U real [2])\n  (declare-output V real [2])\n)\n"
J = H.replace("h ", "i ").replace("U", "P").replace("V", "Q")


def of(networks: str, *asserts: str) -> list[str]:
    text = "(vnnlib-version <2.0>)\n" + networks + "".join(f"(assert {formula})\n" for formula in asserts)
    return list(theories(parse(text)).names)


@pytest.mark.parametrize(
    ("formula", "level"),
    [
        ("(and (<= X[0] 1.0) (<= 1.0 X[0]))", "BND"),
        ("(== X[0] (- 1.0))", "BND"),
        ("(>= Y[0] 0.5)", "BND"),
        ("(>= Y[0] Y[1])", "OUTC"),
        ("(or (!= Y[0] Y[1]) (<= Y[0] 1.0))", "OUTC"),
        ("(<= X[0] X[1])", "LIN"),
        ("(<= (+ (* 0.5 X[0]) (* 0.75 X[1])) 1.0)", "LIN"),
        ("(>= (+ Y[0] Y[1]) 0.5)", "LIN"),
        ("(>= (- Y[0]) 0.5)", "LIN"),
        ("(<= (* X[0] X[1]) 1.0)", "POLY"),
        ("(<= 1.0 (+ Y[0] (* 2.0 Y[1] Y[1])))", "POLY"),
    ],
)
def test_arithmetic(formula: str, level: str) -> None:
    assert of(F, formula) == ["NH", "SIO", "SNET", "SNC", level, "real"]
    assert of(F, "(<= X[0] 1.0)", formula)[4] == level
    assert of(F, formula, "(<= Y[0] 1.0)")[4] == level


@pytest.mark.parametrize(
    ("formula", "theory"),
    [
        ("(<= (+ X[0] X[1]) 0.1)", "SNC"),
        ("(<= H[0] 0.5)", "SNC"),
        ("(== Y[0] A[0])", "SNC"),
        ("(<= (+ Y[0] A[0]) 0.5)", "SNC"),
        ("(<= (+ X[0] Y[0]) 0.1)", "MNC"),
        ("(<= H[0] A[1])", "MNC"),
        ("(== B[0] H[0])", "MNC"),
        ("(or (<= X[0] 1.0) (and (<= Y[0] 1.0) (>= (* A[0] H[0] X[0]) 1.0)))", "MNC"),
    ],
)
def test_comparisons_of_nodes(formula: str, theory: str) -> None:
    names = of(F + G.format(same=""), formula)
    assert names[:4] == ["H", "SIO", "MNET", theory]


@pytest.mark.parametrize(
    ("networks", "theory"),
    [
        (F, "SNET"),
        (F + H.format(same="(equal-to f)"), "MENET"),
        (F + H.format(same="(isomorphic-to f)"), "MINET"),
        (F + H.format(same=""), "MNET"),
        (F + H.format(same="(equal-to f)") + J.format(same="(isomorphic-to f)"), "MINET"),
    ],
)
def test_networks(networks: str, theory: str) -> None:
    assert of(networks, "(<= X[0] 1.0)")[2] == theory


def test_several_outputs_and_types() -> None:
    several = F.replace("(declare-output Y real [2])", "(declare-output Y float32 [2])\n  (declare-output Z int8 [1])")
    assert of(several, "(<= X[0] 1.0)") == ["NH", "MIO", "SNET", "SNC", "BND", "real", "float32", "int8"]


def test_1_0_has_the_same_theories() -> None:
    text = "(declare-const X_0 Real)(declare-const Y_0 Real)(declare-const Y_1 Real)(assert (<= X_0 1))"
    assert theories(parse(text + "(assert (<= Y_0 Y_1))")).names == ("NH", "SIO", "SNET", "SNC", "OUTC", "real")
    assert theories(parse(text + "(assert (<= Y_0 X_0))")).names == ("NH", "SIO", "SNET", "MNC", "LIN", "real")
