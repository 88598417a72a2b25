"""Dilated climbs: Polyak steps in a metric that each lane learns on its way (Shor's r-algorithm).

Where a margin is piecewise linear its gradient jumps from face to face, and steps along it zigzag across the ridge
where the faces meet. The difference of two successive gradients is normal to that ridge: the metric shrinks this
direction, so that the rest of the gradient points along the ridge. In the unit cube of the box, with H = I at first:

    d <- g/|g| - g'/|g'|                          g, g': this gradient and the last one
    H <- H - (1 - 1/alpha^2) H d (H d)^T / d.Hd
    x <- x + min(1.1 lack / |g|_H, cap) * H g / |g|_H        |g|_H = sqrt(g.Hg)

This is the algorithm's B with H = B B^T. H g' is known from the last step, so that a step takes one product with H and
one update of rank one. Where free inputs are many H is kept as I - V^T V, a row of V for each of the last few steps. To
forget a row makes H greater and leaves it positive.
Source: N. Z. Shor, Minimization Methods for Non-Differentiable Functions, Springer 1985, chapter 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, Rng, as_like, full, namespace, numpy_dtype
from falsifier.network.walk import FIRST_CAP, LARGEST_LACK, LAST_CAP, OVER, SAME, SHRINK, TINY, Rule
from falsifier.objective import Reduction
from falsifier.search.ascent import Climb, Whole, climb_by
from falsifier.search.run import Run, bounds

if TYPE_CHECKING:
    from falsifier.problem import Problem

_WEIGHED = 0.6  # share of the climb in which atoms are weighed
_INEQUALITY = 3.0  # power of the exponential draws that weights are
_BYTES = 1 << 26  # of the rows of all lanes
_FEWEST = 4  # rows of V
_KEPT = 16  # rows of V where free inputs are more than _WHOLE
_WHOLE = 100  # free inputs up to which H is a matrix


def dilated_climb(
    run: Run,
    problem: Problem,
    target: NDArray[np.int64],
    x: Array,
    steps: int,
    rng: Rng,
    reduction: Reduction,
    *,
    inside: bool = False,
) -> Climb:
    """Up to `steps` steps from `x` `[b, f]`; fewer where the turn or the search ends. The door sees hits at once.

    Until the last part of the climb every lane weighs the atoms of its target by weights of its own, unequal by orders
    of magnitude: a point that satisfies all atoms does so under any weights, while most local optima of a conjunction
    belong to one weighting, and lanes that weigh alike end in the same few of them. `inside` as in `climb_by`.
    """
    xp = namespace(x)
    lower, upper = bounds(problem, as_like(target, problem.like))
    width = upper - lower
    weights = _drawn_weights(rng, x.shape[0], problem.k, x) if problem.k > 1 else None
    metric = _Metric(x, steps)

    def move(step: int, x: Array, gradient: Array, lack: Array, slack: Array) -> tuple[Array, Array | None]:
        cap = FIRST_CAP * (LAST_CAP / FIRST_CAP) ** (step / max(1, steps - 1))
        moved = x + metric.step(_followed(gradient * width, x, lower, upper), lack, cap) * width
        return xp.clip(moved, lower, upper), weights if step + 1 < _WEIGHED * steps else None

    return climb_by(move, run, problem, target, x, steps, reduction, _whole(x, steps, weights), weights, inside)


def _whole(x: Array, steps: int, weights: Array | None) -> Whole | None:
    """The same rule for runs of many steps; only where the metric is a matrix."""
    f = x.shape[1]
    if f > min(steps, _WHOLE):
        return None
    zeros = 0 * x
    given = {"shortening": np.array([[(LAST_CAP / FIRST_CAP) ** (1 / max(1, steps - 1))]])}
    state = {"metric": zeros[:, :, None] + namespace(x).eye(f, dtype=x.dtype), "unit": zeros, "along": zeros}
    if weights is not None:
        given.update(weights=weights, until=np.array([[_WEIGHED * steps]]))
        state["scale"] = weights
    return Whole(Rule.DILATED, given, state)


def _followed(slope: Array, x: Array, lower: Array, upper: Array) -> Array:
    """A slope `[b, f]` without the coordinates that point out of the box; 0 in lanes where it is not finite."""
    xp = namespace(slope)
    outwards = ((x <= lower) & (slope < 0)) | ((x >= upper) & (slope > 0))
    usable = xp.isfinite(xp.sum(xp.abs(slope), axis=1))[:, None]
    return xp.where(usable & ~outwards, slope, full((1, 1), 0.0, slope))


def _drawn_weights(rng: Rng, lanes: int, atoms: int, like: Array) -> Array:
    """Weights `[b, k]`, positive, with mean 1 in every lane: powers of exponential draws."""
    xp = namespace(like)
    draw = (-xp.log(1 - rng.uniform((lanes, atoms), like) + TINY)) ** _INEQUALITY + 1e-6
    return draw * (atoms / xp.sum(draw, axis=1)[:, None])


class _Metric:
    """H of every lane, as a matrix `[b, f, f]` or as V `[b, rows, f]`, and g/|g| and H g/|g| of the last step.

    V is a ring: step i has row i % rows.
    """

    def __init__(self, like: Array, steps: int) -> None:
        xp = namespace(like)
        lanes, f = like.shape
        held = _BYTES // max(1, lanes * f * numpy_dtype(like).itemsize)
        rows = min(steps, max(_FEWEST, held))
        if f > _WHOLE:
            rows = min(rows, _KEPT)
        self._dense = f <= min(rows, _WHOLE)
        self._stored = xp.zeros((lanes, f if self._dense else rows, f), dtype=like.dtype, device=like.device)
        if self._dense:
            self._stored += xp.eye(f, dtype=like.dtype, device=like.device)[None]
        self._last: tuple[Array, Array] | None = None
        self._count = 0

    def step(self, slope: Array, lack: Array, cap: float) -> Array:
        """The step `[b, f]` in the unit cube for a slope `[b, f]` of lanes that lack this much `[b]`."""
        xp = namespace(slope)
        if not self._dense and self._last is not None and self._count >= self._stored.shape[1]:
            self._last = self._forgotten(*self._last)
        length = xp.sqrt(xp.vecdot(slope, slope))[:, None]
        unit = slope / (length + TINY)
        along = self._applied(unit)
        if self._last is not None:
            along = self._shrunk(unit, along, *self._last)
        self._last = unit, along
        # rounding may leave less than 0 where the metric has shrunk a gradient to nothing
        size = xp.sqrt(xp.clip(xp.vecdot(unit, along), 0, 1))[:, None]
        direction = along / (size + TINY)
        longest = xp.max(xp.abs(direction), axis=1)[:, None]
        wanted = (1 + OVER) * xp.clip(lack, 0, LARGEST_LACK)[:, None] / (size * length + TINY)
        reach = xp.minimum(wanted, cap / (longest + TINY))
        return xp.where((length > 0) & (size > 0) & xp.isfinite(reach), reach, full((1, 1), 0.0, reach)) * direction

    def _applied(self, g: Array) -> Array:
        """H g."""
        if self._dense:
            return (self._stored @ g[:, :, None])[:, :, 0]
        rows = self._stored[:, : self._count]  # all of them, once there are so many
        return g - ((rows @ g[:, :, None])[:, None, :, 0] @ rows)[:, 0, :]

    def _forgotten(self, unit: Array, along: Array) -> tuple[Array, Array]:
        """Drop the oldest row; the last unit gradient, and H of it after that."""
        row = self._stored[:, self._count % self._stored.shape[1]]
        along = along + namespace(unit).vecdot(row, unit)[:, None] * row
        row[...] = 0
        return unit, along

    def _shrunk(self, unit: Array, along: Array, unit_before: Array, along_before: Array) -> Array:
        """Shrink H along the difference of two unit gradients; H of the newer one after that."""
        xp = namespace(unit)
        normal = along - along_before
        square = xp.vecdot(unit - unit_before, normal)[:, None]
        usable = square > SAME
        scale = (SHRINK / xp.where(usable, square, xp.ones_like(square))) ** 0.5
        row = xp.where(usable, scale, 0 * scale) * normal
        if self._dense:
            self._stored -= row[:, :, None] * row[:, None, :]
        else:
            self._stored[:, self._count % self._stored.shape[1]] = row
        self._count += 1
        return along - xp.vecdot(row, unit)[:, None] * row
