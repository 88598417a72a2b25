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
    eps = _SAFE * float(np.finfo(lower.dtype).eps)
    with np.errstate(over="ignore", invalid="ignore"):
        low = np.nextafter(lower, np.array(-np.inf, lower.dtype)).astype(np.float64)
        high = np.nextafter(upper, np.array(np.inf, upper.dtype)).astype(np.float64)
        found = []
        for form in forms.tolist():
            mine = several[literals.form[several] == form]
            box = np.zeros(len(mine), np.int64) if len(lower) == 1 else rows.target[mine]
            least, greatest = _range(_terms(form, atoms), low[box], high[box], where, eps)
            most = np.where(literals.sign[mine] > 0, greatest, -least)  # of sign * form
            found.append(rows.target[mine[most < literals.bound[mine]]])
    return distinct(np.concatenate(found))


def _terms(form: int, atoms: AtomTable) -> list[tuple[Monomial, float]]:
    if form < atoms.first_polynomial:
        a, b = divmod(form - atoms.slots, atoms.slots)
        return [((a,), 1.0), ((b,), -1.0)]
    return [(monomial, float(weight)) for monomial, weight in atoms.polynomials[form - atoms.first_polynomial].items()]


def _range(
    terms: list[tuple[Monomial, float]], low: Floats, high: Floats, where: Layout, eps: float
) -> tuple[Floats, Floats]:
    """Least and greatest values of a polynomial in boxes `[rows, n]`; infinite where they cannot be told."""
    least, greatest = np.zeros((2, len(low)))
    size, operations = np.zeros(len(low)), 2 + len(terms)
    for monomial, weight in terms:
        ends = np.ones((2, len(low)))
        for slot in dict.fromkeys(monomial):
            at, power = int(where.x_of[slot]), monomial.count(slot)
            ends = _product(ends, _power(low[:, at], high[:, at], power))
            operations += power + 1
        scaled = np.sort(ends * weight, axis=0)
        least, greatest = least + scaled[0], greatest + scaled[1]
        size = size + np.abs(scaled).max(axis=0)
    slip = operations * eps * size
    least, greatest = least - slip, greatest + slip
    return np.where(np.isnan(least), -np.inf, least), np.where(np.isnan(greatest), np.inf, greatest)


def _power(low: Floats, high: Floats, power: int) -> Floats:
    ends = np.sort(np.stack([low**power, high**power]), axis=0)
    if power % 2 == 0:
        ends[0] = np.where((low <= 0) & (high >= 0), 0.0, ends[0])
    return ends


def _product(a: Floats, b: Floats) -> Floats:
    corners = np.stack([a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1]])
    return np.stack([corners.min(axis=0), corners.max(axis=0)])
