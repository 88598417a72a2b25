"""Shortfall: by how much a formula fails, in the units of its comparison."""

from __future__ import annotations

import math

import numpy as np
import pytest
from test_polish import atom, query, table

from falsifier.query.tree import (
    And,
    Compare,
    Constant,
    Difference,
    Formula,
    Negate,
    Or,
    Product,
    Reference,
    Relation,
    Sum,
)
from falsifier.witness.shortfall import shortfall

LE, GE, GT, EQ, NE = Relation.LE, Relation.GE, Relation.GT, Relation.EQ, Relation.NE
X0, X1 = Reference(0), Reference(1)


def amount(formula: Formula, x0: float = 3.0, x1: float = 1.0, y: float = 0.0) -> float:
    return shortfall(query(formula), [0], [np.array([x0, x1], np.float32), np.array([y], np.float32)])


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        (atom(0, LE, "1"), 2),
        (atom(0, GE, "1"), 0),
        (atom(0, GT, "3"), 0),
        (atom(0, EQ, "5"), 2),
        (atom(0, NE, "3"), 0),
        (And((atom(0, LE, "1"), atom(0, LE, "2"))), 2),
        (Or((atom(0, LE, "1"), atom(0, LE, "2"))), 1),
        (Or(()), math.inf),
        (And(()), 0),
        (Compare(LE, Sum((X0, X1)), Constant("1.5")), 2.5),
        (Compare(LE, Difference(X0, (X1, X1)), Constant("0")), 1),
        (Compare(LE, Product((X0, X0)), Negate(X1)), 10),
        (table((0, LE, "1"), (1, LE, "0.5")), 2),
        (table((0, LE, "1"), (1, LE, "0.5"), (1, GE, "7"), clauses=[0, 2, 3]), 2),
        (table((0, LE, "1"), (1, LE, "0.5"), (0, GE, "3.25"), clauses=[0, 2, 3]), 0.25),
        (table((0, EQ, "5"), (1, NE, "1"), clauses=[0, 1, 2]), 0),
        (table((0, EQ, "5")), 2),
    ],
)
def test_amount(formula: Formula, expected: float) -> None:
    assert amount(formula) == expected


def test_nan_is_infinitely_far() -> None:
    assert amount(atom(2, GE, "0"), y=math.nan) == math.inf
    assert amount(table((2, GE, "0")), y=math.nan) == math.inf


def test_the_worst_assertion_counts() -> None:
    two = query(atom(0, LE, "1"), atom(1, LE, "0"))
    values = [np.array([3.0, 1.0]), np.array([0.0])]
    assert shortfall(two, [0, 1], values) == 2
    assert shortfall(two, [1], values) == 1
    assert shortfall(two, [], values) == 0


def test_depth_is_no_limit() -> None:
    formula: Formula = atom(0, LE, "1")
    for _ in range(50_000):
        formula = And((formula,))
    assert amount(formula) == 2
