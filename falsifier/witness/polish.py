"""Move a candidate into the bounds that the query states for every input, as written.

Only bounds that every solution must obey count: top-level comparisons of one input with a constant. What stands inside
an `or` is left to the search, which aims at one disjunct and knows its box.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.query.tree import RELATIONS, And, Compare, Constant, Formula, Or, Query, Reference, Relation, Table
from falsifier.records import record

_UPPER = np.array([r in (Relation.LE, Relation.LT, Relation.EQ) for r in RELATIONS])
_LOWER = np.array([r in (Relation.GE, Relation.GT, Relation.EQ) for r in RELATIONS])
_STRICT = np.array([r in (Relation.LT, Relation.GT) for r in RELATIONS])


@record
class Bounds:
    """Per element the tightest bounds, the nearest float64 of what the text says, and whether they are strict."""

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    lower_strict: NDArray[np.bool_]
    upper_strict: NDArray[np.bool_]

    def __getitem__(self, part: slice) -> Bounds:
        return Bounds(self.lower[part], self.upper[part], self.lower_strict[part], self.upper_strict[part])

    def least(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        """The least value of `dtype` that obeys the lower bound."""
        if dtype.kind != "f":
            whole = np.where(self.lower_strict, np.floor(self.lower) + 1, np.ceil(self.lower))
            return _whole(whole, dtype)
        with np.errstate(over="ignore"):
            value = self.lower.astype(dtype)
        wide = value.astype(np.float64)
        outside = np.where(self.lower_strict, wide <= self.lower, wide < self.lower)
        return np.where(outside, np.nextafter(value, dtype.type(np.inf)), value)

    def greatest(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        """The greatest value of `dtype` that obeys the upper bound."""
        if dtype.kind != "f":
            whole = np.where(self.upper_strict, np.ceil(self.upper) - 1, np.floor(self.upper))
            return _whole(whole, dtype)
        mirrored = Bounds(-self.upper, -self.lower, self.upper_strict, self.lower_strict)
        return np.asarray(-mirrored.least(dtype))


def input_bounds(query: Query) -> Bounds:
    """The bounds of every slot of the query `[slots]`; infinite where it states none."""
    n = query.slots
    lower, upper = np.full(n, -np.inf), np.full(n, np.inf)
    # the strict bounds are kept apart: at equal values the strict one is the tighter
    strict_lower, strict_upper = lower.copy(), upper.copy()
    for slot, relation, value in _stated(query):
        strict = _STRICT[relation]
        for side, floor, ceiling in ((~strict, lower, upper), (strict, strict_lower, strict_upper)):
            below, above = side & _LOWER[relation], side & _UPPER[relation]
            np.maximum.at(floor, slot[below], value[below])
            np.minimum.at(ceiling, slot[above], value[above])
    return Bounds(
        np.maximum(lower, strict_lower),
        np.minimum(upper, strict_upper),
        (strict_lower >= lower) & np.isfinite(strict_lower),
        (strict_upper <= upper) & np.isfinite(strict_upper),
    )


def polish(values: NDArray[Any], bounds: Bounds) -> NDArray[Any]:
    """Typed values moved to the nearest ones inside the bounds; `values` itself where nothing moves.

    An element whose bounds hold no value of the type (a pinned 0.1) is left as it is.
    """
    least, greatest = bounds.least(values.dtype), bounds.greatest(values.dtype)
    moved = np.where(least <= greatest, np.clip(values, least, greatest), values)
    return values if np.array_equal(moved, values) else moved.astype(values.dtype)


def _whole(values: NDArray[np.float64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Whole float64 values as an integer type (bool counts as 0 and 1), out of range ones at its ends."""
    if dtype.kind == "b":
        return np.clip(values, 0, 1).astype(dtype)
    range_ = np.iinfo(dtype)
    inside = (values > range_.min) & (values < float(range_.max))
    typed = np.where(inside, values, 0).astype(dtype)
    return np.where(inside, typed, np.where(values > 0, range_.max, range_.min)).astype(dtype)


def _stated(query: Query) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int8], NDArray[np.float64]]]:
    """Columns (slot, relation, constant) of every bound that all solutions obey."""
    is_input = query.slot_kinds() == 0
    single: list[tuple[int, int, float]] = []
    open_: list[Formula] = list(query.assertions)
    while open_:
        formula = open_.pop()
        match formula:
            case And(parts):
                open_.extend(parts)
            case Or((part,)):
                open_.append(part)
            case Compare(relation, Reference(slot), Constant(text)) if is_input[slot]:
                single.append((slot, relation.code, float(text)))
            case Compare(relation, Constant(text), Reference(slot)) if is_input[slot]:
                single.append((slot, relation.flipped.code, float(text)))
            case Table() if len(formula.clauses) == 2:
                bound = (formula.right < 0) & is_input[formula.left]
                yield formula.left[bound], formula.relation[bound], formula.value[bound]
    if single:
        slots, relations, values = zip(*single, strict=True)
        yield np.array(slots, np.int64), np.array(relations, np.int8), np.array(values, np.float64)
