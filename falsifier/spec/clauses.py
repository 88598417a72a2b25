"""The disjunctive normal form of a query as columns, counted before it is built.

A conjunction of assertions is split into literals that every disjunct has (`common`) and factors, each an `or` of
several clauses; the product of the factors is expanded in one go, without a Python loop over disjuncts. Nothing here
is recursive.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from falsifier.query.folding import fold
from falsifier.query.tree import And, Compare, Formula, Or, Relation, Table
from falsifier.records import record
from falsifier.spec.atoms import AtomTable, has_unequal

Ints = NDArray[np.int64]


def conjuncts(assertions: Iterable[Formula]) -> list[Formula]:
    """The assertions with every `and` at the top (also one inside a unary `or`) taken apart, in the text's order."""
    out: list[Formula] = []
    stack = list(assertions)[::-1]
    while stack:
        node = stack.pop()
        if isinstance(node, And) or (isinstance(node, Or) and len(node.parts) == 1):
            stack += node.parts[::-1]
        elif isinstance(node, Table) and has_unequal(node):
            stack.append(node.expand())
        else:
            out.append(node)
    return out


@record
class Size:
    """What a normal form would take: its clauses, the literals they hold together, and those copied on the way to it.

    written: the literals of the formula itself.
    """

    clauses: int
    literals: int
    copied: int
    written: int


def size(formula: Formula) -> Size:
    """The size of a formula's normal form, by counting alone."""
    return fold(
        formula, _leaf_size, lambda node, parts: product_size(parts) if isinstance(node, And) else _sum_size(parts)
    )


def _leaf_size(leaf: Compare | Table) -> Size:
    if isinstance(leaf, Compare):
        count = 2 if leaf.relation in (Relation.EQ, Relation.NE) else 1
        return Size(2 if leaf.relation is Relation.NE else 1, count, count, count)
    if has_unequal(leaf):
        return size(leaf.expand())
    count = len(leaf) + int(np.sum(leaf.relation == Relation.EQ.code))
    return Size(len(leaf.clauses) - 1, count, count, count)


def _sum_size(parts: list[Size]) -> Size:
    return _grown(parts, sum(p.clauses for p in parts), sum(p.literals for p in parts))


def product_size(parts: Sequence[Size]) -> Size:
    """The size of a conjunction."""
    clauses, literals = 1, 0
    for part in parts:
        clauses, literals = clauses * part.clauses, literals * part.clauses + part.literals * clauses
    return _grown(parts, clauses, literals)


def _grown(parts: Sequence[Size], clauses: int, literals: int) -> Size:
    copied = sum(p.copied for p in parts) + (literals if len(parts) > 1 else 0)
    return Size(clauses, literals, copied, sum(p.written for p in parts))


@record
class Clauses:
    """An `or` of clauses: clause c holds `lengths[c]` literals (by number), one clause after the other."""

    literals: Ints
    lengths: Ints

    def __len__(self) -> int:
        return len(self.lengths)


TRUE = Clauses(np.zeros(0, np.int64), np.zeros(1, np.int64))
FALSE = Clauses(np.zeros(0, np.int64), np.zeros(0, np.int64))


def expand(formula: Formula, atoms: AtomTable) -> Clauses:
    """The normal form of one formula; its literals are added to `atoms`."""

    def leaf(node: Compare | Table) -> Clauses:
        if isinstance(node, Table):
            return expand(node.expand(), atoms) if has_unequal(node) else Clauses(*atoms.add_table(node))
        literals = atoms.add(node)
        if isinstance(literals, bool):
            return TRUE if literals else FALSE
        lengths = [1, 1] if node.relation is Relation.NE else [len(literals)]
        return Clauses(np.array(literals, np.int64), np.array(lengths, np.int64))

    return fold(formula, leaf, lambda node, parts: product(parts) if isinstance(node, And) else union(parts))


def union(parts: list[Clauses]) -> Clauses:
    """The `or` of normal forms."""
    if not parts:
        return FALSE
    return Clauses(np.concatenate([p.literals for p in parts]), np.concatenate([p.lengths for p in parts]))


def product(parts: list[Clauses]) -> Clauses:
    """The `and` of normal forms; clauses in the order of the text, the last factor varying fastest."""
    if any(len(p) == 0 for p in parts):
        return FALSE
    if len(parts) < 2:
        return parts[0] if parts else TRUE
    if all(len(p) == 1 for p in parts):
        return Clauses(
            np.concatenate([p.literals for p in parts]), np.array([sum(len(p.literals) for p in parts)], np.int64)
        )
    total = 1
    for part in parts:
        total *= len(part)
    starts = np.empty((total, len(parts)), np.int64)
    lengths = np.empty((total, len(parts)), np.int64)
    pool, repeat = 0, total
    for column, part in enumerate(parts):
        repeat //= len(part)
        which = np.arange(total) // repeat % len(part)
        starts[:, column] = (pool + np.cumsum(part.lengths) - part.lengths)[which]
        lengths[:, column] = part.lengths[which]
        pool += len(part.literals)
    index = segments(starts.reshape(-1), lengths.reshape(-1))
    return Clauses(np.concatenate([p.literals for p in parts])[index], lengths.sum(axis=1))


def segments(starts: Ints, lengths: Ints) -> Ints:
    """The indices start, start + 1, .. of every segment, one segment after the other."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    index: Ints = np.arange(total) + np.repeat(starts - (ends - lengths), lengths)
    return index


@record
class NormalForm:
    """Literals that every disjunct has, and what each of the disjuncts has of its own."""

    common: Ints
    own: Clauses


def normal_form(parts: list[Formula], atoms: AtomTable) -> NormalForm:
    """The normal form of a conjunction."""
    expanded = [expand(part, atoms) for part in parts]
    if any(len(e) == 0 for e in expanded):
        return NormalForm(np.zeros(0, np.int64), FALSE)
    common = [e.literals for e in expanded if len(e) == 1]
    return NormalForm(
        np.concatenate(common) if common else np.zeros(0, np.int64), product([e for e in expanded if len(e) > 1])
    )
