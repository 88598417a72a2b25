"""Inputs that a 2.0 query leaves open: searched on the query's scale, and never a reason for `unsat`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from query_trees import bounds, compare, formulas, query, satisfied, slots

from falsifier.errors import InputError
from falsifier.query.tree import And, Or
from falsifier.spec import compile_query

X0, X1, Y0 = slots(0, 3)


def compiled(*assertions: object, version: tuple[int, int] = (2, 0), dtype: str = "real") -> object:
    return compile_query(query(list(assertions), 2, 1, version, dtype), np.float32)  # type: ignore[arg-type]


def box(spec: object) -> list[list[float]]:
    return [side.tolist() for side in (spec.targets.lower[0], spec.targets.upper[0])]  # type: ignore[attr-defined]


def test_the_numbers_of_the_query_set_the_scale() -> None:
    spec = compiled(compare(X1, ">=", 5), compare(X1, "<=", 6), compare(Y0, ">=", -8))
    assert box(spec) == [[-17, 5], [17, 6]]
    assert spec.assumed == "the query does not bound X[0] on both sides: searched from -17 to 17"  # type: ignore[attr-defined]


def test_one_side_is_kept() -> None:
    spec = compiled(compare(X0, ">=", 100), compare(Y0, ">=", 0))
    assert box(spec) == [[100, -201], [201, 201]]
    assert "X[0] and 1 more input on" in spec.assumed  # type: ignore[attr-defined]


def test_bounds_of_every_disjunct_are_enough() -> None:
    one, other = (And((compare(X0, ">=", a), compare(X0, "<=", a + 1), compare(X1, "==", 0))) for a in (1, 5))
    assert compiled(Or((one, other))).assumed == ""  # type: ignore[attr-defined]
    spec = compiled(Or((one, compare(Y0, ">=", 1e3))))
    assert spec.assumed.startswith("the query does not bound X[0] and 1 more")  # type: ignore[attr-defined]
    assert spec.targets.lower.tolist() == [[1, 0], [-2001, -2001]]  # type: ignore[attr-defined]


def test_integers() -> None:
    assert box(compiled(compare(Y0, ">=", 3), dtype="int8")) == [[-128, -128], [127, 127]]
    assert box(compiled(compare(Y0, ">=", 3), dtype="int64")) == [[-7, -7], [7, 7]]


def test_1_0_and_several_networks_are_refused() -> None:
    with pytest.raises(InputError, match=r"X_0 has no lower bound"):
        compiled(compare(Y0, ">=", 3), version=(1, 0))


@settings(max_examples=80, deadline=None)
@given(st.lists(formulas(3), min_size=1, max_size=3), st.lists(st.integers(-400, 400), min_size=3, max_size=3))
def test_no_point_contradicts_an_empty_set(parts: list[object], quarters: list[int]) -> None:
    """Wherever a point satisfies the query, however far out, the compiled query is not empty."""
    what = query(parts, 2, 1, (2, 0))  # type: ignore[arg-type]
    if satisfied(what, np.array(quarters) / 4):
        assert not compile_query(what, np.float64).empty


@settings(max_examples=40, deadline=None)
@given(st.lists(formulas(3), min_size=1, max_size=3))
def test_bounded_queries_are_left_alone(parts: list[object]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("falsifier.spec.room.roomy", lambda *_: None)  # which says what it assumes of readers
        assert not compile_query(query([*bounds([0.0, 0.0], [1.0, 1.0]), *parts], 2, 1, (2, 0))).assumed  # type: ignore[list-item]
