"""Conversion between the versions: the same truth at every point, constants digit by digit, refusals with a reason."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from analytic_engine import AnalyticEngine
from hypothesis import given
from query_text import NUMBERS_1, TREES, one_network, queries
from query_trees import queries as small_queries
from query_trees import satisfied

from falsifier.errors import InputError
from falsifier.problem import Problem
from falsifier.query import parse
from falsifier.query.convert import to_1, to_2
from falsifier.query.evaluate import Arithmetic, holds
from falsifier.query.folding import fold_term, leaves
from falsifier.query.plain import plain
from falsifier.query.tree import And, Compare, Constant, Kind, Or, Query, Reference, Relation, Table, Variable
from falsifier.query.write import write
from falsifier.records import replaced
from falsifier.spec import compile_query

DECLARED = "(declare-const X_0 Real)\n(declare-const X_1 Real)\n(declare-const Y_0 Real)\n"
HEAD = "(vnnlib-version <2.0>)\n(declare-network f\n  (declare-input A {t} [1,2])\n  (declare-output B {t} [1])\n)\n"


def truths(query: Query, points: np.ndarray) -> list[bool]:
    """In rational arithmetic, so that nothing that was written is rounded."""
    return [satisfied(query, p) for p in points]


def points_for(query: Query) -> np.ndarray:
    """Random points, and those whose elements are constants of the query."""
    rng = np.random.default_rng(0)
    constants = [float(text) for text in texts(query)] or [0.0]
    return np.concatenate([rng.normal(size=(4, 5)), rng.choice(constants, size=(12, 5))])


def texts(query: Query) -> list[str]:
    """All constants of a query."""
    found: list[str] = []

    def note(term: Constant | Reference) -> None:
        found.extend([term.text] if isinstance(term, Constant) else [])

    for leaf in (leaf for formula in query.assertions for leaf in leaves(formula)):
        if isinstance(leaf, Table):
            found += [leaf.constant(i) for i in np.flatnonzero(leaf.right < 0).tolist()]
        else:
            for side in (leaf.left, leaf.right):
                fold_term(side, note, lambda *_: None)
    return found


@TREES
@given(queries((1, 0)))
def test_1_as_2_means_the_same(query: Query) -> None:
    original = parse(write(query))
    text = write(to_2(original))
    again = parse(text)  # through the reference parser and its type check
    assert again.version == (2, 0)
    points = points_for(original)
    assert truths(again, points) == truths(original, points)
    assert sorted(map(Decimal, texts(again))) == sorted(map(Decimal, texts(original)))


@TREES
@given(queries((2, 0)))
def test_2_as_1_means_the_same_or_is_refused(query: Query) -> None:
    original = parse(write(query))
    try:
        text = write(to_1(original))
    except InputError as error:
        reason = str(error)
        assert "cannot be written as 1.0" in reason
        assert ("strict" in reason) or ("no counterpart" in reason) or ("multiplies variables" in reason)
        return
    points = points_for(original)
    again = parse(text)
    assert truths(again, points) == truths(original, points)
    assert truths(parse(write(to_2(again))), points) == truths(original, points)


@pytest.mark.usefixtures("real_numbers")
@TREES
@given(small_queries(3, 2, degree=2))
def test_both_evaluators_see_no_difference(query: Query) -> None:
    """Quarters, so that neither rounds: the tree's evaluator, and the compiled margin."""
    again = to_2(query)
    points = np.random.default_rng(0).integers(-13, 14, (20, 3)) / 4.0
    by_tree = [[holds(q, [x, x[:2]], Arithmetic.EXACT) for x in points] for q in (query, again)]
    assert by_tree[0] == by_tree[1]
    engine = AnalyticEngine(np.eye(3)[:2])
    for found in (query, again):
        spec = compile_query(found, np.float64)
        margins = np.full(len(points), -np.inf)
        if not spec.empty:
            problem = Problem(spec, engine)
            short = problem.domain.restrict(points)
            reached = (problem.embed(short) == points).all(axis=1)
            margins = np.where(reached, problem.screen(short).max(axis=1), -np.inf)
        assert (margins >= 0).tolist() == by_tree[0]


@TREES
@given(NUMBERS_1)
def test_numbers_are_written_out_exactly(text: str) -> None:
    written = plain(text)
    assert Decimal(written) == Decimal(text)
    assert written.lstrip("-").replace(".", "", 1).isdigit()
    if "e" not in text.lower() and not text.startswith("+") and text[0] != "." and "." in text.rstrip("."):
        assert written == text or text.startswith("-.")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("3", "3.0"),
        ("+1.50e0", "1.50"),
        ("-.5", "-0.5"),
        ("1.", "1.0"),
        ("12.34e-3", "0.01234"),
        ("12.34e3", "12340.0"),
        ("0.001e2", "0.1"),
        ("-0", "-0.0"),
        ("0e999999999999", "0.0"),
        ("007.10", "007.10"),
    ],
)
def test_numbers(text: str, written: str) -> None:
    assert plain(text) == written


@pytest.mark.parametrize("text", ["1e309", "1e999999999999", "1e-320", "1e-999999999999", "-2e400"])
def test_numbers_that_2_cannot_hold(text: str) -> None:
    with pytest.raises(InputError, match="beyond the numbers"):
        plain(text)
    with pytest.raises(InputError, match=r"prop: the constant .* beyond"):
        to_2(parse(DECLARED + f"(assert (<= X_0 {text}))\n", "prop"))


def test_declared_as_the_network_does() -> None:
    query = parse(DECLARED + "(assert (<= X_1 1e-1))\n(assert (>= Y_0 (* 2 X_0)))\n")
    x, y = Variable("x", Kind.INPUT, "float32", (1, 2)), Variable("y", Kind.OUTPUT, "float32", ())
    text = write(to_2(query, x, y))
    assert "(declare-input X float32 [1,2])" in text
    assert "(declare-output Y float32 [])" in text
    assert "(assert (<= X[0,1] 0.1))" in text
    assert "(assert (>= Y (* 2.0 X[0,0])))" in text
    assert parse(text).networks[0].inputs[0].dtype == "float32"


@pytest.mark.parametrize(
    ("input_type", "output_type"), [("int64", "float32"), ("float16", "float32"), ("int8", "int8")]
)
def test_types_that_2_would_not_mix_become_real(input_type: str, output_type: str) -> None:
    query = parse(DECLARED + "(assert (<= X_1 0.5))\n(assert (>= Y_0 X_0))\n")
    x, y = Variable("x", Kind.INPUT, input_type, (2,)), Variable("y", Kind.OUTPUT, output_type, (1,))
    assert {v.dtype for v in parse(write(to_2(query, x, y))).variables} == {"real"}


def test_a_query_about_inputs_alone_takes_the_outputs_of_the_network() -> None:
    query = parse("(declare-const X_0 Real)\n(assert (<= X_0 0.5))\n", "prop")
    with pytest.raises(InputError, match=r"prop: declares no output.*give the network"):
        to_2(query)
    x, y = Variable("x", Kind.INPUT, "float32", (1,)), Variable("y", Kind.OUTPUT, "float32", (3,))
    assert "Y float32 [3]" in write(to_2(query, x, y))
    with pytest.raises(InputError, match="prop: declares 1 inputs X, the network has 2"):
        to_2(query, replaced(x, shape=(2,)), y)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (HEAD.format(t="real") + "(assert (< A[0,1] 1.0))", r"\(< A\[0,1\] 1.0\) is strict"),
        (HEAD.format(t="real") + "(assert (> (+ A[0,1] B[0]) 1.0))", "is strict"),
        (HEAD.format(t="real") + "(assert (or (!= A[0,1] 1.0) (<= B[0] 1.0)))", "no counterpart"),
        (HEAD.format(t="real") + "(assert (<= (* A[0,1] B[0]) 1.0))", "multiplies variables"),
        (HEAD.format(t="int8") + "(assert (<= A[0,1] 1))", "A is int8"),
        (HEAD.format(t="real").replace(")\n)", ") (declare-output C real [1])\n)") + "(assert (<= B[0] 1.0))", "B, C"),
        (
            HEAD.format(t="real").replace("(declare-output", '(declare-hidden H real [1] "h")\n  (declare-output')
            + "(assert (<= B[0] 1.0))",
            "H is a hidden node",
        ),
        (
            HEAD.format(t="real")
            + HEAD.format(t="real").split("\n", 1)[1].replace("f\n", "g\n").replace(" A ", " C ").replace(" B ", " D ")
            + "(assert (<= B[0] 1.0))",
            "networks f, g",
        ),
    ],
)
def test_what_1_cannot_say(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=f"prop: cannot be written as 1.0: .*{reason}"):
        to_1(parse(text, "prop"))


def test_equalities_become_two_bounds() -> None:
    text = (
        HEAD.format(t="float32") + "(assert (== A[0,0] 0.50))\n"
        "(assert (or (and (== A[0,1] A[0,0]) (<= B[0] 1.0)) (== 2.0 B[0])))\n(assert (== (+ A[0,0] B[0]) 1.0))\n"
    )
    assert write(to_1(parse(text))).splitlines()[3:] == [
        "(assert (<= X_0 0.50))",
        "(assert (>= X_0 0.50))",
        "(assert (or (and (<= X_1 X_0) (>= X_1 X_0) (<= Y_0 1.0)) (and (<= Y_0 2.0) (>= Y_0 2.0))))",
        "(assert (and (<= (+ X_0 Y_0) 1.0) (>= (+ X_0 Y_0) 1.0)))",
    ]


def nested(deep: int, alternate: bool) -> Query:
    formula: And | Or | Compare = Compare(Relation.LE, Reference(0), Constant("1"))
    for i in range(deep):
        kind = Or if alternate and i % 2 else And
        formula = kind((formula, Compare(Relation.LE, Reference(1), Constant(str(i)))))
    return one_network((1, 0), 3, 2, (formula,))


def test_deep_formulas_are_flattened() -> None:
    again = parse(write(to_2(nested(5000, alternate=False))))
    assert holds(again, [np.zeros(3), np.zeros(2)], Arithmetic.EXACT)
    with pytest.raises(InputError, match="nests more than"):
        to_2(nested(5000, alternate=True))


def test_nothing_asserted() -> None:
    with pytest.raises(InputError, match="asserts nothing"):
        to_2(parse(DECLARED))


def test_the_version_that_it_has() -> None:
    one, two = parse(DECLARED + "(assert (<= X_0 1e0))\n"), parse(HEAD.format(t="real") + "(assert (<= B[0] 1.0))")
    assert to_1(one) is one
    assert to_2(two) is two
