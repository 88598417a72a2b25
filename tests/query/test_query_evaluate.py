"""The reference evaluator: both arithmetics by hand, and columns against nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from query_text import TREES, one_network, queries

from falsifier.errors import InputError
from falsifier.query import parse
from falsifier.query.evaluate import Arithmetic, failing, holds, mentions_output
from falsifier.query.explain import explain
from falsifier.query.tree import And, Formula, Or, Query, Table
from falsifier.query.write import write
from falsifier.records import replaced

EXACT, PUBLISHED = Arithmetic.EXACT, Arithmetic.PUBLISHED
ONE = "(declare-const X_0 Real)(declare-const X_1 Real)(declare-const Y_0 Real)"
TWO = "(vnnlib-version <2.0>)(declare-network N (declare-input X {} [2]) (declare-output Y {} [1]))"


def _one(assertion: str, x: list[Any], y: list[Any], kind: Any = np.float32) -> tuple[bool, bool]:
    """(exact, published) of a 1.0 assertion."""
    query = parse(ONE + f"(assert {assertion})")
    values = [np.array(x, dtype=kind), np.array(y, dtype=kind)]
    return holds(query, values, EXACT), holds(query, values, PUBLISHED)


def _two(assertion: str, x: list[Any], y: list[Any], kind: Any = np.float32, dtype: str = "real") -> tuple[bool, bool]:
    """(exact, published) of a 2.0 assertion."""
    query = parse(TWO.format(dtype, dtype) + f"(assert {assertion})")
    values = [np.array(x, dtype=kind), np.array(y, dtype=kind)]
    return holds(query, values, EXACT), holds(query, values, PUBLISHED)


def test_float32_of_a_decimal_lies_outside_as_written_and_inside_as_published() -> None:
    edge = np.float32(0.3)  # 0.30000001192..
    assert _one("(<= X_0 0.3)", [edge, 0], [0]) == (False, True)
    assert _two("(<= X[0] 0.3)", [edge, 0], [0]) == (False, True)
    assert _one("(<= (* 1 X_0) 0.3)", [edge, 0], [0]) == (False, True)


def test_outputs_of_1_are_compared_in_float64_and_of_2_in_float32() -> None:
    edge = np.float32(0.3)
    assert _one("(<= Y_0 0.3)", [0, 0], [edge]) == (False, False)
    assert _two("(<= Y[0] 0.3)", [0, 0], [edge]) == (False, True)


def test_a_float64_model_is_compared_in_float64() -> None:
    assert _one("(<= X_0 0.3)", [0.3, 0], [0], np.float64) == (True, True)
    assert _one("(<= X_0 0.3)", [np.nextafter(0.3, 1), 0], [0], np.float64) == (False, False)
    assert _two("(<= X[0] 0.3)", [np.nextafter(0.3, 1), 0], [0], np.float64) == (False, False)


def test_half_precision() -> None:
    edge = np.float16(0.3)
    above = bool(float(edge) > 0.3)
    assert _one(f"({'<=' if above else '>='} X_0 0.3)", [edge, 0], [0], np.float16) == (False, True)


@pytest.mark.parametrize(("relation", "published_1"), [("<", True), (">", True)])
def test_strict_signs(relation: str, published_1: bool) -> None:
    assert _one(f"({relation} X_0 0.5)", [0.5, 0], [0]) == (False, published_1)
    assert _one(f"({relation} (+ X_0 0) 0.5)", [0.5, 0], [0]) == (False, published_1)
    assert _two(f"({relation} X[0] 0.5)", [0.5, 0], [0]) == (False, False)
    assert _two(f"({relation} (+ X[0] 0.0) 0.5)", [0.5, 0], [0]) == (False, False)


def test_equality_counts() -> None:
    assert _one("(>= Y_0 1)", [0, 0], [1]) == (True, True)
    assert _one("(>= Y_0 0.0)", [0, 0], [-0.0]) == (True, True)
    assert _one("(= Y_0 1)", [0, 0], [1]) == (True, True)
    assert _one("(= Y_0 1)", [0, 0], [np.nextafter(np.float32(1), 2)]) == (False, False)


@pytest.mark.parametrize("relation", ["<", "<=", ">", ">=", "==", "!="])
@pytest.mark.parametrize("side", ["X[0]", "(* 1.0 X[0])"])
def test_nan_satisfies_nothing(relation: str, side: str) -> None:
    assert _two(f"({relation} {side} 0.5)", [np.nan, 0], [0]) == (False, False)
    assert _two(f"({relation} {side} X[1])", [np.nan, np.nan], [0]) == (False, False)


def test_infinities() -> None:
    assert _two("(>= X[0] 0.5)", [np.inf, 0], [0]) == (True, True)
    assert _two("(!= X[0] X[1])", [np.inf, -np.inf], [0]) == (True, True)
    assert _two("(== X[0] X[1])", [np.inf, np.inf], [0]) == (False, False)
    assert _two("(!= X[0] X[1])", [np.inf, np.inf], [0]) == (False, False)


def test_sums_go_from_the_left_and_differences_subtract_a_sum() -> None:
    big = float(2**24)
    # in float32: (2^24 + 1) + 1 = 2^24, but 1 + 1 + 2^24 = 2^24 + 2
    assert _two("(>= (+ X[0] X[1] X[1]) 16777218.0)", [big, 1], [0]) == (True, False)
    assert _two("(>= (+ X[1] X[1] X[0]) 16777218.0)", [big, 1], [0]) == (True, True)
    # 2^24 + 2 - (1 + 1) = 2^24, where taking away one after the other gives 2^24 + 1 -> 2^24, - 1 -> 2^24 - 1
    assert _two("(<= (- X[0] X[1] X[1]) 16777214.0)", [big, 1], [0]) == (True, True)
    assert _two("(>= (- X[0] X[1] X[1] X[1]) 16777213.0)", [big, 1], [0]) == (True, True)


def test_1_computes_with_inputs_in_float32_and_with_outputs_in_float64() -> None:
    big = float(2**24)
    assert _one("(>= (+ X_0 X_1) 16777217)", [big, 1], [0]) == (True, True)  # the bound rounds down as well
    assert _one("(<= (+ X_0 X_1) 16777216)", [big, 1], [0]) == (False, True)
    assert _one("(<= (+ Y_0 X_1) 16777216)", [big, 1], [big]) == (False, False)


def test_large_integers_are_exact() -> None:
    large = 2**53
    for arithmetic in (0, 1):
        assert _two(f"(<= X[0] {large})", [large + 1, 0], [0], np.int64, "int64")[arithmetic] is False
        assert _two(f"(<= X[0] {large + 1})", [large + 1, 0], [0], np.int64, "int64")[arithmetic] is True
        assert _two("(< X[0] X[1])", [large, large + 1], [0], np.int64, "int64")[arithmetic] is True
        assert _two(f"(== (* 1 X[0]) {large + 1})", [large, 0], [0], np.int64, "int64")[arithmetic] is False


def test_integers_beside_constants_that_their_type_cannot_hold() -> None:
    assert _two("(<= X[0] 1000)", [5, 0], [0], np.int8, "int8") == (True, True)
    assert _two("(<= (+ X[0] 1000) 1005)", [5, 0], [0], np.int8, "int8") == (True, False)
    assert _two("(> X[0] 200)", [250, 0], [0], np.uint8, "uint8") == (True, True)


def test_booleans_count_as_0_and_1() -> None:
    assert _two("(!= X[0] X[1])", [True, False], [True], np.bool_, "bool") == (True, True)
    assert _two("(== X[0] Y[0])", [True, False], [True], np.bool_, "bool") == (True, True)


def test_failing_names_assertions() -> None:
    query = parse(ONE + "(assert (<= X_0 1))(assert (or (<= Y_0 0) (>= Y_0 1)))(assert (<= (+ X_0 Y_0) 9))")
    assert failing(query, [np.array([2.0, 0]), np.array([0.5])], EXACT) == [0, 1]
    assert mentions_output(query) == [False, True, True]


def test_hidden_tensors_count_as_outputs() -> None:
    query = parse(
        '(vnnlib-version <2.0>)(declare-network N (declare-input X real [1]) (declare-hidden H real [1] "h")'
        " (declare-output Y real [1]))(assert (<= X[0] 1.0))(assert (<= H[0] 1.0))(assert (<= 0.0 1.0))"
        "(assert (>= (* X[0] H[0]) 0.0))"
    )
    assert mentions_output(query) == [False, True, False, True]


@pytest.mark.parametrize("values", [[np.zeros(2)], [np.zeros(3), np.zeros(1)]])
def test_values_must_fit_the_variables(values: list[NDArray[Any]]) -> None:
    with pytest.raises(InputError, match=r"arrays for 2 variables|3 values for X, which has 2"):
        failing(parse(ONE), values, EXACT)


def test_shapes_do_not_matter() -> None:
    query = parse(ONE + "(assert (<= X_1 1))")
    assert holds(query, [np.array([[[5.0], [1.0]]]), np.array(0.0)], EXACT)


def test_connectives_of_nothing() -> None:
    empty = np.zeros(0, dtype=np.int64)
    nothing = Table(empty, empty.astype(np.int8), empty, empty.astype(np.float64), empty, empty, np.array([0]), b"")
    everything = replace(nothing, clauses=np.array([0, 0]))
    point = [np.zeros(3), np.zeros(2)]
    for formula, expected in ((And(()), True), (Or(()), False), (nothing, False), (everything, True)):
        assert holds(one_network((1, 0), 3, 2, (formula,)), point, EXACT) is expected
        assert holds(one_network((1, 0), 3, 2, (Or((And((formula,)),)),)), point, EXACT) is expected


def _expanded(formula: Formula) -> Formula:
    if isinstance(formula, Table):
        return formula.expand()
    if isinstance(formula, And | Or):
        return type(formula)(tuple(_expanded(part) for part in formula.parts))
    return formula


@st.composite
def _points(draw: st.DrawFn, query: Query) -> list[NDArray[Any]]:
    """Values at, or next to, the numbers of the query, so that comparisons are met with equality."""
    tables = [assertion for assertion in query.assertions if isinstance(assertion, Table)]
    constants = [value for table in tables for value in table.value.tolist()]
    number = st.one_of(st.sampled_from([*constants, 0.0, 1.0]), st.floats(-1e6, 1e6), st.just(float("nan")))
    kind = draw(st.sampled_from([np.float32, np.float64, np.float16]))
    with np.errstate(all="ignore"):
        out = []
        for variable in query.variables:
            flat = np.array(draw(st.lists(number, min_size=variable.size, max_size=variable.size))).astype(kind)
            out.append(np.nextafter(flat, np.inf).astype(kind) if draw(st.booleans()) else flat)
    return out


@TREES
@given(st.data(), st.sampled_from([(1, 0), (2, 0)]), st.sampled_from(Arithmetic))
def test_columns_and_nodes_agree(data: st.DataObject, version: tuple[int, int], arithmetic: Arithmetic) -> None:
    query = parse(write(data.draw(queries(version))))
    nodes = replaced(query, assertions=tuple(_expanded(assertion) for assertion in query.assertions))
    for _ in range(3):
        point = data.draw(_points(query))
        assert failing(query, point, arithmetic) == failing(nodes, point, arithmetic)


@TREES
@given(st.data(), st.sampled_from([(1, 0), (2, 0)]), st.sampled_from(Arithmetic))
def test_an_explanation_for_every_failing_assertion(
    data: st.DataObject, version: tuple[int, int], arithmetic: Arithmetic
) -> None:
    query = parse(write(data.draw(queries(version))))
    point = data.draw(_points(query))
    found = explain(query, point, arithmetic)
    assert [failure.assertion for failure in found] == failing(query, point, arithmetic)
    assert all(failure.shortfall >= 0 for failure in found)


def test_the_explanation_names_the_worst_atom_of_the_nearest_clause() -> None:
    query = parse(
        ONE
        + "(assert (or (and (<= X_0 1) (<= X_1 1.5)) (<= X_0 -10)))(assert (<= (+ X_0 X_1) 3))(assert (< X_0 2))"
        + "(assert (>= Y_0 X_0))"
    )
    found = explain(query, [np.array([2.0, 1.75]), np.array([np.nan])], EXACT)
    assert [(failure.atom, failure.shortfall) for failure in found] == [
        ("(<= X_0 1)", 1.0),
        ("(<= (+ X_0 X_1) 3)", 0.75),
        ("(< X_0 2)", 0.0),
        ("(>= Y_0 X_0)", np.inf),
    ]
