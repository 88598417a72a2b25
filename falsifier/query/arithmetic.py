"""Terms and comparisons of one point, in the two arithmetics in which a witness is judged. numpy only, no recursion."""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from falsifier.counted import counted
from falsifier.errors import InputError
from falsifier.query.tree import (
    Constant,
    Difference,
    Kind,
    Negate,
    Product,
    Query,
    Reference,
    Relation,
    Sum,
    Term,
)

Scalar: TypeAlias = Any  # a Python or numpy number

_EXACT_INTEGER = 2.0**53  # beyond it, not every integer is a float64
_LONGEST_INTEGER = 300  # digits: a longer integer is infinite as a float64
_NOTHING = float("nan")  # satisfies nothing


class Arithmetic(Enum):
    """How a point is judged: the two must agree for a witness of class `exact`."""

    EXACT = "every value widened to float64 or exact, constants as written, strict signs strict"
    PUBLISHED = "the competition's rule: the network's own types, bounds rounded to them, 1.0 reads < as <="


class Point:
    """The values of all variables, as one arithmetic sees them.

    `wide` `[slots]` float64: the values widened; `rounding` `[slots]`: the float type that a constant is rounded to
    when it is compared with the slot, as an index into `types` (float64 where nothing is rounded); `whole`
    `[slots]`: integers.
    """

    def __init__(self, query: Query, values: list[NDArray[Any]], arithmetic: Arithmetic) -> None:
        variables = query.variables
        if len(values) != len(variables):
            raise InputError(f"{query.origin}: {len(values)} arrays for {len(variables)} variables")
        self.published = arithmetic is Arithmetic.PUBLISHED
        self.version = query.version[0]
        self.arrays: list[NDArray[Any]] = []
        for variable, value in zip(variables, values, strict=True):
            flat = np.asarray(value).ravel()
            if flat.size != variable.size:
                raise InputError(
                    f"{query.origin}: {counted(flat.size, 'value')} for {variable.name}, which has {variable.size}"
                )
            if flat.dtype == np.bool_:
                flat = flat.astype(np.uint8)
            if self.published and self.version == 1 and variable.kind is not Kind.INPUT:
                flat = flat.astype(np.float64)
            self.arrays.append(flat)
        sizes = [len(a) for a in self.arrays]
        self._offsets = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
        self.wide = np.concatenate([np.zeros(0), *(a.astype(np.float64) for a in self.arrays)])
        types = [
            a.dtype if self.published and np.issubdtype(a.dtype, np.floating) else np.dtype(np.float64)
            for a in self.arrays
        ]
        self.types = list(dict.fromkeys(types))
        self.rounding = np.repeat(np.array([self.types.index(t) for t in types], dtype=np.int8), sizes)
        self.whole = np.repeat(np.array([np.issubdtype(a.dtype, np.integer) for a in self.arrays], dtype=bool), sizes)

    def slot(self, slot: int) -> Scalar:
        variable = int(np.searchsorted(self._offsets, slot, side="right")) - 1
        value = self.arrays[variable][slot - self._offsets[variable]]
        if self.published:
            return value
        return int(value) if isinstance(value, np.integer) else float(value)

    def constant(self, text: str) -> Scalar:
        """A constant, as a Python number: beside a numpy value it takes that value's type."""
        if self.published and self.version == 1:
            return float(text)
        bare = text.lstrip("+-")
        return int(text) if bare.isdigit() and len(bare) <= _LONGEST_INTEGER else float(text)

    def constants(self, slot: NDArray[np.int64], value: NDArray[np.float64]) -> NDArray[np.float64]:
        """Constants rounded as their comparison with these slots rounds them."""
        if self.types == [np.dtype(np.float64)]:
            return value
        out = value.copy()
        rounding = self.rounding[slot]
        for i, kind in enumerate(self.types):
            chosen = rounding == i
            out[chosen] = value[chosen].astype(kind).astype(np.float64)
        return out

    def beyond_float64(
        self, slot: NDArray[np.int64], other: NDArray[np.int64], value: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Atoms that float64 columns may decide wrongly: large integers. `other` is -1 where `value` is compared."""
        large = self.whole & (np.abs(self.wide) >= _EXACT_INTEGER)
        return np.asarray(large[slot] | np.where(other < 0, np.abs(value) >= _EXACT_INTEGER, large[other]))

    def relation(self, relation: Relation) -> Relation:
        """The relation that is read: the published 1.0 checker takes < for <=."""
        if self.published and self.version == 1:
            return {Relation.LT: Relation.LE, Relation.GT: Relation.GE}.get(relation, relation)
        return relation

    def holds(self, relation: Relation, left: Scalar, right: Scalar) -> bool:
        if isinstance(left, int | np.integer) and isinstance(right, int | np.integer):
            left, right = int(left), int(right)
        return bool(_compare(self.relation(relation), left, right))

    def term(self, term: Term) -> Scalar:
        """The value of a term: sums and products from the left, `(- a b c)` as a - (b + c)."""
        todo: list[Term | tuple[type, int]] = [term]
        done: list[Scalar] = []
        while todo:
            next_ = todo.pop()
            if isinstance(next_, tuple):
                operator, count = next_
                arguments = done[len(done) - count :]
                del done[len(done) - count :]
                done.append(_apply(operator, arguments))
            elif isinstance(next_, Constant):
                done.append(self.constant(next_.text))
            elif isinstance(next_, Reference):
                done.append(self.slot(next_.slot))
            else:
                arguments_of = operands(next_)
                todo.append((type(next_), len(arguments_of)))
                todo.extend(reversed(arguments_of))
        return done[0]


def operands(term: Negate | Sum | Difference | Product) -> tuple[Term, ...]:
    """The terms that a term is made of, in order."""
    if isinstance(term, Negate):
        return (term.term,)
    if isinstance(term, Difference):
        return (term.head, *term.rest)
    return term.terms


def _apply(operator: type, arguments: list[Scalar]) -> Scalar:
    try:
        if operator is Negate:
            return -arguments[0]
        if operator is Difference:
            return arguments[0] - _sum(arguments[1:])
        if operator is Sum:
            return _sum(arguments)
        product: Scalar = 1
        for argument in arguments:
            product = product * argument
    except OverflowError:  # an integer constant that the variable's type cannot hold
        return _NOTHING
    return product


def _sum(arguments: list[Scalar]) -> Scalar:
    total: Scalar = 0
    for argument in arguments:
        total = total + argument
    return total


def _compare(relation: Relation, left: Any, right: Any) -> Any:
    """Elementwise on arrays as on numbers. NaN satisfies nothing; == and != are read off the difference, so inf ==
    inf does not hold.
    """
    if relation is Relation.LE:
        return left <= right
    if relation is Relation.LT:
        return left < right
    if relation is Relation.GE:
        return left >= right
    if relation is Relation.GT:
        return left > right
    difference = left - right
    if relation is Relation.EQ:
        return difference == 0
    return (difference < 0) | (difference > 0)


def compare(relation: Relation, left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.bool_]:
    """One relation over two columns of float64."""
    return np.asarray(_compare(relation, left, right))
