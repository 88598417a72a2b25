"""Strides: how many steps of a walk are made in one run, by the time and the evaluations that are left."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from falsifier.search.pace import Work
from falsifier.search.run import Run

if TYPE_CHECKING:
    from falsifier.walks import Walk


def take_steps(run: Run, walk: Walk, target: NDArray[np.int64], most: int) -> bool:
    """Make some steps of lanes with targets `[b]`, at most `most`; False where the stage may make none.

    The run ends early where a lane finds a better point that satisfies an open target. Raises as `Walk.go` does.
    """
    lanes, pace = walk.lanes, run.pace
    if not run.going(lanes, Work.GRADIENT):
        return False
    steps = min(most, walk.fits(run.budget.remaining()), run.room() // lanes)
    each = pace.seconds(Work.GRADIENT)
    if each is not None and math.isfinite(run.left()):
        # One less than fit: time that is counted in evaluations ends a turn at the same step, however steps are cut.
        steps = min(steps, math.ceil(run.left() / (each * lanes)) - 1)
    start = run.budget.clock()
    made = walk.go(max(1, steps), np.where(run.ledger.open[target], 0.0, np.inf))
    for _ in range(made):  # one by one: sums of floats depend on how they are cut
        pace.count(Work.GRADIENT, lanes)
    pace.learn(Work.GRADIENT, lanes * made, run.budget.clock() - start)
    return True
