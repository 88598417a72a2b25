"""Reach: one gradient per target at its best point or centre, and the corner that the gradient points to.

Ranks the targets by how far a first-order step over the whole box would take them, and solves affine networks outright.
"""

from __future__ import annotations

import numpy as np

from falsifier.arrays import as_like, namespace, to_host
from falsifier.objective import Reduction
from falsifier.search.pace import Work
from falsifier.search.run import Run, host_margin
from falsifier.search.starts import place


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
        return not self._done and run.problems.batched.differentiable

    def turn(self, run: Run) -> None:
        """A gradient run and an evaluation of its corners."""
        self._done = True
        problem = run.problems.batched
        lanes = min(self._targets, run.pace.fits(Work.GRADIENT, max(run.left(), 0.0), 2 * self._targets) // 2)
        aims = run.ledger.ranked()[: max(1, lanes)]
        if not run.going(2 * aims.size):
            return
        target = as_like(aims, problem.like)
        lower, upper = problem.box(target)
        x = place(as_like(np.full((aims.size, problem.f), 0.5), problem.like, problem.dtype), lower, upper)
        xp = namespace(x)
        with run.timed(Work.GRADIENT, aims.size):
            evaluation, _, gradient = problem.ascend(x, target, Reduction.HARD)
            margin = host_margin(evaluation.margin)
        run.offer(problem, x, aims, margin)
        if run.over():
            return
        slope = xp.where(xp.isfinite(gradient), gradient, xp.zeros_like(gradient))
        run.ledger.reach[aims] = margin + to_host(xp.sum(xp.abs(slope) * (upper - lower), axis=1)) / 2
        corner = xp.where(slope > 0, upper, xp.where(slope < 0, lower, x))
        run.evaluate(problem, corner, target)
