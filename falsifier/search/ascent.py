"""Ascent: a short local climb of many lanes at once along the gradient of their violated atoms.

In the unit cube of its box a lane steps by `length * gradient`. Polyak lanes aim at the level where the score reaches
zero: length = (1 + over) * |score| / |gradient|^2, which in a linear piece lands just beyond the bound; a cap on the
longest coordinate, shrinking step by step, keeps them inside what the gradient knows about. Decaying lanes step a fixed
distance that shrinks geometrically. The score is the least atom, or the sum of what all violated atoms lack, which half
of the lanes weigh by how much each lacks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, Rng, as_like, full, is_numpy, namespace
from falsifier.objective import Reduction
from falsifier.search.pace import Work
from falsifier.search.run import Run, bounds, host_margin
from falsifier.search.windows import straight_through

if TYPE_CHECKING:
    from falsifier.problem import Problem

_OVER = 0.1
_LARGEST_LACK = 1e30
_SMALLEST = 1e-15  # largest slope of a lane that is followed; its inverse bounds from above, squares fit in float32
_CAPS = (0.1, 0.3)  # of the longest coordinate of a Polyak step, in widths
_CAP_DECAY = 0.97
_FIRST, _LAST = 0.05, 0.002  # root mean square coordinate of decaying steps, in widths
_DECAYING = 0.25  # share of lanes


@dataclass
class Climb:
    """Best points `[b, f]` of the lanes and their margins `[b]` (host)."""

    best: Array
    margin: NDArray[np.float64]


def climb(
    run: Run, problem: Problem, target: NDArray[np.int64], x: Array, steps: int, rng: Rng, reduction: Reduction
) -> Climb:
    """Up to `steps` steps from `x` `[b, f]`; fewer where the turn or the search ends. The door sees hits at once."""
    xp = namespace(x)
    lanes = x.shape[0]
    aim = as_like(target, problem.like)
    lower, upper = bounds(problem, aim)
    width = upper - lower
    rules = _Rules.drawn(rng, x, problem.k > 1 and reduction is Reduction.HINGE)
    window = straight_through(problem, lanes)
    level = _level(run, problem, target)
    if level is not None:
        reduction = Reduction.HARD  # the sum of what atoms lack is flat beyond the bound
    best, best_margin = x + 0 * x, full((lanes,), -float("inf"), x)
    scale: Array | None = None
    look = 1 if is_numpy(x) else 8  # steps between looks at margins: each is a host synchronisation
    for step in range(steps):
        if not run.going(lanes, Work.GRADIENT):
            break
        with run.timed(Work.GRADIENT, lanes):
            evaluation, score, gradient = problem.ascend(x, aim, reduction, scale, window)
        margin = evaluation.margin
        better = margin > best_margin
        best_margin = xp.where(better, margin, best_margin)
        best = _kept(better, x, best)
        if step % look == 0 and float(margin.max()) >= 0:
            run.offer(problem, x, target, host_margin(margin))
            if run.found is not None:
                break
        lack = -score if level is None else xp.maximum(level - score, 0 * score)
        slope = gradient * width
        length = rules.length(slope, lack, step, steps)
        if not bool(rules.usable.all()):
            slope = xp.where(rules.usable, slope, 0 * x)
        slope *= length
        slope *= width
        slope += x
        x = xp.clip(slope, lower, upper)
        scale = rules.scale(evaluation.slack)
    run.offer(problem, best, target, host_margin(best_margin))
    return Climb(best, host_margin(best_margin))


@dataclass
class _Rules:
    """How each lane steps: cap `[b, 1]` of Polyak lanes, which lanes decay `[b, 1]`, which weigh atoms `[b, 1]`."""

    cap: Array
    decaying: Array
    weighted: Array | None
    usable: Array  # `[b, 1]`: lanes whose last gradient could be followed
    _one: Array  # `[b, 1]`

    @classmethod
    def drawn(cls, rng: Rng, like: Array, weigh: bool) -> _Rules:
        """Rules drawn for the lanes of `like` `[b, f]`."""
        shape = (like.shape[0], 1)
        xp = namespace(like)
        first = rng.uniform(shape, like) < 0.5
        cap = xp.where(first, full(shape, _CAPS[0], like), full(shape, _CAPS[1], like))
        weighted = rng.uniform(shape, like) < 0.5
        decaying = rng.uniform(shape, like) < _DECAYING
        return cls(cap, decaying, weighted if weigh else None, first | ~first, full(shape, 1.0, like))

    def length(self, slope: Array, lack: Array, step: int, steps: int) -> Array:
        """The factor `[b, 1]` of the slope `[b, f]` in a lane's step; 0 where the slope cannot be followed."""
        xp = namespace(slope)
        longest = xp.maximum(xp.max(slope, axis=1), -xp.min(slope, axis=1))
        self.usable = ((longest > _SMALLEST) & (longest < 1 / _SMALLEST) & (lack >= 0))[:, None]  # False for NaN
        square = xp.where(self.usable, xp.vecdot(slope, slope)[:, None], self._one)
        cap = self.cap * (_CAP_DECAY**step) / xp.where(self.usable, longest[:, None], self._one)
        length = xp.minimum((1 + _OVER) * lack[:, None] / square, cap)
        distance = _FIRST * (_LAST / _FIRST) ** (step / max(1, steps - 1))
        length = xp.where(self.decaying, distance * slope.shape[1] ** 0.5 / xp.sqrt(square), length)
        return xp.where(self.usable, length, 0 * self._one)

    def scale(self, slack: Array) -> Array | None:
        """Scales `[b, k]` of the next step: what an atom lacks, with mean 1, in weighing lanes; ones elsewhere."""
        if self.weighted is None:
            return None
        xp = namespace(slack)
        lack = xp.clip(-slack, 0, _LARGEST_LACK)
        total = xp.sum(lack, axis=1)[:, None] + 1 / _LARGEST_LACK
        # An atom that holds now keeps a little weight: it may be violated after the step.
        return xp.where(self.weighted, lack * (slack.shape[1] / total) + 0.01, self._one)


def _level(run: Run, problem: Problem, target: NDArray[np.int64]) -> Array | None:
    """Margins `[b]` to aim at where the door refused some: twice the greatest refused; None where it refused none."""
    refused = run.candidates.refused
    if not np.isfinite(refused).any():
        return None
    return as_like(np.where(np.isfinite(refused), 2 * refused, 0.0)[target], problem.like, problem.dtype)


def _kept(mask: Array, new: Array, old: Array) -> Array:
    """Rows of `new` where `mask` `[b]`, of `old` elsewhere; may write into `old`."""
    if is_numpy(old):
        np.copyto(old, new, where=mask[:, None])
        return old
    return namespace(old).where(mask[:, None], new, old)
