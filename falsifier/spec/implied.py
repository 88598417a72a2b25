"""Bounds that an input gets from its neighbours: x_1 <= x_0 bounds x_1 where only x_0 has a bound of its own.

Only missing bounds are filled in, by interval arithmetic over the linear comparisons between inputs that every disjunct
has; those comparisons stay atoms, so nothing is lost by a bound that is wide.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from falsifier.spec.atoms import AtomTable, Literals
from falsifier.spec.boxes import BoxLiterals
from falsifier.spec.elimination import Elimination, linear_weights, widened
from falsifier.spec.layout import Layout

_PASSES = 10  # chains of comparisons longer than this are left alone


def with_implied(
    bounds: BoxLiterals, common: Literals, where: Layout, atoms: AtomTable, elimination: Elimination
) -> BoxLiterals:
    """Bounds with those added that comparisons in `common` imply for inputs without a bound in every disjunct."""
    floor = np.stack([where.least, -where.greatest])
    side = np.where(bounds.literals.sign > 0, 0, 1)
    np.maximum.at(floor, (side, bounds.position), np.where(bounds.clause < 0, bounds.literals.bound, -np.inf))
    owned = np.zeros(floor.shape, np.bool_)  # bounded in some disjuncts: those decide
    owned[side[bounds.clause >= 0], bounds.position[bounds.clause >= 0]] = True
    missing = np.isneginf(floor) & ~owned & ~elimination.follows
    if not missing.any():
        return bounds
    rows = _rows(common, where, atoms, elimination)
    found: list[tuple[int, int, float]] = []
    for _ in range(_PASSES):
        before = len(found)
        for weights, least in rows:
            found += _filled(weights, least, floor, missing)
        if len(found) == before:
            break
    if not found:
        return bounds
    position = np.array([i for i, _, _ in found], np.int64)
    sign = np.array([1 if s == 0 else -1 for _, s, _ in found], np.int8)
    return bounds.with_common(position, sign, np.array([b for _, _, b in found]))


def _rows(
    common: Literals, where: Layout, atoms: AtomTable, elimination: Elimination
) -> list[tuple[dict[int, float], float]]:
    """Linear comparisons between inputs as (weights, least): sum weights * x >= least, over inputs that are left."""
    at = np.flatnonzero((common.form >= atoms.slots) & where.input_only(common.form, atoms))
    out = []
    for form, sign, bound in zip(
        common.form[at].tolist(), common.sign[at].tolist(), common.bound[at].tolist(), strict=True
    ):
        weights = linear_weights(form, where, atoms)
        if weights is not None:
            left, constant = elimination.ties.resolve((weights, Fraction(0)), {})
            out.append(({i: float(sign * w) for i, w in left.items()}, bound - sign * float(constant)))
    return out


def _filled(
    weights: dict[int, float], least: float, floor: NDArray[np.float64], missing: NDArray[np.bool_]
) -> list[tuple[int, int, float]]:
    """The missing bounds that one comparison gives: (input, side, floor); `floor` and `missing` are updated."""
    # the most that each term can add, infinite where the input has no bound on that side
    most = {i: -w * floor[1, i] if w > 0 else w * floor[0, i] for i, w in weights.items()}
    out = []
    for i, weight in weights.items():
        side = 0 if weight > 0 else 1
        others = sum(m for j, m in most.items() if j != i)
        if not missing[side, i] or not np.isfinite(others):
            continue
        value = (least - others) / abs(weight)
        exact = len(weights) == 2 and least == 0 and {abs(w) for w in weights.values()} == {1.0}
        floor[side, i] = value if exact else widened(value)
        missing[side, i] = False
        out.append((i, side, float(floor[side, i])))
    return out
