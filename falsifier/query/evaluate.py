"""The reference evaluator: does a point satisfy a query? It reads the syntax tree with numpy and shares nothing with
the compiled targets.

Two arithmetics (`Arithmetic`), both needed by the door. Never recursive; tables are evaluated as columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import distinct
from falsifier.query.arithmetic import Arithmetic, Point, compare
from falsifier.query.folding import leaves, references
from falsifier.query.tree import (
    RELATIONS,
    And,
    Compare,
    Formula,
    Or,
    Query,
    Table,
)

__all__ = ["Arithmetic", "failing", "holds", "mentions_output"]


def failing(query: Query, values: list[NDArray[Any]], arithmetic: Arithmetic) -> list[int]:
    """Indices of the assertions that do not hold.

    `values`: one array per `query.variables`, in the network's element types, any shape of the right size.

    Raises InputError where their number or sizes are not those of the variables.
    """
    with np.errstate(all="ignore"):
        point = Point(query, values, arithmetic)
        return [i for i, formula in enumerate(query.assertions) if not satisfied(formula, point)]


def holds(query: Query, values: list[NDArray[Any]], arithmetic: Arithmetic) -> bool:
    """Whether every assertion holds; arguments as for `failing`."""
    return not failing(query, values, arithmetic)


def satisfied(formula: Formula, point: Point) -> bool:
    """Whether one formula holds at a point."""
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
        # a connective that is still here has no parts
        value = isinstance(current, And) if isinstance(current, And | Or) else _leaf(current, point)
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
    return bool(clauses(formula, atoms(formula, point)).any())


def sides(table: Table, point: Point) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`[atoms]` twice: what is compared, and with what."""
    other = np.maximum(table.right, 0)
    right = np.where(table.right < 0, point.constants(table.left, table.value), point.wide[other])
    return point.wide[table.left], right


def atoms(table: Table, point: Point) -> NDArray[np.bool_]:
    """`[atoms]`: which hold."""
    left, right = sides(table, point)
    out = np.zeros(len(table), dtype=bool)
    for code in distinct(table.relation).tolist():
        chosen = table.relation == code
        out[chosen] = compare(point.relation(RELATIONS[code]), left[chosen], right[chosen])
    for i in np.flatnonzero(point.beyond_float64(table.left, table.right, table.value)).tolist():
        constant = table.right[i] < 0
        other = point.constant(table.constant(i)) if constant else point.slot(int(table.right[i]))
        out[i] = point.holds(RELATIONS[table.relation[i]], point.slot(int(table.left[i])), other)
    return out


def clauses(table: Table, held: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """`[clauses]`: which hold, given the atoms that do."""
    failed = np.concatenate(([0], np.cumsum(~held)))
    return np.asarray(failed[table.clauses[1:]] == failed[table.clauses[:-1]])


def mentions_output(query: Query) -> list[bool]:
    """Per assertion, whether it mentions something that the network computes: an output, or a hidden tensor."""
    kinds = query.slot_kinds()

    def mentions(formula: Formula) -> bool:
        for atom in leaves(formula):
            if isinstance(atom, Table):
                if bool((kinds[atom.left] > 0).any()) or bool((kinds[atom.right[atom.right >= 0]] > 0).any()):
                    return True
            elif any(kinds[slot] > 0 for side in (atom.left, atom.right) for slot in references(side)):
                return True
        return False

    return [mentions(formula) for formula in query.assertions]
