"""Gradient lanes: restarts x targets in one batch, several step schedules side by side, rounds that grow.

A round that a turn does not finish goes on in the next turn.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from falsifier.arrays import Array, as_like, namespace
from falsifier.errors import EngineError
from falsifier.network.walk import Rule
from falsifier.objective import Reduction
from falsifier.search.allocation import shared, spread
from falsifier.search.lanes import Lanes, Schedule
from falsifier.search.looks import Looks
from falsifier.search.pace import Work
from falsifier.search.run import Run, host_margin
from falsifier.search.starts import mixed, place, uniform, vertices
from falsifier.search.strides import take_steps
from falsifier.search.windows import straight_through

if TYPE_CHECKING:
    from falsifier.problem import Problem
    from falsifier.walks import Walk

VERTEX_FIRST = Schedule("vertex-first", 1.25, 0.04, 0.75)
AUTO = Schedule("auto", 0.5, 0.5, 0.5, adaptive=True)
STEADY = Schedule("steady", 0.06, 0.004, 0.0)
FINE = Schedule("fine", 0.02, 0.0005, 0.5)

_FIRST_LANES, _FIRST_STEPS = 16, 12
_MOST_LANES, _MOST_STEPS = 256, 1000
_FEWEST_STEPS = 8
_LEAST = 4  # steps of one lane that a turn lasts for, where they are slow
_LONGEST = 0.25  # of the time left that it may take then


class Gradient:
    """Rounds of gradient ascent on the margin."""

    name = "gradient"
    growth = 1.6

    def __init__(
        self, seconds: float = 0.1, schedules: tuple[Schedule, ...] = (VERTEX_FIRST, AUTO, STEADY, FINE)
    ) -> None:
        self.slice = seconds
        self._schedules = list(schedules)
        self._round: _Round | None = None
        self._rounds = 0

    def applies(self, run: Run) -> bool:
        """Where the engine has gradients."""
        return run.batched.differentiable

    def turn(self, run: Run) -> None:
        """Go on with the round at work, then plan the next, until the time is up."""
        problem = run.batched
        if self._round is not None and self._round.problem is not problem:  # planned for another engine
            self._round = None
        each = run.pace.expected(Work.GRADIENT)
        if each is not None and not run.pace.nominal:  # where steps are slow these are the ones that pay
            run.until = max(run.until, run.pace.now() + min(_LEAST * each, _LONGEST * run.budget.remaining()))
        while run.going():
            if self._round is None:
                self._round = self._plan(run, problem)
                run.rounds += 1
            if not self._round.work(run):
                return
            self._round = None

    def _plan(self, run: Run, problem: Problem) -> _Round:
        """Lanes and steps of the next round: twice the last one's work, as far as half of the time left allows."""
        grown = self._rounds
        self._rounds += 1
        lanes = shared(run, min(_FIRST_LANES << ((grown + 1) // 2), _MOST_LANES), problem.f)
        steps = min(_FIRST_STEPS << (grown // 2), _MOST_STEPS)
        each = run.pace.expected(Work.GRADIENT) or 0.0
        left = max(min(run.budget.remaining(), 1e6), 0.0) if not run.pace.nominal else math.inf
        affordable = 0.5 * left / max(each, 1e-9)
        if lanes * steps > affordable:
            lanes = int(np.clip(affordable / steps, 1, lanes))
            steps = int(np.clip(affordable / lanes, _FEWEST_STEPS, steps))
        lanes = max(1, min(lanes, run.room()))
        return _Round(run, problem, lanes, steps, self._schedules, grown)


class _Round:
    """One round: lanes, their starts and the steps left."""

    def __init__(
        self, run: Run, problem: Problem, lanes: int, steps: int, schedules: list[Schedule], number: int
    ) -> None:
        self.problem = problem
        self.steps = steps
        self.done = 0
        target = spread(run, lanes)
        x = self._starts(run, target, number)
        self.lanes = Lanes.at(problem, target, x, schedules if lanes > 1 else schedules[:1], steps)
        self.window = straight_through(problem, lanes, repeat=len(schedules))
        self.index = as_like(target, problem.like)
        self.reduction = Reduction.HARD if number % 2 else Reduction.HINGE
        self.next_check = max(2, round(0.22 * steps))
        self.interval = self.next_check
        self.walk = problem.walks.begin(
            Rule.SIGNED, self.reduction, target, x, steps, self.lanes.state(), self.lanes.given(), self.window
        )

    def _starts(self, run: Run, target: np.ndarray, number: int) -> Array:
        """Start kinds in turn: centre, uniform, corner, mixture, and the target's best point in later rounds."""
        problem = self.problem
        lanes, f = target.size, problem.f
        rng = run.rng.spawn()
        lower, upper = problem.box(as_like(target, problem.like))
        kinds = np.arange(lanes) // 4 % 4
        unit = mixed(rng, lanes, f, problem.like)
        unit = _where(as_like(kinds == 0, problem.like), uniform(rng, lanes, f, problem.like), unit)
        unit = _where(as_like(kinds == 1, problem.like), vertices(rng, lanes, f, problem.like), unit)
        if number == 0:
            unit = _where(as_like(np.arange(lanes) < 4, problem.like), 0.0 * unit + 0.5, unit)
        x = place(unit, lower, upper)
        known, best = run.ledger.known(target)
        if best is not None:
            few = lanes < 4 and number % 2 == 0  # no room for kinds side by side: go on where others have come to
            near = known & ((kinds == 3) | few)
            x = _where(as_like(near, problem.like), as_like(best, problem.like, problem.dtype), x)
        return x

    def work(self, run: Run) -> bool:
        """Steps until the round is done (True) or the turn is over (False)."""
        try:
            done = self._step_by_step(run) if self.walk is None else self._walked(run, self.walk)
        except (EngineError, MemoryError):
            if self.walk is None:
                raise
            self.walk = None  # by hand only the lanes are lost that the engine fails on
            done = self._step_by_step(run)
        self._report(run)
        return done

    def _walked(self, run: Run, walk: Walk) -> bool:
        """Many steps at once, up to the next checkpoint."""
        lanes = self.lanes
        while self.done < self.steps:
            if not take_steps(run, walk, lanes.target, min(self.next_check, self.steps) - self.done):
                return False
            lanes.walked(walk.state, walk.done - self.done)
            self.done = walk.done
            margin = walk.margin()
            if margin.max() >= 0:
                run.offer(self.problem, lanes.best, lanes.target, margin)
                if run.width and not run.worthwhile(lanes.target):
                    break
            if self.done == self.next_check:
                self._check()
                walk.state.update(lanes.state())
        return True

    def _step_by_step(self, run: Run) -> bool:
        lanes, problem = self.lanes, self.problem
        count = lanes.target.size
        looks = Looks(run, problem, Work.GRADIENT, count)
        while self.done < self.steps:
            if not run.going(count, Work.GRADIENT):
                return False
            with looks:
                evaluation, _, gradient = problem.ascend(lanes.x, self.index, self.reduction, window=self.window)
            lanes.take(evaluation.margin)
            self.done += 1
            if looks.satisfied(evaluation.margin):
                run.offer(problem, lanes.x, lanes.target, host_margin(evaluation.margin))
                if run.width and not run.worthwhile(lanes.target):
                    break
            lanes.move(gradient)
            if self.done == self.next_check:
                self._check()
        return True

    def _check(self) -> None:
        self.interval = max(2, self.interval - max(1, round(0.03 * self.steps)))
        self.next_check += self.interval
        self.lanes.checkpoint()

    def _report(self, run: Run) -> None:
        """Tell the ledger the lanes' best points."""
        lanes = self.lanes
        run.offer(self.problem, lanes.best, lanes.target, host_margin(lanes.best_margin))


def _where(mask: Array, yes: Array, no: Array) -> Array:
    """Rows of `yes` where `mask` `[b]`, of `no` elsewhere."""

    return namespace(no).where(mask[:, None], yes, no)
