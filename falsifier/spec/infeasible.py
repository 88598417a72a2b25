"""Comparisons between inputs that cannot hold anywhere in the inputs' box: by interval arithmetic, on the safe side.

A disjunct with such a comparison has an empty domain. Boxes are widened by a step of their type before, so that they
hold everything that the bounds as written do, and results by more than what arithmetic in that type may add, so that no
reader of the query finds a point there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import distinct
from falsifier.spec.atoms import AtomTable
from falsifier.spec.layout import Layout
from falsifier.spec.polynomial import Monomial
from falsifier.spec.stack import Rows

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_MOST = 20_000  # distinct forms that are looked at, one after the other
_SAFE = 4  # times what an operation may be off


def infeasible(rows: Rows, lower: NDArray[Any], upper: NDArray[Any], where: Layout, atoms: AtomTable) -> Ints:
    """Targets with a comparison of inputs that no point of their box `[1 or t, n]` meets."""
    literals = rows.literals
    several = np.flatnonzero((literals.form >= atoms.slots) & where.input_only(literals.form, atoms))
    forms = distinct(literals.form[several])
    if not len(forms) or len(forms) > _MOST:
        return np.zeros(0, np.int64)
    found = []
    with np.errstate(over="ignore", invalid="ignore"):
        for form in forms.tolist():
            mine = several[literals.form[several] == form]
            box = rows.target[mine] if len(lower) > 1 else np.zeros(1, np.int64)
            terms = [(monomial, float(weight)) for monomial, weight in atoms.polynomial(form).items()]
            least, greatest = _range(terms, lower, upper, box, where)
            most = np.where(literals.sign[mine] > 0, greatest, -least)  # of sign * form
            found.append(rows.target[mine[most < literals.bound[mine]]])
    return distinct(np.concatenate(found))


def _range(
    terms: list[tuple[Monomial, float]], lower: NDArray[Any], upper: NDArray[Any], box: Ints, where: Layout
) -> tuple[Floats, Floats]:
    """Least and greatest values `[rows]` of a polynomial in the boxes `box` `[rows]`; infinite where they cannot be
    told.
    """

    def ends(at: Ints) -> Floats:
        """`[2, rows, at]`: the inputs' ranges, widened."""
        sides = ((lower, -np.inf), (upper, np.inf))
        return np.stack([where.outwards(side[np.ix_(box, at)], outward, at) for side, outward in sides])

    single = np.array([where.x_of[monomial[0]] for monomial, _ in terms if len(monomial) == 1], np.int64)
    parts = ends(single) * np.array([weight for monomial, weight in terms if len(monomial) == 1])
    least, greatest = parts.min(axis=0).sum(axis=1), parts.max(axis=0).sum(axis=1)
    size, operations = np.abs(parts).max(axis=0).sum(axis=1), 2 + len(terms)
    for monomial, weight in terms:
        if len(monomial) > 1:
            value = np.full((2, len(box)), weight)
            for slot in dict.fromkeys(monomial):
                power = monomial.count(slot)
                value = _product(value, _power(ends(where.x_of[[slot]])[:, :, 0], power))
                operations += power + 1
            least, greatest, size = least + value[0], greatest + value[1], size + np.abs(value).max(axis=0)
    # readers compute in float32 whatever the network's type, or in float16; products may vanish there, or overflow
    kind = np.finfo(where.roughest)
    slip = operations * _SAFE * (float(kind.eps) * size + float(kind.tiny) * np.maximum(size, 1))
    slip = np.where(size <= float(kind.max), slip, np.inf)
    least, greatest = least - slip, greatest + slip
    return np.where(np.isnan(least), -np.inf, least), np.where(np.isnan(greatest), np.inf, greatest)


def _power(range_: Floats, power: int) -> Floats:
    low, high = range_
    ends = np.sort(range_**power, axis=0)
    if power % 2 == 0:
        ends[0] = np.where((low <= 0) & (high >= 0), 0.0, ends[0])
    return ends


def _product(a: Floats, b: Floats) -> Floats:
    corners = np.stack([a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1]])
    return np.stack([corners.min(axis=0), corners.max(axis=0)])
