"""Signed climbs: lanes step along the sign of their momentum, by distances that shrink a hundredfold.

    momentum <- beta * momentum + gradient / |gradient|_1
    x        <- clip(x + distance * width * sign(momentum))

Every lane weighs the atoms of its target by weights of its own, drawn anew for each climb and unequal by orders of
magnitude, until the last part of the climb. A point that satisfies all atoms does so under any weights, while most
local optima of a conjunction belong to one weighting: lanes that weigh alike end in the same few of them. Momentum
carries lanes along ridges, where atoms conflict and plain steps zigzag, and over narrow moats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, Rng, as_like, full, is_numpy, namespace
from falsifier.objective import Reduction
from falsifier.search.ascent import Climb
from falsifier.search.pace import Work
from falsifier.search.run import Run, bounds, host_margin
from falsifier.search.windows import straight_through

if TYPE_CHECKING:
    from falsifier.problem import Problem

_FIRST, _LAST = 0.05, 0.0005  # step of every coordinate, in widths
_BETA = 0.75
_WEIGHED = 0.7  # share of the climb in which atoms are weighed
_INEQUALITY = 3.0  # power of the exponential draws that weights are
_TINY = 1e-30


def signed_climb(
    run: Run, problem: Problem, target: NDArray[np.int64], x: Array, steps: int, rng: Rng, reduction: Reduction
) -> Climb:
    """Up to `steps` steps from `x` `[b, f]`; fewer where the turn or the search ends. The door sees hits at once."""
    xp = namespace(x)
    lanes = x.shape[0]
    aim = as_like(target, problem.like)
    lower, upper = bounds(problem, aim)
    width = upper - lower
    weights = drawn_weights(rng, lanes, problem.k, x) if problem.k > 1 else None
    window = straight_through(problem, lanes)
    if np.isfinite(run.candidates.refused).any():
        reduction = Reduction.HARD  # the sum of what atoms lack is flat beyond the bound
    best, best_margin = x + 0 * x, full((lanes,), -float("inf"), x)
    momentum = 0 * x
    look = 1 if is_numpy(x) else 8  # steps between looks at margins: each is a host synchronisation
    for step in range(steps):
        if not run.going(lanes, Work.GRADIENT):
            break
        scale = weights if step < _WEIGHED * steps else None
        with run.timed(Work.GRADIENT, lanes):
            evaluation, _, gradient = problem.ascend(x, aim, reduction, scale, window)
        margin = evaluation.margin
        better = margin > best_margin
        best_margin = xp.where(better, margin, best_margin)
        best = xp.where(better[:, None], x, best)
        if step % look == 0 and float(margin.max()) >= 0:
            run.offer(problem, x, target, host_margin(margin))
            if not run.worthwhile(target):
                break
        norm = xp.sum(xp.abs(gradient), axis=1)[:, None]
        usable = xp.isfinite(norm)
        momentum = _BETA * momentum + xp.where(usable, gradient, 0 * x) / xp.where(usable, norm + _TINY, 0 * norm + 1)
        distance = _FIRST * (_LAST / _FIRST) ** (step / max(1, steps - 1))
        x = xp.clip(x + xp.sign(momentum) * (distance * width), lower, upper)
    run.offer(problem, best, target, host_margin(best_margin))
    return Climb(best, host_margin(best_margin))


def drawn_weights(rng: Rng, lanes: int, atoms: int, like: Array) -> Array:
    """Weights `[b, k]`, positive, with mean 1 in every lane: powers of exponential draws."""
    xp = namespace(like)
    draw = (-xp.log(1 - rng.uniform((lanes, atoms), like) + _TINY)) ** _INEQUALITY + 1e-6
    return draw * (atoms / xp.sum(draw, axis=1)[:, None])
