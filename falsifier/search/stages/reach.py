"""Reach: one gradient per target at its best point or centre, and the corner that the gradient points to.

Ranks the targets by how far a first-order step over the whole box would take them, and solves affine networks outright.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import as_like, namespace, to_host
from falsifier.objective import Reduction
from falsifier.search.allocation import nearest
from falsifier.search.pace import Work
from falsifier.search.run import Run, host_margin
from falsifier.search.starts import place
from falsifier.search.windows import WIDTHS, straight_through

if TYPE_CHECKING:
    from falsifier.problem import Problem

_NEAREST = 8  # targets that are tried before the others
_BLOCK = 1 << 22  # numbers in the points of one step


class Reach:
    """First-order reach of the nearest targets, up to `targets` of them."""

    name = "reach"
    growth = 1.0

    def __init__(self, seconds: float = 0.1, targets: int = 64) -> None:
        self.slice = seconds
        self._targets = targets
        self._done = False

    def applies(self, run: Run) -> bool:
        """Once, where there are gradients."""
        return not self._done and run.batched.differentiable

    def turn(self, run: Run) -> None:
        """A gradient run and an evaluation of its corners."""
        self._done = True
        problem = run.batched
        ranked = nearest(run, self._targets)
        done = 0
        while done < ranked.size and run.going(2, Work.GRADIENT):
            most = min(_NEAREST * run.width if done == 0 else ranked.size, max(1, _BLOCK // max(1, problem.f)))
            fits = run.pace.fits(Work.GRADIENT, max(run.left(), 0.0), 2 * ranked.size)
            aims = ranked[done : done + int(np.clip(fits // 2, 1, most))]
            done += aims.size
            for width in range(len(WIDTHS) if problem.stepped else 1):
                if run.going(2 * aims.size, Work.GRADIENT):
                    self._step(run, problem, aims, width)

    def _step(self, run: Run, problem: Problem, aims: NDArray[np.int64], width: int) -> None:
        target = as_like(aims, problem.like)
        lower, upper = problem.box(target)
        x = place(as_like(np.full((aims.size, problem.f), 0.5), problem.like, problem.dtype), lower, upper)
        xp = namespace(x)
        window = straight_through(problem, aims.size, first=width, repeat=aims.size)
        with run.timed(Work.GRADIENT, aims.size):
            evaluation, score, gradient = problem.ascend(x, target, Reduction.HINGE, window=window)
            margin = host_margin(evaluation.margin)
        run.offer(problem, x, aims, margin)
        if run.over():
            return
        slope = xp.where(xp.isfinite(gradient), gradient, xp.zeros_like(gradient))
        if width == 0:
            run.ledger.reach[aims] = to_host(score) + to_host(xp.sum(xp.abs(slope) * (upper - lower), axis=1)) / 2
        corner = xp.where(slope > 0, upper, xp.where(slope < 0, lower, x))
        run.evaluate(problem, corner, target)
