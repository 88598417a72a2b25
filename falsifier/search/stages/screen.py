"""Screen: the centre and the ends of every target's box, all targets at once, where each has a box of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import as_like, full
from falsifier.search.pace import work_of
from falsifier.search.run import Run
from falsifier.search.starts import place, uniform, vertices

if TYPE_CHECKING:
    from falsifier.problem import Problem


class Screen:
    """Passes over all targets: centres, lower ends, upper ends, then corners and uniform points in turn."""

    name = "screen"
    growth = 1.5

    def __init__(self, seconds: float = 0.3, targets: int = 2) -> None:
        self.slice = seconds
        self._targets = targets
        self._pass = 0
        self._next = 0

    def applies(self, run: Run) -> bool:
        """Where there are several boxes."""
        problem = run.problems.single
        return problem.t >= self._targets and not problem.shared_box

    def turn(self, run: Run) -> None:
        """Go on where the last turn ended: the first makes the passes with fixed points, later ones a pass each."""
        problem = run.batched
        passes = 1 if self._pass >= 3 else 3
        while run.going():
            places = _open(run, problem)
            if self._next >= places.size:
                self._pass += 1
                self._next = 0
                passes -= 1
                if passes <= 0:
                    return
            most = max(1, (1 << 22) // problem.f)
            size = min(run.pace.fits(work_of(problem), max(run.left(), 0.0), 64), most)
            boxes = places[self._next : self._next + size]
            aims = boxes if problem.targets.box is None else problem.in_box[boxes, 0]
            self._next += aims.size
            target = as_like(aims, problem.like)
            lower, upper = problem.box(target)
            shape = (aims.size, problem.f)
            if self._pass < 3:
                unit = full(shape, (0.5, 0.0, 1.0)[self._pass], problem.like)
            else:
                draw = uniform if self._pass % 2 else vertices
                unit = draw(run.rng, aims.size, problem.f, problem.like)
            if problem.targets.box is None:
                run.evaluate(problem, place(unit, lower, upper), target)
            else:
                run.screen_boxes(problem, place(unit, lower, upper), boxes)


def _open(run: Run, problem: Problem) -> NDArray[np.int64]:
    """Boxes that some open target has: numbers of targets where each has its own."""
    if problem.targets.box is None:
        return np.flatnonzero(run.ledger.open)
    aims = problem.in_box
    return np.flatnonzero(((aims >= 0) & run.ledger.open[aims]).any(axis=1))
