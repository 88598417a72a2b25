"""Moves: where the lanes of a population go next, in the unit cube of their boxes.

Each lane draws one move. All but `fresh` keep something of the lane or of its partner, another lane of the same target.
"""

from __future__ import annotations

from typing import NamedTuple

from falsifier.arrays import Array, Rng, arange, clip_into, copy_where, full, namespace
from falsifier.search.starts import mixed

_SMALLEST, _RANGE = 0.02, 25.0  # deviation of a Gaussian kick, log-uniform from the first to their product
_NEAREST, _FARTHEST = 0.05, 2.0  # distance of a kick in a random direction, log-uniform


def kick(rng: Rng, unit: Array, partner: Array, other: Array, fresh: Array) -> Array:
    """New places `[b, f]` from unit coordinates of lanes and of two partners of each.

    fresh `[b, 1]`: the probability that a lane starts anew.
    """
    lanes, f = unit.shape
    move = rng.integers(0, 6, (lanes, 1), unit)[:, 0]
    share = rng.uniform((lanes, 1), unit) ** 2
    some = rng.uniform((lanes, f), unit) < share
    one = rng.integers(0, f, (lanes, 1), unit)[:, 0]
    some[arange(lanes, unit), one] = True  # never none
    normal = rng.normal((lanes, f), unit)
    size = rng.uniform((lanes, 1), unit)
    uniform = rng.uniform((lanes, f), unit)
    place = mixed(rng, lanes, f, unit)
    keeps = (rng.uniform((lanes, 1), unit) >= fresh)[:, 0]
    draws = _Draws(unit, partner, other, some, normal, size, uniform)
    for number, make in enumerate(_MOVES):  # each for the lanes that drew it
        at = namespace(unit).nonzero(keeps & (move == number))[0]
        place[at] = make(draws, at)
    return clip_into(place, *(full((1, 1), end, unit) for end in (0.0, 1.0)))


class _Draws(NamedTuple):
    """What moves start from: places `[b, f]`, which coordinates move `[b, f]`, draws `[b, f]`, a size `[b, 1]`."""

    unit: Array
    partner: Array
    other: Array
    some: Array
    normal: Array
    size: Array
    uniform: Array


def _gaussian(draws: _Draws, at: Array) -> Array:
    unit = draws.unit[at]
    return copy_where(draws.some[at], unit + _SMALLEST * _RANGE ** draws.size[at] * draws.normal[at], unit)


def _difference(draws: _Draws, at: Array) -> Array:
    unit = draws.unit[at]
    return copy_where(draws.some[at], unit + 1.5 * draws.size[at] * (draws.partner[at] - draws.other[at]), unit)


def _crossed(draws: _Draws, at: Array) -> Array:
    return copy_where(draws.some[at], draws.partner[at], draws.unit[at])


def _along(draws: _Draws, at: Array) -> Array:
    unit = draws.unit[at]
    return unit + (3 * draws.size[at] - 1) * (draws.partner[at] - unit)


def _away(draws: _Draws, at: Array) -> Array:
    normal = draws.normal[at]
    length = namespace(normal).sum(normal * normal, axis=1)[:, None] ** 0.5 + 1e-30
    return draws.unit[at] + normal * (_NEAREST * (_FARTHEST / _NEAREST) ** draws.size[at] / length)


def _redrawn(draws: _Draws, at: Array) -> Array:
    return copy_where(draws.some[at], draws.uniform[at], draws.unit[at])


_MOVES = (_gaussian, _difference, _crossed, _along, _away, _redrawn)
