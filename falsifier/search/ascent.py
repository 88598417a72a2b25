"""Ascent: a short local climb of many lanes at once along the gradient of their violated atoms.

In the unit cube of its box a lane steps by `length * gradient`. Polyak lanes aim at the level where the score reaches
zero: length = (1 + over) * |score| / |gradient|^2, which in a linear piece lands just beyond the bound; a cap on the
longest coordinate, shrinking step by step, keeps them inside what the gradient knows about. Decaying lanes step a
fixed distance that shrinks geometrically. Half of the lanes follow the least atom alone, the others the sum of what
all violated atoms lack, plain or weighted by how much each lacks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, Rng, as_like, full, is_numpy, namespace
from falsifier.objective import Reduction
from falsifier.search.pace import Work
from falsifier.search.run import Run, host_margin
from falsifier.search.windows import straight_through

if TYPE_CHECKING:
    from falsifier.problem import Problem

_OVER = 0.1
_CAPS = (0.1, 0.3)  # of the longest coordinate of a Polyak step, in widths
_CAP_DECAY = 0.97
_FIRST, _LAST = 0.05, 0.002  # root mean square coordinate of decaying steps, in widths
_DECAYING = 0.25  # share of lanes


@dataclass
class Climb:
    """Best points `[b, f]` of the lanes and their margins `[b]` (host)."""

    best: Array
    margin: NDArray[np.float64]


def climb(run: Run, problem: Problem, target: NDArray[np.int64], x: Array, steps: int, rng: Rng) -> Climb:
    """Up to `steps` steps from `x` `[b, f]`; fewer where the turn or the search ends. Hits go to the door at once.
    """
    xp = namespace(x)
    lanes, f = x.shape
    aim = as_like(target, problem.like)
    lower, upper = problem.box(aim)
    width = upper - lower
    ones, zeros = full((lanes, 1), 1.0, x), full((lanes, 1), 0.0, x)
    conjunction = problem.k > 1
    hard = lanes // 2 if conjunction else 0  # these lanes come first
    deep = bool(np.isfinite(run.candidates.refused).any())
    if deep and not conjunction:
        hard = lanes
    cap = rng.integers(0, len(_CAPS), (lanes, 1), x)
    cap = xp.where(cap == 0, full((lanes, 1), _CAPS[0], x), full((lanes, 1), _CAPS[1], x))
    decaying = rng.uniform((lanes, 1), x) < _DECAYING
    weighted = (rng.uniform((lanes, 1), x) < 0.5) if conjunction else None
    level = as_like(
        np.where(np.isfinite(run.candidates.refused), 2 * run.candidates.refused, 0.0)[target], x, problem.dtype
    )
    window = straight_through(problem, lanes)
    best, best_margin = x, full((lanes,), -float("inf"), x)
    scale: Array | None = None
    distance = _FIRST
    look = 1 if is_numpy(x) else 8
    for step in range(steps):
        if not run.going(lanes):
            break
        with run.timed(Work.GRADIENT, lanes):
            margin, slack, score, gradient = _gradient(problem, x, aim, hard, scale, window)
        better = margin > best_margin
        best_margin = xp.where(better, margin, best_margin)
        best = xp.where(better[:, None], x, best)
        if step % look == 0 and float(best_margin.max()) >= 0:
            run.offer(problem, x, target, host_margin(margin))
            if run.found is not None:
                break
        slope = gradient * width
        longest = xp.max(xp.abs(slope), axis=1)[:, None]
        usable = xp.isfinite(longest) & (longest > 0)  # else the lane stays: no gradient, or none that can be followed
        longest = xp.where(usable, longest, ones)
        slope = xp.where(usable, slope / longest, zeros)
        square = xp.where(usable, xp.sum(slope * slope, axis=1)[:, None], ones)
        lack = (xp.maximum(level - score, zeros[:, 0]) if deep else -score)[:, None]
        lack = xp.where(xp.isfinite(lack), lack, longest)
        length = xp.minimum((1 + _OVER) * lack / (square * longest), cap)
        length = xp.where(decaying, distance * f**0.5 / xp.sqrt(square), length)
        x = xp.clip(x + length * slope * width, lower, upper)
        cap = cap * _CAP_DECAY
        distance *= (_LAST / _FIRST) ** (1 / max(1, steps - 1))
        if weighted is not None:
            scale = _weights(slack, weighted)
    run.offer(problem, best, target, host_margin(best_margin))
    return Climb(best, host_margin(best_margin))


def _gradient(
    problem: Problem, x: Array, aim: Array, hard: int, scale: Array | None, window: Array | None
) -> tuple[Array, Array, Array, Array]:
    """Margin `[b]`, slack `[b, k]`, score `[b]` and gradient `[b, f]`: the first `hard` lanes by their least atom."""
    parts = []
    for part, reduction in ((slice(0, hard), Reduction.HARD), (slice(hard, x.shape[0]), Reduction.HINGE)):
        if part.stop > part.start:
            own = None if scale is None or reduction is Reduction.HARD else scale[part]
            seen = None if window is None else window[part]
            evaluation, score, gradient = problem.ascend(x[part], aim[part], reduction, own, seen)
            parts.append((evaluation.margin, evaluation.slack, score, gradient))
    if len(parts) == 1:
        return parts[0]
    margin, slack, score, gradient = (namespace(x).concat(list(pair), axis=0) for pair in zip(*parts, strict=True))
    return margin, slack, score, gradient


def _weights(slack: Array, weighted: Array) -> Array:
    """Scales `[b, k]` of the next step: what each atom lacks, with mean 1, in `weighted` lanes; ones in the others."""
    xp = namespace(slack)
    lack = xp.where(xp.isfinite(slack) & (slack < 0), -slack, xp.zeros_like(slack))
    total = xp.sum(lack, axis=1)[:, None]
    ones = xp.ones_like(slack)
    # An atom that holds now keeps a little weight: it may be violated after the step.
    relative = lack * slack.shape[1] / xp.where(total > 0, total, ones[:, :1]) + 0.01
    return xp.where(weighted & (total > 0), relative, ones)
