"""Moves: where the lanes of a population go next, in the unit cube of their boxes.

Each lane draws one move. All but `fresh` keep something of the lane or of its partner, another lane of the same target.
"""

from __future__ import annotations

from falsifier.arrays import Array, Rng, arange, namespace
from falsifier.search.starts import mixed

_SMALLEST, _RANGE = (
    0.02,
    25.0,
)  # standard deviation of a Gaussian kick, log-uniform from _SMALLEST to _SMALLEST * _RANGE
_NEAREST, _FARTHEST = 0.05, 2.0  # distance of a kick in a random direction, log-uniform


def kick(rng: Rng, unit: Array, partner: Array, other: Array, fresh: Array) -> Array:
    """New places `[b, f]` from unit coordinates of lanes and of two partners of each.

    fresh `[b, 1]`: the probability that a lane starts anew.
    """
    xp = namespace(unit)
    lanes, f = unit.shape
    move = rng.integers(0, 6, (lanes, 1), unit)
    share = rng.uniform((lanes, 1), unit) ** 2
    some = rng.uniform((lanes, f), unit) < share
    one = rng.integers(0, f, (lanes, 1), unit)
    some = some | (one == arange(f, unit)[None, :])  # never none
    normal = rng.normal((lanes, f), unit)
    size = rng.uniform((lanes, 1), unit)
    zero = xp.zeros_like(unit)
    gaussian = unit + xp.where(some, _SMALLEST * _RANGE**size * normal, zero)
    difference = unit + xp.where(some, 1.5 * size * (partner - other), zero)
    crossed = xp.where(some, partner, unit)
    along = unit + (3 * size - 1) * (partner - unit)
    length = xp.sqrt(xp.sum(normal * normal, axis=1))[:, None] + 1e-30
    away = unit + normal * (_NEAREST * (_FARTHEST / _NEAREST) ** size / length)
    redrawn = xp.where(some, rng.uniform((lanes, f), unit), unit)
    place = xp.where(move == 0, gaussian, xp.where(move == 1, difference, crossed))
    place = xp.where(move == 3, along, xp.where(move == 4, away, xp.where(move == 5, redrawn, place)))
    start = mixed(rng, lanes, f, unit)
    place = xp.where(rng.uniform((lanes, 1), unit) < fresh, start, place)
    return xp.clip(place, 0.0, 1.0)
