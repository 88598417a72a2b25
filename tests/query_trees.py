"""Queries built as trees, an oracle for them in exact rational arithmetic, and random ones."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from falsifier.query.tree import (
    RELATIONS,
    And,
    Compare,
    Constant,
    Difference,
    Formula,
    Kind,
    Negate,
    NetworkDeclaration,
    Or,
    Product,
    Query,
    Reference,
    Relation,
    Sum,
    Table,
    Term,
    Variable,
)

Side = Term | float | str
STRICT = (Relation.LT, Relation.GT)


def term(side: Side) -> Term:
    """A number as the constant that reads back to it, anything else as it is."""
    return Constant(str(side)) if isinstance(side, (int, float, str)) else side


def compare(left: Side, relation: str, right: Side) -> Compare:
    return Compare(Relation(relation), term(left), term(right))


def slots(first: int, count: int) -> list[Reference]:
    return [Reference(first + i) for i in range(count)]


def bounds(low: Sequence[Side], high: Sequence[Side]) -> list[Compare]:
    """low <= slot i <= high, two asserts per input."""
    out = []
    for i, (a, b) in enumerate(zip(low, high, strict=True)):
        out += [compare(Reference(i), ">=", a), compare(Reference(i), "<=", b)]
    return out


def query(
    assertions: Sequence[Formula], n: int, m: int, version: tuple[int, int] = (1, 0), dtype: str = "real"
) -> Query:
    """One network with inputs X of n elements and outputs Y of m."""
    shapes = Variable("X", Kind.INPUT, dtype, (n,)), Variable("Y", Kind.OUTPUT, "real", (m,))
    return Query(version, (NetworkDeclaration("N", shapes[:1], shapes[1:]),), tuple(assertions))


def table(clauses: Sequence[Sequence[tuple[int, str, float | Reference]]]) -> Table:
    """A table of atoms (slot, relation, constant or slot)."""
    atoms = [atom for clause in clauses for atom in clause]
    right = [b.slot if isinstance(b, Reference) else -1 for _, _, b in atoms]
    value = [0.0 if isinstance(b, Reference) else float(b) for _, _, b in atoms]
    texts = ["" if isinstance(b, Reference) else repr(float(b)) for _, _, b in atoms]
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    return Table(
        np.array([slot for slot, _, _ in atoms], np.int64),
        np.array([Relation(relation).code for _, relation, _ in atoms], np.int8),
        np.array(right, np.int64),
        np.array(value),
        np.concatenate([[0], ends[:-1]]).astype(np.int64) if texts else np.zeros(0, np.int64),
        ends,
        np.cumsum([0, *(len(clause) for clause in clauses)]),
        "".join(texts).encode(),
    )


def columns(left: ArrayLike, relation: ArrayLike, value: ArrayLike, clauses: ArrayLike) -> Table:
    """A table of bounds from columns, without the texts of its constants: for large ones."""
    count = np.size(left)
    nowhere = np.zeros(count, np.int64)
    return Table(
        np.asarray(left, np.int64),
        np.asarray(relation, np.int8),
        np.full(count, -1),
        np.asarray(value, np.float64),
        nowhere,
        nowhere,
        np.asarray(clauses, np.int64),
        b"",
    )


def value_of(item: Term, at: Sequence[Fraction]) -> Fraction:
    """A term in rational arithmetic."""
    match item:
        case Constant(text):
            return Fraction(text)
        case Reference(slot):
            return at[slot]
        case Negate(inner):
            return -value_of(inner, at)
        case Sum(terms):
            return sum((value_of(part, at) for part in terms), Fraction(0))
        case Difference(head, rest):
            return value_of(head, at) - sum((value_of(part, at) for part in rest), Fraction(0))
        case Product(terms):
            out = Fraction(1)
            for part in terms:
                out *= value_of(part, at)
            return out
    raise TypeError(item)


def truth(formula: Formula, at: Sequence[Fraction]) -> bool:
    """Whether a formula holds at slot values, in rational arithmetic."""
    if isinstance(formula, Compare):
        a, b = value_of(formula.left, at), value_of(formula.right, at)
        answers = {"<=": a <= b, "<": a < b, ">=": a >= b, ">": a > b, "==": a == b, "!=": a != b}
        return answers[formula.relation.value]
    if isinstance(formula, Table):
        return truth(formula.expand(), at)
    parts = [truth(part, at) for part in formula.parts]
    return all(parts) if isinstance(formula, And) else any(parts)


def satisfied(problem: Query, at: ArrayLike) -> bool:
    """Whether a query holds at slot values."""
    exact = [Fraction(float(v)) for v in np.asarray(at).reshape(-1)]
    return all(truth(assertion, exact) for assertion in problem.assertions)


# --- random queries over small dyadic numbers, where every arithmetic is exact ---

quarters = st.integers(-12, 12).map(lambda i: i / 4)
relations = st.sampled_from([relation.value for relation in RELATIONS])


def terms(count: int, degree: int) -> st.SearchStrategy[Any]:
    """Terms over slots 0 .. count - 1."""
    leaves = st.one_of(st.integers(0, count - 1).map(Reference), quarters.map(lambda v: Constant(str(v))))

    def grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        several = st.lists(inner, min_size=1, max_size=3).map(tuple)
        options = [several.map(Sum), st.builds(Difference, inner, several), inner.map(Negate)]
        factors = (
            st.tuples(leaves, leaves) if degree > 1 else st.tuples(quarters.map(lambda v: Constant(str(v))), leaves)
        )
        return st.one_of(*options, factors.map(Product))

    return st.recursive(leaves, grown, max_leaves=4)


def atoms(count: int, degree: int = 1) -> st.SearchStrategy[Any]:
    slot = st.integers(0, count - 1).map(Reference)
    constant = quarters.map(lambda v: Constant(str(v)))
    simple = st.builds(compare, slot, relations, st.one_of(slot, constant))
    flipped = st.builds(compare, constant, relations, slot)
    return st.one_of(simple, flipped, st.builds(compare, terms(count, degree), relations, terms(count, degree)))


def tables(count: int) -> st.SearchStrategy[Table]:
    other = st.one_of(quarters, st.integers(0, count - 1).map(Reference))
    atom = st.tuples(st.integers(0, count - 1), relations, other)
    return st.lists(st.lists(atom, max_size=3), min_size=1, max_size=3).map(table)


def formulas(count: int, degree: int = 1) -> st.SearchStrategy[Any]:
    def grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        parts = st.lists(inner, min_size=0, max_size=3).map(tuple)
        return st.one_of(parts.map(And), parts.map(Or))

    return st.recursive(st.one_of(atoms(count, degree), tables(count)), grown, max_leaves=6)


def queries(n: int, m: int, degree: int = 1, version: tuple[int, int] = (1, 0)) -> st.SearchStrategy[Query]:
    """Random assertions around the box [-3, 3] of every input."""
    box = bounds([-3.0] * n, [3.0] * n)
    more = st.lists(formulas(n + m, degree), max_size=3)
    return more.map(lambda parts: query([*box, *parts], n, m, version))
