"""Comparisons of inputs that hold nowhere in the box: told where they are, and never where a point meets them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from query_trees import bounds, compare, formulas, query, satisfied, slots

from falsifier.query.tree import And, Negate, Or, Product, Sum
from falsifier.spec import compile_query

X0, X1, X2, Y0 = slots(0, 4)
BOX = bounds([0.0, 2.0, -1.0], [2.0, 3.0, 0.5])


def reason(*assertions: Any) -> str:
    return compile_query(query([*BOX, compare(Y0, ">=", 0), *assertions], 3, 1, (2, 0)), np.float32).reason


@pytest.mark.parametrize(
    "assertion",
    [
        compare(X0, ">=", Sum((X1, compare(0.01, "<", 0).left))),
        compare(X0, ">", Sum((X1, X1))),
        compare(Sum((X0, X1, X2)), ">=", 5.6),
        compare(Product((X0, X1)), ">=", 6.01),
        compare(Product((X0, X2)), "<=", -2.01),
        compare(Product((X2, X2)), "<=", -0.01),
        compare(Sum((Product((X0, X0)), Product((X1, X1)))), "<=", 3.99),
        compare(Product((X2, X2, X2)), ">=", 0.126),
        compare(Sum((X0, Negate(X1))), ">=", 0.5),
    ],
)
def test_empty(assertion: Any) -> None:
    assert reason(assertion) == "empty input set: a comparison of inputs holds nowhere in their box"
    assert reason(Or((assertion, compare(Y0, ">=", 1)))) == ""
    both = Or((assertion, And((assertion, compare(Y0, ">=", 1)))))
    assert reason(both) == "empty input set: a comparison of inputs holds nowhere in their box in every disjunct"


@pytest.mark.parametrize(
    "assertion",
    [
        compare(X0, ">=", X1),  # at one corner
        compare(Sum((X0, X1, X2)), ">=", 5.5),
        compare(Sum((X0, X1, X2)), ">=", 5.5000001),  # what float32 cannot tell from it
        compare(Product((X0, X1)), ">=", 6),
        compare(Product((X2, X2)), "<=", 0),
        compare(Product((X2, X2, X2)), ">=", 0.125),
        compare(Sum((X0, Y0)), ">=", 1e6),  # the output's affair
    ],
)
def test_not_empty(assertion: Any) -> None:
    assert reason(assertion) == ""


def test_a_disjunct_that_cannot_hold_is_left_out() -> None:
    """Each in its own box."""
    parts = [
        And((compare(X0, "<=", high), compare(Sum((X0, X1)), ">=", 4.2), compare(Y0, ">=", i)))
        for i, high in enumerate((1.0, 1.5, 1.1))
    ]
    spec = compile_query(query([*BOX, Or(tuple(parts))], 3, 1, (2, 0)), np.float32)
    assert spec.targets is not None
    assert spec.targets.disjunct.tolist() == [1]


def test_nothing_is_concluded_from_a_range_that_nobody_wrote() -> None:
    spec = compile_query(query([compare(Sum((X0, X1)), ">=", 1e6), compare(Y0, ">=", 0)], 3, 1, (2, 0)), np.float32)
    assert not spec.empty


def test_beside_a_tree() -> None:
    """The normal form would explode; what is asked of all its disjuncts is looked at all the same."""
    ors = [Or((compare(Y0, ">=", i), compare(Product((Y0, X0)), "<=", -i))) for i in range(30)]
    assert reason(*ors) == ""
    assert reason(*ors, compare(Product((X0, X1)), ">=", 6.5)).startswith("empty input set")


@settings(max_examples=150, deadline=None)
@given(st.lists(formulas(3, 2), min_size=1, max_size=3), st.lists(st.integers(-12, 12), min_size=6, max_size=6))
def test_a_point_that_satisfies_speaks_against_it(parts: list[Any], quarters: list[int]) -> None:
    point, ends = np.array(quarters[:3]) / 4, np.sort([quarters[:3], quarters[3:]], axis=0) / 4
    what = query([*bounds(ends[0].tolist(), ends[1].tolist()), *parts], 3, 1, (2, 0))
    if satisfied(what, np.append(point, 0.0)):
        for dtype in (np.float32, np.float64):
            assert not compile_query(what, dtype).empty


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_that_vanish_in_float32_are_not_called_empty(dtype: Any) -> None:
    """(1e-30)^2 is 0 in float32, in which the published rule computes."""
    box = bounds([1e-30, 2.0, -1.0], [2e-30, 3.0, 0.5])
    tree = query([*box, compare(Y0, ">=", 0), compare(Product((X0, X0)), "<=", 0)], 3, 1, (2, 0))
    assert compile_query(tree, dtype).reason == ""
