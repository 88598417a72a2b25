"""Why a point does not satisfy a query: per failing assertion the atom that decides, and how far it is from holding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.query.arithmetic import Arithmetic, Point
from falsifier.query.evaluate import atoms, clauses, satisfied, sides
from falsifier.query.tree import And, Compare, Formula, Or, Query, Relation, Table
from falsifier.query.write import comparison


@dataclass(frozen=True)
class Failure:
    """An assertion that does not hold: the atom that decides it, and how far that is from holding.

    `shortfall` is in the units of the compared values; 0 for a strict atom met with equality, infinite for NaN.
    """

    assertion: int
    atom: str
    shortfall: float


def explain(query: Query, values: list[NDArray[Any]], arithmetic: Arithmetic) -> list[Failure]:
    """The failing assertions, each with its decisive atom: the worst one of an `and`, in the nearest clause of an
    `or`.
    """
    with np.errstate(all="ignore"):
        point = Point(query, values, arithmetic)
        out = []
        for i, formula in enumerate(query.assertions):
            if not satisfied(formula, point):
                shortfall, atom = _shortfall(formula, point)
                out.append(Failure(i, comparison(query, atom) if atom else "an or of nothing", shortfall))
    return out


def _shortfall(formula: Formula, point: Point) -> tuple[float, Compare | None]:
    """How far a formula is from holding, negative infinity where it holds, and the atom that says so."""
    # Children before parents: `order` lists every node after its parent.
    order: list[Formula] = [formula]
    for node in order:
        if isinstance(node, And | Or):
            order.extend(node.parts)
    results: dict[int, tuple[float, Compare | None]] = {}
    for node in reversed(order):
        if isinstance(node, And | Or):
            parts = [results[id(part)] for part in node.parts]
            if isinstance(node, And):
                results[id(node)] = max(parts, key=lambda r: r[0], default=(-np.inf, None))
            else:
                results[id(node)] = min(parts, key=lambda r: r[0], default=(np.inf, None))
        elif isinstance(node, Compare):
            results[id(node)] = _compare_shortfall(node, point)
        else:
            results[id(node)] = _table_shortfall(node, point)
    return results[id(formula)]


def _compare_shortfall(atom: Compare, point: Point) -> tuple[float, Compare | None]:
    left, right = point.term(atom.left), point.term(atom.right)
    if point.holds(atom.relation, left, right):
        return -np.inf, None
    return float(_distance(np.array([float(left) - float(right)]), np.array([atom.relation.code]))[0]), atom


def _table_shortfall(table: Table, point: Point) -> tuple[float, Compare | None]:
    held = atoms(table, point)
    left, right = sides(table, point)
    far = np.where(held, -np.inf, _distance(left - right, table.relation))
    counts = np.diff(table.clauses)
    if not len(counts):
        return np.inf, None
    if not bool(counts.all()) or bool(clauses(table, held).any()):
        return -np.inf, None
    clause = int(np.argmin(np.maximum.reduceat(far, table.clauses[:-1])))
    low, high = int(table.clauses[clause]), int(table.clauses[clause + 1])
    worst = low + int(np.argmax(far[low:high]))
    return float(far[worst]), table.atom(worst)


def _distance(difference: NDArray[np.float64], relation: NDArray[Any]) -> NDArray[np.float64]:
    """How far left - right is from what the relation asks, for atoms that do not hold."""
    upper = (relation == Relation.LE.code) | (relation == Relation.LT.code)
    lower = (relation == Relation.GE.code) | (relation == Relation.GT.code)
    far = np.where(upper, difference, np.where(lower, -difference, np.abs(difference)))
    return np.where(np.isnan(far), np.inf, np.maximum(far, 0.0))
