"""Atoms as planes: at a point, all of them as their first-order models, and what is best for these together.

A climb along the least atom alone zigzags where several are equally small, and there the best points lie. Solved on the
host, in float64, for a few lanes.

Axes: b lane, k atom, f free input.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_STEPS = 800  # of either method; each costs two products with the rows
_LOOKS = 40  # steps from look to look
_RUNGS, _LADDERS = 16, 3
_NEAR = 1e-6  # of the value: the gap to the dual bound that is as good as none
_ABSENT = -1e30


def deepest_move(slack: Floats, rows: Floats, low: Floats, high: Floats, *, only_sign: bool = False) -> Floats:
    """About the moves `[b, f]` in [low, high] whose least slack + rows . move is greatest: slack `[b, k]`, +infinity
    for atoms that do not count, rows `[b, k, f]`. only_sign: it is enough to know whether that can be 0.

    The saddle point over moves and weights of atoms, by the primal-dual hybrid gradient method (Chambolle and Pock
    2011), in widths of the boxes; the better of last and mean iterate. Ends once the dual bound is near.
    """
    counts = np.isfinite(slack)
    width = high - low
    rows = np.where(counts[:, :, None], rows, 0.0)
    scaled = rows * width[:, None, :]
    size = np.sqrt(np.maximum(np.linalg.eigvalsh(scaled @ scaled.transpose(0, 2, 1))[:, -1:], 0.0))
    size = np.where(size > 0, size, 1.0)
    scaled = scaled / size[:, :, None]
    levels = np.where(counts, np.where(counts, slack, 0.0) + _dot(rows, low), 0.0) / size
    unit = np.clip(np.where(width > 0, -low / np.where(width > 0, width, 1.0), 0.0), 0.0, 1.0)
    weight = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    mean, taken = np.zeros_like(unit), 0
    best, value, bound = unit, _least(levels, scaled, unit, counts), np.full(len(slack), np.inf)
    for step in range(1, (_STEPS // 2 if only_sign else _STEPS) + 1):
        pull = _times(weight, scaled)
        if step % _LOOKS == 0:
            for candidate in (unit, mean / max(1, taken)):
                here = _least(levels, scaled, candidate, counts)
                best = np.where((here > value)[:, None], candidate, best)
                value = np.maximum(here, value)
            most = np.sum(np.where(counts, weight * levels, 0.0), axis=1) + np.maximum(pull, 0.0).sum(axis=1)
            bound = np.minimum(bound, most)
            done = bound - value <= _NEAR * (1.0 + np.abs(value))
            if (done | ((value >= 0) | (bound < 0) if only_sign else done)).all():
                break
            if step % (4 * _LOOKS) == 0:  # the mean of what comes later is the better one
                mean, taken = np.zeros_like(unit), 0
        ahead = np.clip(unit + pull, 0.0, 1.0)
        weight = weight - levels - _dot(scaled, 2 * ahead - unit)
        weight = _on_simplex(np.where(counts, weight, _ABSENT))
        unit = ahead
        mean, taken = mean + unit, taken + 1
    return np.asarray(np.clip(low + width * best, low, high))


def nearest_in_half_spaces(
    base: Floats, rows: Floats, need: Floats, lower: Floats, upper: Floats, norm: str, known: Floats
) -> Floats:
    """About the points of boxes `[b, f]` nearest, by linf or l2, to base `[b, f]` with rows . x >= need `[b, k]`
    (-infinity: not asked). known `[b]`: a distance within which there is one; linf looks no farther.
    """
    if norm == "l2":
        return _by_weights(base, rows, need, lower, upper)
    return _by_radii(base, rows, need, lower, upper, known)


def _by_radii(base: Floats, rows: Floats, need: Floats, lower: Floats, upper: Floats, known: Floats) -> Floats:
    """For linf: the least of a ladder of radii in whose box all are met, and again between the two that it lies
    between.
    """
    lanes, f = base.shape
    x = np.clip(base, lower, upper)
    low, high = np.abs(x - base).max(axis=1), known
    for _ in range(_LADDERS):
        share = np.arange(1, _RUNGS + 1) / _RUNGS
        radius = low[:, None] + np.maximum(high - low, 0.0)[:, None] * share
        around = np.repeat(base, _RUNGS, axis=0)
        floor = np.maximum(np.repeat(lower, _RUNGS, axis=0), around - radius.reshape(-1, 1))
        ceiling = np.maximum(floor, np.minimum(np.repeat(upper, _RUNGS, axis=0), around + radius.reshape(-1, 1)))
        start = np.clip(around, floor, ceiling)
        slopes = np.repeat(rows, _RUNGS, axis=0)
        wanted = np.repeat(need, _RUNGS, axis=0)
        slack = np.where(np.isfinite(wanted), _dot(slopes, start) - wanted, np.inf)
        found = start + deepest_move(slack, slopes, floor - start, ceiling - start, only_sign=True)
        short = np.where(np.isfinite(wanted), _dot(slopes, found) - wanted, np.inf).min(axis=1)
        good = (short >= 0).reshape(lanes, _RUNGS)
        good[:, -1] = True  # whatever it is, nothing better is known
        first = np.argmax(good, axis=1)
        x = found.reshape(lanes, _RUNGS, f)[np.arange(lanes), first]
        edge = np.concatenate([low[:, None], radius], axis=1)
        low, high = edge[np.arange(lanes), first], edge[np.arange(lanes), first + 1]
    return x


def _by_weights(base: Floats, rows: Floats, need: Floats, lower: Floats, upper: Floats) -> Floats:
    """For l2.

    The points are clip(base + weight . rows) for the weights that solve the dual problem, here by accelerated projected
    gradients with restarts.
    """
    asked = np.isfinite(need)
    rows = np.where(asked[:, :, None], rows, 0.0)
    size = np.sqrt(np.sum(rows * rows, axis=2, keepdims=True))
    rows = rows / np.where(size > 0, size, 1.0)
    need = np.where(asked, need, 0.0) / np.where(size > 0, size, 1.0)[:, :, 0]
    length = 1 / np.maximum(np.linalg.eigvalsh(rows @ rows.transpose(0, 2, 1))[:, -1:], 1e-30)
    weight = np.zeros(need.shape)
    ahead, pace = weight, np.ones((len(need), 1))
    for _ in range(_STEPS):
        x = np.clip(base + _times(ahead, rows), lower, upper)
        lack = np.where(asked, need - _dot(rows, x), 0.0)
        moved = np.maximum(ahead + length * lack, 0.0)
        back = np.sum(lack * (moved - weight), axis=1, keepdims=True) < 0
        pace = np.where(back, 1.0, pace)
        later = (1 + np.sqrt(1 + 4 * pace * pace)) / 2
        ahead = np.where(back, moved, moved + (pace - 1) / later * (moved - weight))
        if np.allclose(moved, weight, rtol=1e-10, atol=0.0):
            break
        weight, pace = moved, later
    return np.asarray(np.clip(base + _times(weight, rows), lower, upper))


def _dot(rows: Floats, x: Floats) -> Floats:
    """rows `[b, k, f]` . x `[b, f]`: `[b, k]`."""
    return np.asarray((rows @ x[:, :, None])[:, :, 0])


def _times(weight: Floats, rows: Floats) -> Floats:
    """The sums `[b, f]` of rows `[b, k, f]` with weights `[b, k]`."""
    return np.asarray((weight[:, None, :] @ rows)[:, 0, :])


def _least(levels: Floats, rows: Floats, unit: Floats, counts: NDArray[np.bool_]) -> Floats:
    values = np.where(counts, levels + _dot(rows, unit), np.inf)
    return np.asarray(values.min(axis=1))


def _on_simplex(values: Floats) -> Floats:
    """The nearest points of the unit simplex to rows `[b, k]`."""
    ordered = -np.sort(-values, axis=1)
    excess = (np.cumsum(ordered, axis=1) - 1) / np.arange(1, values.shape[1] + 1)
    last = np.sum(ordered > excess, axis=1) - 1
    return np.asarray(np.maximum(values - excess[np.arange(len(values)), last][:, None], 0.0))
