"""Queries with room for readers who round: what a claim that nothing satisfies a query has to survive.

Compilation takes comparisons as statements about real numbers. Readers compute them in the networks' types:
x_1 + 1e-8 is x_1 for one that has float32, and x_1 = x_0 and x_0 = x_1 + 1e-8 contradict each other in the reals alone.
Comparisons of single variables with numbers or with each other are not computed, only rounded (`boxes.py`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from falsifier.query.folding import fold, fold_term, leaves, references
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
from falsifier.records import record, replaced
from falsifier.spec.clauses import conjuncts
from falsifier.spec.layout import Layout

_SAFE = 4  # times what an operation may be off
_PLAIN = (Reference, Constant)
_LOWER = np.array([relation in (Relation.GE, Relation.GT, Relation.EQ) for relation in RELATIONS])
_UPPER = np.array([relation in (Relation.LE, Relation.LT, Relation.EQ) for relation in RELATIONS])


def computes(formula: Compare | Table) -> bool:
    """Whether a reader computes something before it compares."""
    return isinstance(formula, Compare) and not (isinstance(formula.left, _PLAIN) and isinstance(formula.right, _PLAIN))


def computes_inputs(query: Query) -> bool:
    """Whether some comparison computes something of inputs."""
    is_input = query.slot_kinds() == 0
    return any(
        any(is_input[slot] for side in (leaf.left, leaf.right) for slot in references(side))
        for assertion in query.assertions
        for leaf in leaves(assertion)
        if isinstance(leaf, Compare) and computes(leaf)
    )


def roomy(query: Query, where: Layout) -> Query | None:
    """The query with comparisons that compute loosened by what a reader may be off, None where there are none.

    Whatever satisfies the query for any reader satisfies what is returned. Of inputs that no bound of the query's own
    limits nobody knows how far off a reader is: comparisons of such inputs alone stay as they are.
    """
    if not any(computes(leaf) for assertion in query.assertions for leaf in leaves(assertion)):
        return None
    reader = _Reader(where, _reach(query, where), np.finfo(where.roughest))

    def join(node: And | Or, parts: list[Formula]) -> Formula:
        return type(node)(tuple(parts))

    return replaced(query, assertions=tuple(fold(a, reader.loosened, join) for a in query.assertions))


def _reach(query: Query, where: Layout) -> NDArray[np.float64]:
    """`[slots]`: the largest magnitude that types and the bounds of every solution leave, infinite without."""
    low, high = np.full(query.slots, -np.inf), np.full(query.slots, np.inf)
    low[where.slot_of_x], high[where.slot_of_x] = where.least, where.greatest
    for part in conjuncts(query.assertions):
        if isinstance(part, Table) and len(part.clauses) == 2:
            at = np.flatnonzero(part.right < 0)
            slot, relation, value = part.left[at], part.relation[at].astype(np.int64), part.value[at]
        elif isinstance(part, Compare) and isinstance(part.left, Reference) and isinstance(part.right, Constant):
            slot, relation, value = _column(part.left, part.relation, part.right)
        elif isinstance(part, Compare) and isinstance(part.left, Constant) and isinstance(part.right, Reference):
            slot, relation, value = _column(part.right, part.relation.flipped, part.left)
        else:
            continue
        below, above = _LOWER[relation], _UPPER[relation]
        np.maximum.at(low, slot[below], value[below])
        np.minimum.at(high, slot[above], value[above])
    return np.asarray(np.maximum(np.abs(low), np.abs(high)))


def _column(
    slot: Reference, relation: Relation, value: Constant
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    return np.array([slot.slot]), np.array([relation.code]), np.array([float(value.text)])


@record
class _Reader:
    """What a reader in the roughest type may be off: `reach` `[slots]` is how large the variables are at most."""

    where: Layout
    reach: NDArray[np.float64]
    type: np.finfo

    def loosened(self, leaf: Compare | Table) -> Formula:
        if isinstance(leaf, Table) or not computes(leaf):
            return leaf
        slots = [slot for side in (leaf.left, leaf.right) for slot in references(side)]
        slip = self._slip(leaf, slots)
        if not slip:
            return leaf
        if not math.isfinite(slip):
            open_ = any(self.where.kinds[slot] == 0 and not math.isfinite(self.reach[slot]) for slot in slots)
            return leaf if open_ else And(())
        if leaf.relation is Relation.NE:
            return And(())
        apart, most = Difference(leaf.left, (leaf.right,)), Constant(repr(slip))
        sides: list[Formula] = []
        if _UPPER[leaf.relation.code]:
            sides.append(Compare(Relation.LE, apart, most))
        if _LOWER[leaf.relation.code]:
            sides.append(Compare(Relation.GE, apart, Negate(most)))
        return sides[0] if len(sides) == 1 else And(tuple(sides))

    def _slip(self, leaf: Compare, slots: list[int]) -> float:
        """What the two sides may be off together."""
        (a, m), (b, n) = (fold_term(side, self._leaf, _joined) for side in (leaf.left, leaf.right))
        size, operations = a + b, 1 + m + n
        whole = [self.where.greatest[self.where.x_of[s]] for s in slots if self._is_whole(s)]
        if whole:
            if size > min(whole) or any(self._is_unsigned(s) for s in slots):
                return math.inf  # integers that wrap around
            if len(whole) == len(slots) and self._is_whole_term(leaf.left) and self._is_whole_term(leaf.right):
                return 0.0
        if operations == 1:
            return 0.0  # nothing is rounded
        if not size <= float(self.type.max):
            return math.inf
        return operations * _SAFE * (float(self.type.eps) * size + float(self.type.tiny) * max(size, 1.0))

    def _is_whole(self, slot: int) -> bool:
        return bool(self.where.kinds[slot] == 0 and self.where.whole[self.where.x_of[slot]])

    def _is_unsigned(self, slot: int) -> bool:
        return bool(self._is_whole(slot) and self.where.least[self.where.x_of[slot]] == 0)

    def _is_whole_term(self, term: Term) -> bool:
        def leaf(node: Constant | Reference) -> bool:
            return isinstance(node, Reference) or float(node.text).is_integer()

        return fold_term(term, leaf, lambda _, parts: all(parts))

    def _leaf(self, node: Constant | Reference) -> tuple[float, int]:
        """A magnitude, and the roundings on the way to it."""
        return (float(self.reach[node.slot]), 0) if isinstance(node, Reference) else (abs(float(node.text)), 1)


def _joined(node: Negate | Sum | Difference | Product, parts: list[tuple[float, int]]) -> tuple[float, int]:
    sizes, operations = [size for size, _ in parts], sum(count for _, count in parts)
    operations += len(parts) if len(parts) > 1 else 0  # a sign, or a sum of one term, rounds nothing
    if isinstance(node, Product):
        return (0.0 if 0.0 in sizes else math.prod(sizes)), operations
    return math.fsum(sizes) if all(map(math.isfinite, sizes)) else math.inf, operations
