"""Bounds on inputs, per disjunct, rounded to what the networks' element types can hold.

Both sides of a box are handled alike as *floors*: x >= floor[0] and -x >= floor[1].

Axes: t disjunct, 2 side, n flat input, c input with a bound of its own in some disjunct.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import UnboundedError
from falsifier.records import record
from falsifier.spec.atoms import Literals, joined
from falsifier.spec.layout import INTEGER, NARROW, Layout
from falsifier.spec.margin import Rounding, beyond, reach

Ints = NDArray[np.int64]
_WHOLE = 2.0**53  # from here on not every integer is a float64
MAX_CELLS = 100_000_000  # of a [t, f] array; beyond it boxes become atoms of one target


class TooManyCellsError(Exception):
    """The boxes of all disjuncts side by side would not fit in memory."""


@record
class BoxLiterals:
    """Bounds on single inputs: literal i is sign * x[position] >= bound (or >) in disjunct `clause[i]`, -1 for all.

    The literals' forms are not read.
    """

    position: Ints
    clause: Ints
    literals: Literals

    def with_common(self, position: Ints, sign: NDArray[np.int8], bound: NDArray[np.float64]) -> BoxLiterals:
        """These, and bounds that are not strict and hold in every disjunct."""
        added = Literals(position, sign, bound, np.zeros(len(position), np.bool_))
        clause = np.r_[self.clause, np.full(len(position), -1)]
        return BoxLiterals(np.r_[self.position, position], clause, joined([self.literals, added]))


@record
class Boxes:
    """What is left of the disjuncts after their boxes: `alive` `[t]` bool, and for those that are alive, in order:

    lower, upper `[1 or t, n]` in the network's type; exact `[t]`: nothing in the box lies outside the bounds as
    written. apart: the first input whose bounds in all disjuncts exclude each other.
    """

    alive: NDArray[np.bool_]
    lower: NDArray[Any]
    upper: NDArray[Any]
    exact: NDArray[np.bool_]
    apart: int | None = None


@record
class _Floors:
    """Floors as written (float64), inward and nearest (in dtype), nearest with strict signs that hold in dtype:
    shared `[4][2, n]`, own `[4][t, 2, c]` at columns.
    """

    shared: tuple[NDArray[Any], ...]
    columns: Ints
    own: tuple[NDArray[Any], ...]


def boxes(
    bounds: BoxLiterals, t: int, where: Layout, follows: NDArray[np.bool_], dtype: np.dtype[Any], rounding: Rounding
) -> Boxes:
    """The box of each of t disjuncts. `follows` `[n]`: inputs that ties determine, whose own range does not matter.

    Raises UnboundedError for an input without bounds, TooManyCellsError.
    """
    floors = _floors(bounds, t, where, dtype)
    written, inward, nearest, meeting = floors.shared
    own_written, own_inward, own_nearest, own_meeting = floors.own
    columns = floors.columns
    shared_only = np.ones(where.n, np.bool_)
    shared_only[columns] = False
    integer = where.coarse == INTEGER
    vague, own_vague = _vague(written, integer), _vague(own_written, integer[columns])
    # bounds that exclude each other by less than their type tells apart meet for readers that round them
    fits = _fits(written) | _fits(meeting) | vague | ~shared_only
    alive = np.full(t, bool(np.all(fits)))
    alive &= np.all(_fits(own_written) | _fits(own_meeting) | own_vague, axis=1)
    _check_bounded(floors, alive, where, follows)
    if integer.any():  # a range without an integer in it is empty
        fits &= _fits(inward) | vague | ~(integer & shared_only)
        alive &= bool(np.all(fits))
        alive &= np.all(_fits(own_inward) | own_vague | ~integer[columns], axis=1)
    lower, upper, exact_shared = _sides(written, inward, nearest, integer, rounding)
    apart = int(np.argmin(fits)) if not fits.all() else None
    if not len(columns):
        exact = np.full(int(alive.sum()), bool(np.all(exact_shared | follows)))
        return Boxes(alive, lower[None, :], upper[None, :], exact, apart)
    count = int(alive.sum())
    if count * where.n > MAX_CELLS:
        raise TooManyCellsError
    own_lower, own_upper, exact_own = _sides(
        own_written[alive], own_inward[alive], own_nearest[alive], integer[columns], rounding
    )
    lower, upper = np.repeat(lower[None, :], count, axis=0), np.repeat(upper[None, :], count, axis=0)
    lower[:, columns], upper[:, columns] = own_lower, own_upper
    exact = np.all((exact_shared | follows)[shared_only]) & np.all(exact_own | follows[columns], axis=1)
    return Boxes(alive, lower, upper, exact, apart)


def _floors(bounds: BoxLiterals, t: int, where: Layout, dtype: np.dtype[Any]) -> _Floors:
    side = np.where(bounds.literals.sign > 0, 0, 1)
    values = _in_types(bounds.literals, where.coarse[bounds.position], dtype, where.query.version[0] >= 2)
    everywhere = bounds.clause < 0
    has_own = np.zeros(where.n, np.bool_)
    has_own[bounds.position[~everywhere]] = True
    columns = np.flatnonzero(has_own)
    if t * len(columns) > MAX_CELLS // 4:
        raise TooManyCellsError
    own_at = (bounds.clause[~everywhere] * 2 + side[~everywhere]) * len(columns)
    own_at += np.searchsorted(columns, bounds.position[~everywhere])
    shared, own = [], []
    for value in values:
        kind = value.dtype
        floor = np.stack([where.least, -where.greatest]).astype(kind)
        np.maximum.at(floor.reshape(-1), side[everywhere] * where.n + bounds.position[everywhere], value[everywhere])
        mine = np.repeat(floor[None, :, columns], t, axis=0)
        np.maximum.at(mine.reshape(-1), own_at, value[~everywhere])
        shared.append(floor)
        own.append(mine)
    return _Floors(tuple(shared), columns, tuple(own))


def _in_types(
    literals: Literals, coarse: NDArray[np.int8], dtype: np.dtype[Any], version_2: bool
) -> tuple[NDArray[Any], ...]:
    """Each bound in the four ways of `_Floors`."""
    written = beyond(literals.bound, literals.strict)

    def rounded(kind: np.dtype[Any], nearest: bool, strictly: bool = version_2) -> NDArray[Any]:
        return reach(literals.bound, literals.strict, kind, strict_in_dtype=strictly, nearest=nearest).astype(dtype)

    inward, nearest, meeting = rounded(dtype, False), rounded(dtype, True), rounded(dtype, True, True)
    for code, narrow in NARROW.items():
        mine = coarse == code
        if mine.any():
            inward = np.where(mine, rounded(narrow, False), inward)
            nearest = np.where(mine, rounded(narrow, True), nearest)
            meeting = np.where(mine, rounded(narrow, True, True), meeting)
    integer = coarse == INTEGER
    if integer.any():
        whole = np.ceil(written).astype(dtype)
        inward, nearest, meeting = (np.where(integer, whole, other) for other in (inward, nearest, meeting))
    return written, inward, nearest, meeting


def _fits(floors: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether anything lies between the two sides: `[.., 2, c]` to `[.., c]`."""
    return np.asarray(floors[..., 0, :] <= -floors[..., 1, :])


def _vague(written: NDArray[np.float64], integer: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether float64 cannot tell the bounds of an integer from their neighbours: `[.., 2, c]` to `[.., c]`."""
    return np.asarray(integer & np.any(np.abs(written) >= _WHOLE, axis=-2))


def _sides(
    written: NDArray[np.float64],
    inward: NDArray[Any],
    nearest: NDArray[Any],
    integer: NDArray[np.bool_],
    rounding: Rounding,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]:
    """Lower and upper bounds `[.., c]`, and where nothing between them lies outside the bounds as written.

    Inward where a representable value is left inside, else the nearest ones.
    """
    use_inward = _fits(inward) & (integer | (rounding is Rounding.INWARD))
    chosen = np.where(use_inward[..., None, :], inward, nearest)
    limit = np.finfo(chosen.dtype).max
    lower = np.clip(chosen[..., 0, :], -limit, limit)
    upper = np.clip(-chosen[..., 1, :], -limit, limit)
    exact = (lower.astype(np.float64) >= written[..., 0, :]) & (upper.astype(np.float64) <= -written[..., 1, :])
    return lower, np.maximum(lower, upper), exact


def _check_bounded(floors: _Floors, alive: NDArray[np.bool_], where: Layout, follows: NDArray[np.bool_]) -> None:
    """Raise UnboundedError for a free input that has no bound on some side in a disjunct that is alive."""
    if not alive.any():
        return
    edge = np.where(where.vast, np.stack([where.least, -where.greatest]), -np.inf)
    edge[0, where.least == 0] = -np.inf  # where unsigned integers begin is as good as a bound
    open_shared = (floors.shared[0] <= edge) & ~follows
    open_shared[:, floors.columns] = False
    open_own = np.any(floors.own[0][alive] <= edge[:, floors.columns], axis=0) & ~follows[floors.columns]
    for side, word, relation in ((0, "lower", ">="), (1, "upper", "<=")):
        found = np.concatenate([np.flatnonzero(open_shared[side]), floors.columns[np.flatnonzero(open_own[side])]])
        if len(found):
            name = where.input_name(int(found.min()))
            more = f" (and {len(found) - 1} more inputs)" if len(found) > 1 else ""
            raise UnboundedError(
                f"{where.query.origin}: the input {name} has no {word} bound{more}: search needs one on both sides, "
                f"such as (assert ({relation} {name} {'-1e6' if side == 0 else '1e6'}))"
            )
