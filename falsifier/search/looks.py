"""Looks: when a loop of steps reads results. Reading makes a device wait, so there it is every eighth step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from falsifier.arrays import Array, is_numpy
from falsifier.search.pace import Work
from falsifier.search.run import Run

if TYPE_CHECKING:
    from falsifier.problem import Problem

_DEVICE = 8  # steps from look to look


class Looks:
    """A context around the evaluation of each step; tells the pace how long evaluations took, from look to look."""

    def __init__(self, run: Run, problem: Problem, work: Work, lanes: int) -> None:
        self._pace, self._work, self._lanes = run.pace, work, lanes
        self._every = 1 if is_numpy(problem.like) else _DEVICE
        self._steps = 0
        self._start = 0.0

    def __enter__(self) -> None:
        if self._steps == 0 or self._every == 1:
            self._start = self._pace.budget.clock()

    def __exit__(self, *_: object) -> None:
        self._steps += 1
        self._pace.count(self._work, self._lanes)
        if self._every == 1:
            self._learn()

    def satisfied(self, margin: Array) -> bool:
        """Whether a lane's margin `[b]` is 0 or more, as far as this step looks."""
        if self._every > 1 and self._steps < self._every:
            return False
        hit = float(margin.max()) >= 0
        if self._every > 1:
            self._learn()
        return hit

    def _learn(self) -> None:
        self._pace.learn(self._work, self._lanes * self._steps, self._pace.budget.clock() - self._start)
        self._steps = 0
