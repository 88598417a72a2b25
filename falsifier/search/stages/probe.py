"""Probe: centres, corners and uniform points through the reference, one at a time, before anything is converted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from falsifier.arrays import Rng, as_like
from falsifier.search.pace import Work
from falsifier.search.run import Run
from falsifier.search.starts import interleaved, place

if TYPE_CHECKING:
    from falsifier.problem import Problem


_CORNERS = 2  # that are looked at after the centres


class Probe:
    """The centre of every target while time lasts, then corners and uniform points in turn.

    Ends early where a sample is slow: a batch will be cheaper, or gradients will be needed anyway. Where the points of
    a lattice are enumerated next, they do better than uniform ones.
    """

    name = "probe"
    growth = 1.0

    def __init__(self, points: int = 400, seconds: float = 0.12, centres: int = 100) -> None:
        self.slice = seconds
        self._points = points
        self._centres = centres
        self._done = False

    def applies(self, run: Run) -> bool:
        """Once, at the start."""
        return not self._done

    def turn(self, run: Run) -> None:
        """Points in growing groups, each judged against every target whose box holds it."""
        self._done = True
        problem = run.problems.single
        if run.groups.count > 1:
            self._centres_of(run, problem)
            return
        aims = np.arange(problem.t)
        rng: Rng | None = None  # made at the first draw: an easy instance needs none
        centres = aims[: self._centres]
        made, drawn, block = 0, 0, 1
        unit = np.zeros((0, problem.f), problem.like.dtype)
        shared = problem.box(as_like(aims[:1], problem.like)) if problem.shared_box else None
        first = centres[:1] if shared is not None else centres
        aim = np.concatenate([first, np.resize(aims, max(0, self._points - first.size))])
        while made < aim.size and run.going(1):
            if not len(unit):  # drawn in blocks of fixed sizes: how many fit the time changes no point
                if drawn > first.size + _CORNERS and _enumerated_next(run):
                    return
                index = np.arange(drawn, min(drawn + block, aim.size)) - first.size
                unit = np.full((index.size, problem.f), 0.5, problem.like.dtype)
                if index[-1] >= 0:
                    rng = rng or run.rng.spawn()
                    unit[index >= 0] = np.asarray(interleaved(rng, index.size, problem.f, problem.like))[index >= 0]
                unit[index == 0], unit[index == 1] = 0, 1  # the lowest and the highest corner
                drawn, block = drawn + index.size, 2 * block
            group = min(len(unit), run.pace.fits(Work.SINGLE, max(run.left(), 0), 1))
            part = aim[made : made + group]
            lower, upper = shared or problem.box(as_like(part, problem.like))
            points, unit = place(unit[:group], lower, upper), unit[group:]
            run.screen(problem, points)
            made += group

    def _centres_of(self, run: Run, problem: Problem) -> None:
        """Of many groups the centres alone: what they leave open is worth a batch."""
        boxes = np.arange(len(problem.in_box))
        made = 0
        while made < boxes.size and run.going(1):
            part = boxes[made : made + min(self._points, run.pace.fits(Work.SINGLE, max(run.left(), 0), 1))]
            lower, upper = problem.box(as_like(problem.in_box[part, 0], problem.like))
            half = np.full((part.size, problem.f), 0.5, problem.like.dtype)
            run.screen_boxes(problem, place(half, lower, upper), part)
            made += part.size


def _enumerated_next(run: Run) -> bool:
    from falsifier.search.stages.enumerate import enumerable  # not for an instance that falls before

    return enumerable(run)
