"""What nothing satisfies in real numbers, and readers that round do: never said to have no solution."""

from __future__ import annotations

from typing import Any

import models
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from query_trees import compare, query, slots

from falsifier import Result, Verdict, falsify
from falsifier.query.evaluate import Arithmetic, holds
from falsifier.query.tree import Compare, Constant, Difference, Kind, NetworkDeclaration, Product, Query, Sum, Variable
from falsifier.spec import compile_query

X0, X1, Y0, Y1 = slots(0, 4)
VAST = "1000000000.0"


def bounded(low: Any, high: Any) -> list[str]:
    bounds = zip(low, high, strict=True)
    return [part for i, (a, b) in enumerate(bounds) for part in (f"(>= X[{i}] {a})", f"(<= X[{i}] {b})")]


def answer(asserts: list[str], dtype: Any = np.float32) -> Result:
    """The result where the network is the identity of two inputs."""
    name = np.dtype(dtype).name
    declared = f"(declare-network N (declare-input X {name} [2]) (declare-output Y {name} [2]))\n"
    text = f"(vnnlib-version <2.0>)\n{declared}" + "".join(f"(assert {part})\n" for part in asserts)
    network = models.chain([("Identity", [], {})], [2], [2], dtype)
    return falsify(network, text, timeout=120, max_evaluations=2000)


@pytest.mark.parametrize(
    "asserts",
    [
        [*bounded(["1.0"] * 2, ["2.0"] * 2), "(== X[0] (+ X[1] 0.00000001))", "(== X[0] X[1])"],
        [*bounded([VAST] * 2, [VAST] * 2), "(== X[0] (+ X[1] 0.01))"],
        [*bounded(["1.0"] * 2, ["2.0"] * 2), "(<= X[0] (- X[0] 0.00000001))"],
        [*bounded([VAST] * 2, [VAST] * 2), "(>= Y[0] (+ Y[1] 1.0))", "(<= Y[0] Y[1])"],
        [*bounded([VAST] * 2, [VAST] * 2), "(>= Y[0] (+ X[1] 1.0))", "(<= Y[0] X[1])"],
        [*bounded(["0.0"] * 2, ["2.0"] * 2), "(>= Y[0] 1.00000001)", "(<= Y[0] 1.0)"],
    ],
)
def test_found_where_float32_meets_it(asserts: list[str]) -> None:
    result = answer(asserts)
    assert (result.verdict, result.class_) == (Verdict.SAT, "correct")


@pytest.mark.parametrize(
    ("asserts", "dtype"),
    [
        ([*bounded(["0.0"] * 2, ["1.0"] * 2), "(>= (+ X[0] 1000.0) 1001.00001)"], np.float32),
        ([*bounded(["2048.0", "0.9"], ["2048.0", "1.0"]), "(<= (+ X[0] X[1]) 2048.0)"], np.float16),
        ([*bounded(["300.0"] * 2, ["300.0"] * 2), "(>= (* X[0] X[1]) 100000.0)"], np.float16),
        ([*bounded(["0.0", "1.0"], ["9.0", "1.0"]), "(== X[0] (- X[1] 0.9))", "(<= Y[0] 0.1)"], np.float32),
    ],
)
def test_not_said_to_have_no_solution(asserts: list[str], dtype: Any) -> None:
    assert answer(asserts, dtype).verdict is not Verdict.UNSAT


@pytest.mark.parametrize(
    "asserts",
    [
        [*bounded(["1.0"] * 2, ["2.0"] * 2), "(== X[0] (+ X[1] 0.001))", "(== X[0] X[1])"],
        [*bounded(["0.0"] * 2, ["1.0"] * 2), "(>= (+ X[0] 1000.0) 1001.01)"],
        [*bounded(["1.0"] * 2, ["2.0"] * 2), "(<= X[0] (- X[0] 0.001))"],
        [*bounded(["0.0"] * 2, ["2.0"] * 2), "(>= Y[0] 1.000001)", "(<= Y[0] 1.0)"],
        [*bounded(["0.0"] * 2, ["2.0"] * 2), "(> Y[0] Y[1])", "(< Y[0] Y[1])"],
    ],
)
def test_no_solution_for_any_reader(asserts: list[str]) -> None:
    assert answer(asserts).verdict is Verdict.UNSAT


@pytest.mark.parametrize(("value", "empty"), [(10, True), (100, False)])
def test_whole_numbers_wrap_around(value: int, empty: bool) -> None:
    """100 + 100 is -56 in int8."""
    variables = Variable("X", Kind.INPUT, "int8", (2,)), Variable("Y", Kind.OUTPUT, "real", (2,))
    box = [compare(x, "==", value) for x in (X0, X1)]
    network = NetworkDeclaration("N", variables[:1], variables[1:])
    what = Query((2, 0), (network,), (*box, compare(Sum((X0, X1)), "<=", 0)))
    assert compile_query(what, np.float32, types=[np.dtype(np.int8)]).empty == empty


numbers = st.one_of(st.integers(-40, 40).map(lambda i: i / 10), st.integers(-9, 9).map(lambda i: i * 1e5))


def terms(depth: int) -> st.SearchStrategy[Any]:
    leaf = st.one_of(st.sampled_from([X0, X1]), numbers.map(lambda v: Constant(f"{v:.3f}")))
    if not depth:
        return leaf
    inner = st.lists(terms(depth - 1), min_size=2, max_size=3).map(tuple)
    return st.one_of(
        leaf, inner.map(Sum), inner.map(lambda t: Difference(t[0], t[1:])), inner.map(lambda t: Product(t[:2]))
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_never_empty_where_a_reader_finds_a_point(dtype: Any, data: st.DataObject) -> None:
    """Comparisons with just what a reader computes at a point, one of them strict at most."""
    draw = data.draw
    with np.errstate(over="ignore"):
        point = np.array([draw(numbers), draw(numbers)]).astype(dtype)
    if not np.isfinite(point).all():
        return
    width = draw(st.sampled_from([0.0, 1e-4, 1.0]))
    box = [
        compare(x, sign, f"{float(v) + (width if sign == '<=' else -width):.12f}")
        for x, v in zip((X0, X1), point, strict=True)
        for sign in ("<=", ">=")
    ]
    parts: list[Compare] = []
    for _ in range(draw(st.integers(1, 3))):
        term, other = draw(terms(2)), draw(terms(1))
        relation = draw(st.sampled_from(["<=", ">=", "==", "<", ">"]))
        parts += [p for p in (compare(term, relation, other), compare(term, "==", other)) if _meets(p, point)][:1]
        for sign in draw(st.sampled_from([("<=",), (">=",), ("==",), ("<=", ">=")])):
            value = _value(term, point)
            parts += [p for p in [compare(term, sign, value)] if value and _meets(p, point)]
    name = np.dtype(dtype).name
    what = query([*box, *parts], 2, 2, (2, 0), name)
    if holds(what, [point, point], Arithmetic.PUBLISHED):
        assert not compile_query(what, np.float32, types=[np.dtype(dtype)]).empty


def _value(term: Any, point: Any) -> str:
    """What a reader computes, as a decimal."""
    from falsifier.query.arithmetic import Point

    with np.errstate(all="ignore"):
        value = float(Point(query([], 2, 2, (2, 0)), [point, point], Arithmetic.PUBLISHED).term(term))
    return np.format_float_positional(value, trim="0") if np.isfinite(value) else ""


def _meets(part: Compare, point: Any) -> bool:
    return holds(query([part], 2, 2, (2, 0)), [point, point], Arithmetic.PUBLISHED)
