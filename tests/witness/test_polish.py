"""Polish: values end inside the bounds as written, as near as they can, and stay where they are if they are inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from falsifier.query.tree import (
    And,
    Compare,
    Constant,
    Formula,
    Kind,
    NetworkDeclaration,
    Or,
    Query,
    Reference,
    Relation,
    Table,
    Variable,
)
from falsifier.witness.polish import Bounds, input_bounds, polish


def bounds(lower: float, upper: float, *, strict: bool = False) -> Bounds:
    flag = np.array([strict])
    return Bounds(np.array([lower]), np.array([upper]), flag, flag)


def query(*assertions: Formula) -> Query:
    """Two inputs, slots 0 and 1, one output, slot 2."""
    x, y = Variable("X", Kind.INPUT, "real", (2,)), Variable("Y", Kind.OUTPUT, "real", (1,))
    return Query((1, 0), (NetworkDeclaration("", (x,), (y,)),), assertions)


def atom(slot: int, relation: Relation, constant: str) -> Compare:
    return Compare(relation, Reference(slot), Constant(constant))


def table(*rows: tuple[int, Relation, str], clauses: list[int] | None = None) -> Table:
    source = " ".join(text for _, _, text in rows)
    starts = np.cumsum([0, *(len(text) + 1 for _, _, text in rows)])[:-1]
    return Table(
        np.array([slot for slot, _, _ in rows]),
        np.array([relation.code for _, relation, _ in rows], np.int8),
        np.full(len(rows), -1),
        np.array([float(text) for _, _, text in rows]),
        starts,
        starts + [len(text) for _, _, text in rows],
        np.array([0, len(rows)] if clauses is None else clauses),
        source.encode(),
    )


def test_the_tightest_bounds_count() -> None:
    found = input_bounds(
        query(
            atom(0, Relation.GE, "0"),
            atom(0, Relation.LE, "10"),
            And((atom(0, Relation.LE, "1.5"), Compare(Relation.LE, Constant("0.25"), Reference(0)))),
            Or((atom(1, Relation.EQ, "0.5"),)),
            table((0, Relation.LE, "7"), (1, Relation.GE, "0"), (2, Relation.LE, "-1")),
        )
    )
    assert found.lower.tolist() == [0.25, 0.5, -np.inf]
    assert found.upper.tolist() == [1.5, 0.5, np.inf]
    assert not found.lower_strict.any()


def test_bounds_inside_an_or_do_not_count() -> None:
    alternatives = Or((atom(0, Relation.LE, "1"), atom(0, Relation.LE, "2")))
    found = input_bounds(query(alternatives, table((0, Relation.LE, "1"), (0, Relation.LE, "2"), clauses=[0, 1, 2])))
    assert found.upper[0] == np.inf


def test_a_strict_bound_is_tighter_than_an_equal_one() -> None:
    found = input_bounds(query(atom(0, Relation.GE, "1"), atom(0, Relation.GT, "1"), atom(1, Relation.GT, "0")))
    assert found.lower_strict.tolist() == [True, True, False]
    looser = input_bounds(query(atom(0, Relation.GE, "1"), atom(0, Relation.GT, "0.5")))
    assert not looser.lower_strict[0]


def test_rounds_inwards() -> None:
    x = np.array([0.3], np.float32)
    assert float(x[0]) > 0.3
    moved = polish(x, bounds(0.1, 0.3))
    assert moved[0] == np.nextafter(x[0], np.float32(0))
    assert float(moved[0]) < 0.3


def test_a_pinned_decimal_stays() -> None:
    x = np.array([0.1], np.float32)
    assert polish(x, bounds(0.1, 0.1)) is x


def test_strict_bounds() -> None:
    one = np.array([1.0], np.float32)
    assert polish(one, bounds(0.0, 1.0)) is one
    assert polish(one, bounds(0.0, 1.0, strict=True))[0] == np.nextafter(one[0], np.float32(0))


@pytest.mark.parametrize(
    ("value", "lower", "upper", "strict", "expected"),
    [(3, 0.5, 2.5, False, 2), (0, 0.5, 2.5, False, 1), (0, 0, 5, True, 1), (5, 0, 5, True, 4), (2, 0, 5, True, 2)],
)
def test_integers(value: int, lower: float, upper: float, strict: bool, expected: int) -> None:
    moved = polish(np.array([value]), bounds(lower, upper, strict=strict))
    assert moved.tolist() == [expected]
    assert moved.dtype == np.int64


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int8, np.bool_, np.float16, np.float32])
def test_without_bounds_nothing_moves(dtype: Any) -> None:
    extremes = np.array([1]) if dtype is np.bool_ else np.array([0, 1, 100])
    x = extremes.astype(dtype)
    free = np.full(len(x), np.inf)
    flags = np.zeros(len(x), np.bool_)
    assert polish(x, Bounds(-free, free, flags, flags)) is x


finite = st.floats(-1e30, 1e30)


@given(finite, finite, finite, st.booleans(), st.sampled_from([np.float16, np.float32, np.float64]))
def test_inside_as_written(value: float, a: float, b: float, strict: bool, dtype: Any) -> None:
    lower, upper = min(a, b), max(a, b)
    with np.errstate(over="ignore"):
        x = np.array([value]).astype(dtype)
    if not np.isfinite(x).all():
        return
    moved = polish(x, bounds(lower, upper, strict=strict))
    assert moved.dtype == dtype
    wide = float(moved[0])
    inside = lower < wide < upper if strict else lower <= wide <= upper
    if inside:
        # nothing nearer to the value is inside: the polished value is the value itself or the first one from its side
        step = float(np.nextafter(moved[0], x[0]))
        assert wide == float(x[0]) or not (lower < step < upper if strict else lower <= step <= upper)
    else:
        assert moved is x  # then no value of the type is inside
        with np.errstate(over="ignore"):
            near = np.array([lower]).astype(dtype)[0]
            candidates = [
                float(v) for v in (np.nextafter(near, dtype(-np.inf)), near, np.nextafter(near, dtype(np.inf)))
            ]
        assert not any(lower < c < upper if strict else lower <= c <= upper for c in candidates)
