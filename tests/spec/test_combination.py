"""Linear comparisons of inputs that contradict each other together: told where they do, and never where a point meets
them all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from query_trees import bounds, compare, query, slots

from falsifier.query.tree import And, Constant, Or, Product, Sum
from falsifier.spec import compile_query

X = slots(0, 4)
X0, X1, X2, X3 = X
(Y0,) = slots(4, 1)
BOX = bounds([0.0] * 4, [1.0] * 4)
REASON = "empty input set: comparisons of inputs contradict each other in their box"


def reason(*assertions: Any) -> str:
    return compile_query(query([*BOX, compare(Y0, ">=", 0), *assertions], 4, 1, (2, 0)), np.float32).reason


def plus(item: Any, constant: float) -> Sum:
    return Sum((item, Constant(str(constant))))


CYCLE = [compare(X0, "<=", X1), compare(X1, "<=", X2), compare(plus(X2, 0.01), "<=", X0)]
OVERFULL = [compare(Sum((X0, X1)), ">=", 0.6), compare(Sum((X2, X3)), ">=", 0.6), compare(Sum(tuple(X)), "<=", 1.1)]
TIED = [
    compare(X3, "==", Sum((X0, X1))),
    compare(Sum((X0, X2)), ">=", 1.2),
    compare(Sum((X1, X2)), ">=", 1.2),
    compare(Sum((X3, X2)), "<=", 1.3),
]


@pytest.mark.parametrize("parts", [CYCLE, OVERFULL, TIED])
def test_empty(parts: list[Any]) -> None:
    assert reason(*parts) == REASON
    assert reason(*parts[:-1]) == ""
    assert reason(Or((And(tuple(parts)), compare(Y0, ">=", 1)))) == ""
    assert reason(Or((And(tuple(CYCLE)), And(tuple(OVERFULL))))) == f"{REASON} in every disjunct"


def test_less_than_float32_tells_apart_is_not_empty() -> None:
    assert reason(compare(X0, "<=", X1), compare(X1, "<=", X2), compare(plus(X2, 1e-7), "<=", X0)) == ""
    assert reason(compare(X0, "<", X1), compare(X1, "<", X2), compare(X2, "<", X0)) == ""


def test_numbers_beyond_float64_are_left_alone() -> None:
    """X2 = 1e400 X0 once X1 is eliminated."""
    vast = [compare(X1, "==", Product((Constant("1e200"), X0))), compare(X2, "==", Product((Constant("1e200"), X1)))]
    sums = [compare(Sum((X2, X3)), "<=", 1), compare(Sum((X1, X2, X3)), "<=", 1)]
    assert reason(*vast, *sums) == ""
    assert reason(compare(Sum((Product((Constant("1e200"), X0)), X1)), "<=", 1), *CYCLE) == REASON


def test_what_is_curved_is_no_part_of_it() -> None:
    assert reason(compare(Product((X0, X1)), ">=", 0.9), compare(Sum((X0, X1)), "<=", 1.5)) == ""


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_never_where_there_is_a_point(data: st.DataObject) -> None:
    whole = st.integers(-5, 5)
    point = [data.draw(st.integers(0, 8)) / 8 for _ in X]
    parts = []
    for _ in range(data.draw(st.integers(2, 8))):
        weights = [data.draw(whole) for _ in X]
        value = sum(w * p for w, p in zip(weights, point, strict=True))
        terms = tuple(Product((Constant(str(w)), x)) for w, x in zip(weights, X, strict=True))
        parts.append(compare(Sum(terms), data.draw(st.sampled_from(["<=", ">=", "=="])), value))
    assert reason(*parts) == ""


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_a_positive_combination_below_zero_is_found(rng_seed: int) -> None:
    rng = np.random.default_rng(rng_seed)
    rows = rng.integers(-9, 10, (3, 4)).astype(float)
    weight = rng.integers(1, 5, 3).astype(float)
    rows = np.vstack([rows, -(weight @ rows)])
    floors = np.append(rows[:3] @ rng.uniform(0.3, 0.7, 4), 0)
    floors[3] = -(weight @ floors[:3]) + 0.05
    parts = [
        compare(Sum(tuple(Product((Constant(str(w)), x)) for w, x in zip(row, X, strict=True))), ">=", round(floor, 6))
        for row, floor in zip(rows.tolist(), floors.tolist(), strict=True)
    ]
    assert reason(*parts).startswith("empty input set")
