"""Queries in plain words: short, true, and for every query that can be read."""

from __future__ import annotations

import pytest

from falsifier.query import parse
from falsifier.spec.describe import describe

ONE = (
    "(declare-const X_0 Real)\n(declare-const X_1 Real)\n(declare-const X_2 Real)\n(declare-const Y_0 Real)\n"
    "(declare-const Y_1 Real)\n(assert (>= X_0 -1))(assert (<= X_0 1))(assert (>= X_1 0.5))(assert (<= X_1 0.5))\n"
    "(assert (= X_2 (- (* 2 X_0) 1)))\n"
)


def test_one_network() -> None:
    text = ONE + "(assert (or (and (>= Y_0 Y_1) (<= Y_0 3)) (<= (+ (* 2 Y_0) (- Y_1)) -1.5)))\n"
    assert describe(parse(text, "prop")) == [
        "prop: VNN-LIB 1.0, 1 network",
        "  X real [3] to Y real [2]",
        "",
        "Searched for: an input within the bounds (4 comparisons) such that",
        "  X_2 = (2 * X_0) - 1",
        "  one of 2:",
        "    - Y_0 >= Y_1",
        "      Y_0 <= 3",
        "    - (2 * Y_0) + -Y_1 <= -1.5",
        "Finding one means that the property is violated.",
        "",
        "inputs: 3 numbers, 1 free, 1 fixed, 1 determined by others; ranges 2 wide",
        "alternatives: 2, each of 1 to 2 comparisons beyond its bounds",
        "theories: NH SIO SNET SNC LIN real",
    ]


def test_two_networks() -> None:
    text = (
        "(vnnlib-version <2.0>)\n(declare-network f\n  (declare-input X float32 [1])\n"
        "  (declare-output Y float32 [1])\n)\n(declare-network g (equal-to f)\n  (declare-input U float32 [1])\n"
        "  (declare-output V float32 [1])\n)\n(assert (and (>= X[0] 0.0) (<= X[0] 1.0) (== U[0] X[0])))\n"
        "(assert (> (* V[0] X[0]) Y[0]))\n"
    )
    lines = describe(parse(text))
    assert lines[1:3] == [
        "  f: X float32 [1] to Y float32 [1]",
        "  g, equal to f: U float32 [1] to V float32 [1]",
    ]
    assert lines[4:7] == [
        "Searched for: one input for each network within the bounds (2 comparisons) such that",
        "  U[0] = X[0]",
        "  V[0] * X[0] > Y[0]",
    ]
    assert "inputs: 2 numbers, 1 free, 1 determined by others; ranges 1 wide" in lines
    assert "curved: products of up to 2 variables" in lines
    assert lines[-1] == "theories: NH SIO MENET MNC POLY float32"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(assert (>= X_0 1.5))", "No input can satisfy it: empty input set: the bounds on the inputs contradict"),
        ("(assert (>= Y_0 1.5))(assert (<= Y_0 1))", "No input can satisfy it: the comparisons contradict each other"),
    ],
)
def test_empty(text: str, said: str) -> None:
    assert any(line.startswith(said) for line in describe(parse(ONE + text)))


def test_an_input_without_bounds() -> None:
    lines = describe(parse("(declare-const X_0 Real)(declare-const Y_0 Real)(assert (>= Y_0 0))"))
    assert lines[-2].startswith("Cannot be searched as it stands: <text>: the input X_0 has no lower bound")
    assert lines[-1].startswith("theories:")


def test_large_queries_are_said_in_few_lines() -> None:
    n = 2000
    declared = "".join(f"(declare-const {v}_{i} Real)" for v in "XY" for i in range(n))
    box = "".join(f"(assert (>= X_{i} 0))(assert (<= X_{i} {i + 1}))" for i in range(n))
    clauses = " ".join(f"(and {' '.join(f'(>= Y_{i} {j})' for j in range(20))})" for i in range(n))
    total = f"(>= (+ {' '.join(f'Y_{i}' for i in range(n))}) 0)"
    many = "".join(f"(assert (>= (* Y_{i} Y_{i + 1}) 0))" for i in range(50))
    lines = describe(parse(f"{declared}{box}(assert (or {clauses}))(assert {total}){many}"))
    assert len(lines) < 40
    assert max(map(len, lines)) < 250
    assert "    - Y_0 >= 0 and Y_0 >= 1 and Y_0 >= 2 and Y_0 >= 3 and 16 more" in lines
    assert "    and 1996 more" in lines


def test_deep_queries_are_said_in_few_lines() -> None:
    formula = "(<= Y_0 1)"
    for i in range(5000):
        formula = f"({'or' if i % 2 else 'and'} {formula} (>= Y_1 {i}))"
    lines = describe(parse(f"{ONE}(assert {formula})"))
    assert len(lines) < 30
    assert any("parts with" in line and "comparisons together" in line for line in lines)
    assert any(line.startswith("alternatives: nested, kept as one formula") for line in lines)
