"""How far a formula is from holding, in float64: a figure for messages, never a decision."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.query.tree import (
    RELATIONS,
    And,
    Compare,
    Constant,
    Difference,
    Formula,
    Negate,
    Or,
    Product,
    Query,
    Reference,
    Relation,
    Sum,
    Table,
    Term,
)

Node = Formula | Term

_UP = np.array([r in (Relation.GE, Relation.GT) for r in RELATIONS])
_EQ, _NE = Relation.EQ.code, Relation.NE.code


def shortfall(query: Query, assertions: Iterable[int], values: Sequence[NDArray[Any]]) -> float:
    """The greatest amount by which one of these assertions fails, 0 where all hold up to strictness, infinity for NaN.

    `values`: one array per variable of the query. An `or` counts with its nearest part, an `and` with its farthest.
    """
    flat = np.concatenate([np.zeros(0), *(np.asarray(value, np.float64).ravel() for value in values)])
    with np.errstate(all="ignore"):
        return max((_amount(query.assertions[i], flat) for i in assertions), default=0.0)


def _amount(root: Formula, flat: NDArray[np.float64]) -> float:
    """Evaluate by an explicit stack: the text sets no limit to depth."""
    done: list[float] = []
    todo: list[tuple[Node, bool]] = [(root, False)]
    while todo:
        node, visited = todo.pop()
        parts = _parts(node)
        if not parts:
            done.append(_leaf(node, flat))
        elif visited:
            arguments = done[-len(parts) :]
            del done[-len(parts) :]
            done.append(_combine(node, arguments))
        else:
            todo.append((node, True))
            todo.extend((part, False) for part in reversed(parts))
    return done[0]


def _parts(node: Node) -> tuple[Node, ...]:
    match node:
        case And(parts) | Or(parts):
            return parts
        case Compare(_, left, right):
            return (left, right)
        case Negate(term):
            return (term,)
        case Sum(terms) | Product(terms):
            return terms
        case Difference(head, rest):
            return (head, *rest)
    return ()


def _leaf(node: Node, flat: NDArray[np.float64]) -> float:
    match node:
        case Constant(text):
            return float(text)
        case Reference(slot):
            return float(flat[slot])
        case Table():
            return _table(node, flat)
        case Or() | Product():  # without parts: an empty `or` never holds, an empty product is 1
            return math.inf if isinstance(node, Or) else 1.0
    return 0.0


def _combine(node: Node, values: list[float]) -> float:
    match node:
        case And():
            return max(values)
        case Or():
            return min(values)
        case Compare(relation):
            return _below(relation, values[0] - values[1])
        case Negate():
            return -values[0]
        case Sum():
            return sum(values)
        case Difference():
            return values[0] - sum(values[1:])
    return math.prod(values)


def _below(relation: Relation, difference: float) -> float:
    if math.isnan(difference):
        return math.inf
    if relation in (Relation.EQ, Relation.NE):
        return abs(difference) if relation is Relation.EQ else 0.0
    return max(0.0, -difference if _UP[relation.code] else difference)


def _table(table: Table, flat: NDArray[np.float64]) -> float:
    if not len(table.clauses) > 1:
        return math.inf
    right = np.where(table.right < 0, table.value, flat[table.right])
    difference = flat[table.left] - right
    amount = np.where(table.relation == _EQ, np.abs(difference), np.where(_UP[table.relation], -difference, difference))
    amount = np.where(table.relation == _NE, 0.0, np.maximum(amount, 0.0))
    amount[np.isnan(difference)] = np.inf
    starts = table.clauses[:-1]
    filled = table.clauses[1:] > starts
    if not filled.all():
        return 0.0  # a clause without atoms always holds
    return float(np.maximum.reduceat(amount, starts).min())
