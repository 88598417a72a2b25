"""The reference evaluator: does a point satisfy a query? It reads the syntax tree with numpy and shares nothing with the compiled targets.

Two arithmetics (`Arithmetic`), both needed by the door. Never recursive; tables are evaluated as columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.query.arithmetic import Arithmetic, Point, compare, operands
from falsifier.query.tree import (
    RELATIONS,
    And,
    Compare,
    Constant,
    Formula,
    Or,
    Query,
    Reference,
    Relation,
    Table,
    Term,
)

__all__ = ["Arithmetic", "Failure", "explain", "failing", "holds", "mentions_output"]


def failing(query: Query, values: list[NDArray[Any]], arithmetic: Arithmetic) -> list[int]:
    """Indices of the assertions that do not hold.

    `values`: one array per `query.variables`, in the network's element types, any shape of the right size.

    Raises InputError where their number or sizes are not those of the variables.
    """
    with np.errstate(all="ignore"):
        point = Point(query, values, arithmetic)
        return [i for i, formula in enumerate(query.assertions) if not _holds(formula, point)]


def holds(query: Query, values: list[NDArray[Any]], arithmetic: Arithmetic) -> bool:
    """Whether every assertion holds; arguments as for `failing`."""
    return not failing(query, values, arithmetic)


def _holds(formula: Formula, point: Point) -> bool:
    # Per open connective: whether it is an `and`, and its parts still to be seen.
    stack: list[tuple[bool, list[Formula]]] = []
    current = formula
    while True:
        while isinstance(current, And | Or):
            conjunction, parts = isinstance(current, And), list(reversed(current.parts))
            if not parts:
                break
            stack.append((conjunction, parts))
            current = parts.pop()
        if isinstance(current, And | Or):
            value = isinstance(current, And)  # of nothing
        else:
            value = _leaf(current, point)
        while stack:
            conjunction, parts = stack[-1]
            if parts and value == conjunction:
                current = parts.pop()
                break
            stack.pop()
        else:
            return value


def _leaf(formula: Compare | Table, point: Point) -> bool:
    if isinstance(formula, Compare):
        return point.holds(formula.relation, point.term(formula.left), point.term(formula.right))
    return bool(_clauses(formula, _atoms(formula, point)).any())


def _sides(table: Table, point: Point) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    other = np.maximum(table.right, 0)
    right = np.where(table.right < 0, point.constants(table.left, table.value), point.wide[other])
    return point.wide[table.left], right


def _atoms(table: Table, point: Point) -> NDArray[np.bool_]:
    """`[atoms]`: which hold."""
    left, right = _sides(table, point)
    out = np.zeros(len(table), dtype=bool)
    for code in np.unique(table.relation).tolist():
        chosen = table.relation == code
        out[chosen] = compare(point.relation(RELATIONS[code]), left[chosen], right[chosen])
    for i in np.flatnonzero(point.beyond_float64(table.left, table.right, table.value)).tolist():
        constant = table.right[i] < 0
        other = point.constant(table.constant(i)) if constant else point.slot(int(table.right[i]))
        out[i] = point.holds(RELATIONS[table.relation[i]], point.slot(int(table.left[i])), other)
    return out


def _clauses(table: Table, atoms: NDArray[np.bool_]) -> NDArray[np.bool_]:
    failed = np.concatenate(([0], np.cumsum(~atoms)))
    return np.asarray(failed[table.clauses[1:]] == failed[table.clauses[:-1]])


def mentions_output(query: Query) -> list[bool]:
    """Per assertion, whether it mentions something that the network computes: an output, or a hidden tensor."""
    kinds = query.slot_kinds()

    def mentions(formula: Formula) -> bool:
        todo: list[Formula | Term] = [formula]
        while todo:
            part = todo.pop()
            if isinstance(part, Table):
                if bool((kinds[part.left] > 0).any()) or bool((kinds[part.right[part.right >= 0]] > 0).any()):
                    return True
            elif isinstance(part, And | Or):
                todo.extend(part.parts)
            elif isinstance(part, Compare):
                todo.extend((part.left, part.right))
            elif isinstance(part, Reference):
                if kinds[part.slot] > 0:
                    return True
            elif not isinstance(part, Constant):
                todo.extend(operands(part))
        return False

    return [mentions(formula) for formula in query.assertions]


@dataclass(frozen=True)
class Failure:
    """An assertion that does not hold: the atom that decides it, and how far that is from holding.

    `shortfall` is in the units of the compared values; 0 for a strict atom met with equality, infinite for NaN.
    """

    assertion: int
    atom: str
    shortfall: float


def explain(query: Query, values: list[NDArray[Any]], arithmetic: Arithmetic) -> list[Failure]:
    """The failing assertions, each with its decisive atom: the worst one of an `and`, in the nearest clause of an `or`."""
    from falsifier.query.write import comparison

    with np.errstate(all="ignore"):
        point = Point(query, values, arithmetic)
        out = []
        for i, formula in enumerate(query.assertions):
            if not _holds(formula, point):
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
    atoms = _atoms(table, point)
    left, right = _sides(table, point)
    far = np.where(atoms, -np.inf, _distance(left - right, table.relation))
    counts = np.diff(table.clauses)
    if not len(counts):
        return np.inf, None
    if not bool(counts.all()) or bool(_clauses(table, atoms).any()):
        return -np.inf, None
    clause = int(np.argmin(np.maximum.reduceat(far, table.clauses[:-1])))
    low, high = int(table.clauses[clause]), int(table.clauses[clause + 1])
    worst = low + int(np.argmax(far[low:high]))
    one = np.array([0, 1])
    columns = (column[worst : worst + 1] for column in _columns(table))
    node = Table(*columns, clauses=one, source=table.source).expand().parts[0]  # type: ignore[arg-type]
    return float(far[worst]), node.parts[0] if isinstance(node, And) and isinstance(node.parts[0], Compare) else None


def _columns(table: Table) -> tuple[NDArray[Any], ...]:
    return table.left, table.relation, table.right, table.value, table.start, table.stop


def _distance(difference: NDArray[np.float64], relation: NDArray[Any]) -> NDArray[np.float64]:
    """How far left - right is from what the relation asks, for atoms that do not hold."""
    upper = (relation == Relation.LE.code) | (relation == Relation.LT.code)
    lower = (relation == Relation.GE.code) | (relation == Relation.GT.code)
    far = np.where(upper, difference, np.where(lower, -difference, np.abs(difference)))
    return np.where(np.isnan(far), np.inf, np.maximum(far, 0.0))
