"""How deep a point satisfies a query: the margin, read off the syntax tree with numpy, in the units as written.

The margin is the least slack of a disjunct's atoms and the greatest over the disjuncts: a min over every `and`, a max
over every `or`. Only atoms that mention something computed (an output, a hidden element) have a slack; what is asked
of inputs alone is met or not: +infinity or -infinity.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.query.arithmetic import Arithmetic, Point
from falsifier.query.evaluate import atoms, sides
from falsifier.query.folding import references
from falsifier.query.tree import And, Compare, Formula, Or, Query, Relation, Table, Term


def depth(query: Query, values: list[NDArray[Any]], arithmetic: Arithmetic) -> float:
    """The margin of a point, >= 0 iff every assertion holds; arguments as for `evaluate.failing`.

    Infinite where the query says nothing of what is computed. Raises InputError as `failing` does.
    """
    with np.errstate(all="ignore"):
        point = Point(query, values, arithmetic)
        kinds = query.slot_kinds()
        return min((_depth(formula, point, kinds) for formula in query.assertions), default=np.inf)


def _depth(formula: Formula, point: Point, kinds: NDArray[np.int8]) -> float:
    order: list[Formula] = [formula]  # every node after its parent
    for node in order:
        if isinstance(node, And | Or):
            order.extend(node.parts)
    results: dict[int, float] = {}
    for node in reversed(order):
        if isinstance(node, And):
            results[id(node)] = min((results[id(part)] for part in node.parts), default=np.inf)
        elif isinstance(node, Or):
            results[id(node)] = max((results[id(part)] for part in node.parts), default=-np.inf)
        elif isinstance(node, Compare):
            results[id(node)] = _of_comparison(node, point, kinds)
        else:
            results[id(node)] = _of_table(node, point, kinds)
    return results[id(formula)]


def _of_comparison(atom: Compare, point: Point, kinds: NDArray[np.int8]) -> float:
    left, right = point.term(atom.left), point.term(atom.right)
    held = np.array([point.holds(atom.relation, left, right)])
    if not (_computed(atom.left, kinds) or _computed(atom.right, kinds)):
        return np.inf if held[0] else -np.inf
    code = np.array([point.relation(atom.relation).code])
    return float(_slack(np.array([float(left)]), np.array([float(right)]), code, held)[0])


def _of_table(table: Table, point: Point, kinds: NDArray[np.int8]) -> float:
    counts = np.diff(table.clauses)
    if not len(counts):
        return -np.inf
    if not bool(counts.all()):  # an `and` of nothing holds
        return np.inf
    held = atoms(table, point)
    code = np.array([point.relation(relation).code for relation in Relation])[table.relation]
    slack = _slack(*sides(table, point), code, held)
    computed = (kinds[table.left] > 0) | ((table.right >= 0) & (kinds[np.maximum(table.right, 0)] > 0))
    slack = np.where(computed, slack, np.where(held, np.inf, -np.inf))
    return float(np.minimum.reduceat(slack, table.clauses[:-1]).max())


def _slack(
    left: NDArray[np.float64], right: NDArray[np.float64], code: NDArray[np.int8], held: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """The slack of atoms, of strict ones to the next float64 beyond the bound; >= 0 iff they hold (`held`)."""
    up, down = np.nextafter(right, np.inf), np.nextafter(right, -np.inf)
    slack = np.full(len(code), -np.inf)
    for relation, value in (
        (Relation.LE, right - left),
        (Relation.LT, down - left),
        (Relation.GE, left - right),
        (Relation.GT, left - up),
        (Relation.EQ, -np.abs(left - right)),
        (Relation.NE, np.maximum(left - up, down - left)),
    ):
        slack = np.where(code == relation.code, value, slack)
    slack = np.where(np.isnan(slack), -np.inf, slack)
    # whether an atom holds is decided elsewhere, with integers beyond 2^53 in mind
    return np.asarray(np.where(held, np.maximum(slack, 0.0), np.minimum(slack, -np.finfo(np.float64).tiny)))


def _computed(term: Term, kinds: NDArray[np.int8]) -> bool:
    return any(kinds[slot] > 0 for slot in references(term))
