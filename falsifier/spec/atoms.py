"""The leaves of a query as columns: every comparison becomes literals `sign * form >= bound`, forms are shared by
number.

Form numbers, for a query of S slots: 0 .. S-1 are the slots themselves, S + a * S + b the difference of slots a and b
(a < b), from S + S * S on the polynomials of `AtomTable.polynomials`. So 10^6 simple comparisons need no object each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.query.tree import RELATIONS, Compare, Constant, Reference, Relation, Table
from falsifier.records import record
from falsifier.spec.polynomial import Monomial, Polynomial, canonical, number

_UPPER = (Relation.LE, Relation.LT)
_STRICT = (Relation.LT, Relation.GT)
_IS_UPPER = np.array([relation in _UPPER for relation in RELATIONS])  # by code
_IS_STRICT = np.array([relation in _STRICT for relation in RELATIONS])
_EQ, _NE = Relation.EQ.code, Relation.NE.code


@record
class Literals:
    """Columns of equal length: literal i is `sign[i] * form[i] >= bound[i]`, or `>` where `strict[i]`."""

    form: NDArray[np.int64]
    sign: NDArray[np.int8]
    bound: NDArray[np.float64]
    strict: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.form)

    def take(self, index: NDArray[np.int64]) -> Literals:
        """The literals at `index`."""
        return Literals(self.form[index], self.sign[index], self.bound[index], self.strict[index])


def joined(parts: list[Literals]) -> Literals:
    """Columns one after the other."""
    if not parts:
        return Literals(np.zeros(0, np.int64), np.zeros(0, np.int8), np.zeros(0), np.zeros(0, np.bool_))
    return Literals(
        np.concatenate([p.form for p in parts]),
        np.concatenate([p.sign for p in parts]),
        np.concatenate([p.bound for p in parts]),
        np.concatenate([p.strict for p in parts]),
    )


@dataclass
class AtomTable:
    """Collects the literals of a query of `slots` slots. Literals are numbered in the order in which they are added."""

    slots: int
    polynomials: list[Polynomial] = field(default_factory=list)
    _known: dict[tuple[tuple[Monomial, int, int], ...], int] = field(default_factory=dict)
    _rows: list[tuple[int, int, float, bool]] = field(default_factory=list)
    _parts: list[Literals] = field(default_factory=list)
    _count: int = 0

    @property
    def first_polynomial(self) -> int:
        return self.slots + self.slots * self.slots

    def pair(self, form: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The slots a and b of forms that are a - b."""
        code = form - self.slots
        return code // self.slots, code % self.slots

    def polynomial(self, form: int) -> Polynomial:
        """Any form by its number."""
        if form < self.slots:
            return {(form,): Fraction(1)}
        if form < self.first_polynomial:
            a, b = divmod(form - self.slots, self.slots)
            return {(a,): Fraction(1), (b,): Fraction(-1)}
        return self.polynomials[form - self.first_polynomial]

    def literals(self) -> Literals:
        """Everything added so far."""
        self._flush()
        self._parts = [joined(self._parts)]
        return self._parts[0]

    def add(self, compare: Compare) -> list[int] | bool:
        """A comparison's literals, numbered; or its truth where it mentions no slot.

        One literal for an order relation, two for `==` (both hold) and for `!=` (one holds).
        """
        form, relation, bound = self._split(compare)
        if form < 0:
            return _true(relation, bound)
        if relation is Relation.EQ or relation is Relation.NE:
            strict = relation is Relation.NE
            return [self._literal(form, 1, bound, strict), self._literal(form, -1, -bound, strict)]
        strict = relation in _STRICT
        return [
            self._literal(form, -1, -bound, strict) if relation in _UPPER else self._literal(form, 1, bound, strict)
        ]

    def _split(self, compare: Compare) -> tuple[int, Relation, float]:
        match compare.left, compare.right:
            case Reference(slot), Constant(text):
                return slot, compare.relation, float(number(text))
            case Constant(text), Reference(slot):
                return slot, compare.relation.flipped, float(number(text))
            case Reference(a), Reference(b) if a != b:
                relation = compare.relation if a < b else compare.relation.flipped
                return self.slots + min(a, b) * self.slots + max(a, b), relation, 0.0
        form, relation, constant = canonical(compare)
        return self._number(form), relation, float(constant)

    def _number(self, form: Polynomial) -> int:
        """The number of a canonical form, -1 for the empty one."""
        if not form:
            return -1
        items = tuple(form.items())
        if len(items) == 1 and len(items[0][0]) == 1:
            return items[0][0][0]
        if (
            len(items) == 2
            and [weight for _, weight in items] == [1, -1]
            and all(len(monomial) == 1 for monomial, _ in items)
        ):
            return self.slots + items[0][0][0] * self.slots + items[1][0][0]
        key = tuple((monomial, weight.numerator, weight.denominator) for monomial, weight in items)  # quickly hashed
        known = self._known.setdefault(key, self.first_polynomial + len(self.polynomials))
        if known == self.first_polynomial + len(self.polynomials):
            self.polynomials.append(form)
        return known

    def _literal(self, form: int, sign: int, bound: float, strict: bool) -> int:
        self._rows.append((form, sign, bound, strict))
        self._count += 1
        return self._count - 1

    def _flush(self) -> None:
        if self._rows:
            form, sign, bound, strict = zip(*self._rows, strict=True)
            part = Literals(
                np.array(form, np.int64), np.array(sign, np.int8), np.array(bound, float), np.array(strict, np.bool_)
            )
            self._parts.append(part)
            self._rows = []

    def add_table(self, table: Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """A table without `!=`: the numbers of its literals, clause after clause, and how many each clause has.

        Atoms that mention no slot (X_0 <= X_0) are decided here: a true one is left out, a clause with a false one too.
        """
        clauses = len(table.clauses) - 1
        left, right, relation, value = table.left, table.right, table.relation, table.value
        lengths = np.diff(table.clauses)
        second = np.zeros(len(table), np.bool_)
        equal = relation == _EQ
        if equal.any():  # each `==` twice, the second time as an upper bound
            copies = np.where(equal, 2, 1)
            atom = np.repeat(np.arange(len(table)), copies)
            second = np.zeros(len(atom), np.bool_)
            second[np.cumsum(copies)[equal] - 1] = True
            left, right, relation, value = left[atom], right[atom], relation[atom], value[atom]
            lengths = np.bincount(np.repeat(np.arange(clauses), lengths)[atom], minlength=clauses)
        upper, strict = _IS_UPPER[relation] | second, _IS_STRICT[relation]
        form, sign, bound = left, np.where(upper, np.int8(-1), np.int8(1)), np.where(upper, -value, value)
        pair = right >= 0
        alive = np.ones(clauses, np.bool_)
        keep: NDArray[Any] | slice = slice(None)
        if pair.any():
            low, high = np.minimum(left, right), np.maximum(left, right)
            form = np.where(pair, self.slots + low * self.slots + high, left)
            bound = np.where(pair, 0.0, bound)
            sign = np.where(pair & (right < left), -sign, sign)
            same = pair & (left == right)
            if same.any():
                clause = np.repeat(np.arange(clauses), lengths)
                alive[clause[same & strict]] = False
                keep = ~same & alive[clause]
                lengths = np.bincount(clause[keep], minlength=clauses)
        self._flush()
        self._parts.append(Literals(form[keep], sign[keep], bound[keep], strict[keep]))
        first = self._count
        self._count += len(self._parts[-1])
        return np.arange(first, self._count), lengths[alive]


def has_unequal(table: Table) -> bool:
    """Whether a table holds a `!=` (an `or` inside its clauses)."""
    return bool(np.any(table.relation == _NE))


def _true(relation: Relation, bound: float) -> bool:
    """Whether 0 relation bound."""
    return {
        Relation.LE: bound >= 0,
        Relation.LT: bound > 0,
        Relation.GE: bound <= 0,
        Relation.GT: bound < 0,
        Relation.EQ: bound == 0,
        Relation.NE: bound != 0,
    }[relation]
