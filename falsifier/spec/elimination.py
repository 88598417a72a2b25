"""Which inputs are free: equalities between inputs are found and used up, the domain is built from what boxes leave."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.records import record
from falsifier.spec.atoms import AtomTable, Literals
from falsifier.spec.boxes import BoxLiterals
from falsifier.spec.domain import Combination, Domain, Rounds, Tie, layered
from falsifier.spec.lattice import lattice
from falsifier.spec.layout import HALF, INTEGER, SINGLE, Layout
from falsifier.spec.ties import Affine, Ties

Ints = NDArray[np.int64]
_SLOP = 1e-9  # a bound carried through inexact arithmetic is widened by this much, relatively; its atom stays exact
_ROUNDING = Fraction(1, 2**50)  # what float64 arithmetic on decimals may be off, relatively


@record
class Elimination:
    """Equalities used up: `spent` `[literals]` marks the literals that no longer count.

    root `[n]`: the input that each one equals (itself for most); eliminated: those that an elimination expressed by
    others.
    """

    ties: Ties
    spent: NDArray[np.bool_]
    root: Ints
    eliminated: dict[int, Affine]

    @property
    def follows(self) -> NDArray[np.bool_]:
        """`[n]`: inputs that others determine."""
        out: NDArray[np.bool_] = self.root != np.arange(len(self.root))
        out[list(self.eliminated)] = True
        return out


def eliminate(common: Literals, where: Layout, atoms: AtomTable) -> Elimination:
    """Find linear equalities over inputs among the literals that every disjunct has, and express inputs by others."""
    ties = Ties(where.coarse)
    spent = np.zeros(len(common), np.bool_)
    several = (common.form >= atoms.slots) & ~common.strict & where.input_only(common.form, atoms)
    at = np.flatnonzero(several)
    forms, group = np.unique(common.form[at], return_inverse=True)
    floor = np.full((2, len(forms)), -np.inf)
    np.maximum.at(floor, (np.where(common.sign[at] > 0, 0, 1), group), common.bound[at])
    equal = floor[0] == -floor[1]
    pair = forms < atoms.first_polynomial
    plain = equal & pair & (floor[0] == 0)
    low, high = atoms.pair(forms[plain])
    ties.merge(where.x_of[low], where.x_of[high])
    used = plain.copy()
    pinned = _pinned(common, where, atoms, ties) if np.any(equal & ~plain) else {}
    for i in np.flatnonzero(equal & ~plain).tolist():
        weights = linear_weights(int(forms[i]), where, atoms)
        used[i] = weights is not None and ties.eliminate(weights, Fraction(float(floor[0, i])), pinned)
    spent[at] = used[group]
    root = np.arange(where.n)
    followers, roots = ties.merged()
    root[followers] = roots
    return Elimination(ties, spent, root, ties.eliminated(pinned))


def _pinned(common: Literals, where: Layout, atoms: AtomTable, ties: Ties) -> dict[int, Fraction]:
    """Inputs whose bounds leave one value."""
    single = np.flatnonzero(common.form < atoms.slots)
    single = single[where.kinds[common.form[single]] == 0]
    root = np.arange(where.n)
    followers, roots = ties.merged()
    root[followers] = roots
    floor = np.full((2, where.n), -np.inf)
    np.maximum.at(
        floor, (np.where(common.sign[single] > 0, 0, 1), root[where.x_of[common.form[single]]]), common.bound[single]
    )
    fixed = np.flatnonzero((floor[0] == -floor[1]) & np.isfinite(floor[0]))
    return {i: Fraction(value) for i, value in zip(fixed.tolist(), floor[0, fixed].tolist(), strict=True)}


def linear_weights(form: int, where: Layout, atoms: AtomTable) -> dict[int, Fraction] | None:
    """The weights of a linear form over inputs, None for a polynomial."""
    polynomial = atoms.polynomial(form)
    if any(len(monomial) > 1 for monomial in polynomial):
        return None
    return {int(where.x_of[monomial[0]]): weight for monomial, weight in polynomial.items()}


def carried(bounds: BoxLiterals, elimination: Elimination) -> tuple[BoxLiterals, NDArray[np.bool_]]:
    """Bounds moved to the inputs that are left, and which of the given ones must stay atoms as well.

    A bound on an input that equals another one moves exactly; one on scale * x + shift moves widened, and stays an
    atom.
    """
    position = elimination.root[bounds.position]
    literals = bounds.literals
    if not elimination.eliminated:
        return BoxLiterals(position, bounds.clause, literals), np.zeros(len(position), np.bool_)
    stays = np.isin(position, np.fromiter(elimination.eliminated, np.int64))
    moves = ~stays
    sign, bound = literals.sign.copy(), literals.bound.copy()
    for i in np.flatnonzero(stays).tolist():
        weights, constant = elimination.eliminated[int(position[i])]
        if len(weights) == 1:
            ((source, weight),) = weights.items()
            value = (
                float((Fraction(bound[i]) - int(sign[i]) * constant) / abs(weight))
                if np.isfinite(bound[i])
                else bound[i]
            )
            bound[i] = widened(value)
            sign[i] = sign[i] if weight > 0 else -sign[i]
            position[i], moves[i] = source, True
    moved = Literals(literals.form, sign, bound, literals.strict & ~stays)
    index = np.flatnonzero(moves)
    return BoxLiterals(position[index], bounds.clause[index], moved.take(index)), stays


def with_ranges(bounds: BoxLiterals, elimination: Elimination, where: Layout) -> BoxLiterals:
    """Bounds with those added that the types of inputs have which equal another one: an int8 bounds an int64."""
    follows = elimination.root != np.arange(where.n)
    follows[follows] = ~np.isin(elimination.root[follows], np.fromiter(elimination.eliminated, np.int64))
    below = np.flatnonzero(follows & np.isfinite(where.least))
    above = np.flatnonzero(follows & np.isfinite(where.greatest))
    if not len(below) + len(above):
        return bounds
    return bounds.with_common(
        elimination.root[np.r_[below, above]],
        np.r_[np.ones(len(below), np.int8), -np.ones(len(above), np.int8)],
        np.r_[where.least[below], -where.greatest[above]],
    )


def widened(floor: float) -> float:
    """A floor lowered by what inexact arithmetic may have put it too high."""
    return floor - _SLOP * abs(floor)


def build_domain(
    lower: NDArray[Any], upper: NDArray[Any], elimination: Elimination, where: Layout, *, exactly: bool = False
) -> Domain:
    """The domain for boxes `[1 or t, n]`: inputs that are the same single value in every target become constants.

    `exactly`: points are moved to where the expressions of tied inputs are exact.
    """
    dtype = lower.dtype
    same = np.all(lower == lower[:1], axis=0) & np.all(upper == lower[:1], axis=0)
    free_mask = ~same & ~elimination.follows
    free = np.flatnonzero(free_mask)
    position = np.cumsum(free_mask) - 1
    base = np.where(free_mask, 0, lower[0]).astype(dtype)
    tied, source = np.flatnonzero(elimination.root != np.arange(where.n)), np.zeros(0, np.int64)
    root = elimination.root[tied]
    base[tied] = base[root]
    expressed = np.isin(root, np.fromiter(elimination.eliminated, np.int64))
    behind = {int(i): int(r) for i, r in zip(tied[expressed], root[expressed], strict=True)}
    plain = ~expressed & free_mask[root]
    tied, source = tied[plain], position[root[plain]]
    scale, shift = np.ones(len(tied), dtype), np.zeros(len(tied), dtype)
    singles: list[tuple[int, int, float, float]] = []
    expressions: list[Affine] = []
    several: list[tuple[int, dict[int, Fraction], Fraction]] = []
    exact = True
    for i, (weights, constant) in _all_expressed(elimination, behind).items():
        left = {j: w for j, w in weights.items() if free_mask[j]}
        fixed = constant + sum(
            (w * Fraction(float(base[j])) for j, w in weights.items() if not free_mask[j]), Fraction(0)
        )
        base[i] = float(fixed)
        exact &= bool(left) or abs(Fraction(float(base[i])) - fixed) <= _ROUNDING * abs(fixed)
        if left and where.coarse[i] != SINGLE:
            expressions.append(({int(position[j]): w for j, w in left.items()}, fixed))
        if len(left) == 1:
            ((j, weight),) = left.items()
            singles.append((i, int(position[j]), float(weight), float(fixed)))
        elif left:
            several.append((i, left, fixed))
    if singles:
        tied = np.r_[tied, [e[0] for e in singles]]
        source = np.r_[source, [e[1] for e in singles]]
        scale = np.r_[scale, np.array([e[2] for e in singles], dtype)]
        shift = np.r_[shift, np.array([e[3] for e in singles], dtype)]
    combination = None
    if several:
        rows = np.zeros((len(several), len(free)), dtype)
        for row, (_, left, _) in enumerate(several):
            for j, weight in left.items():
                rows[row, position[j]] = float(weight)
        combination = Combination(
            np.array([e[0] for e in several]), rows, np.array([float(e[2]) for e in several], dtype)
        )
    integer, half, single = (where.coarse[free] == code for code in (INTEGER, HALF, SINGLE))
    rounds = Rounds(bool(integer.any()), bool(half.any()), bool(single.any()))
    ties: tuple[Tie, ...] = layered(tied, source, scale, shift)
    grid = lattice(expressions, lower[:, free].min(axis=0), upper[:, free].max(axis=0)) if exactly else None
    return Domain(where.n, free, base, integer, half, single, ties, combination, None, grid, rounds, exact)


def _all_expressed(elimination: Elimination, behind: dict[int, int]) -> dict[int, Affine]:
    """Every input that an expression determines, those that merely equal such an input included."""
    return {**elimination.eliminated, **{i: elimination.eliminated[root] for i, root in behind.items()}}
