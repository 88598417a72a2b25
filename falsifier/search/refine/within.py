"""Climbs of lanes that may move in boxes of their own: how deep can a point be inside of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, Rng, as_like, clip_into, copy_rows, copy_where, full, namespace
from falsifier.objective import Reduction
from falsifier.search.ascent import Climb
from falsifier.search.lanes import Lanes, Schedule
from falsifier.search.looks import Looks
from falsifier.search.pace import Work, work_of
from falsifier.search.refine.geometry import Ball
from falsifier.search.refine.rounds import may
from falsifier.search.run import Run, host_margin
from falsifier.search.windows import straight_through

if TYPE_CHECKING:
    from falsifier.problem import Problem

SCHEDULES = (
    Schedule("leap", 1.25, 0.02, 0.75),
    Schedule("auto", 0.5, 0.5, 0.5, adaptive=True),
    Schedule("steady", 0.06, 0.002, 0.0),
    Schedule("fine", 0.01, 0.0001, 0.5),
)
_KICKS = (1e-4, 1.0)  # deviations of drawn moves in widths of the lane's box, log-uniform between
_FIRST_CHECK = 0.22  # of the steps, before lanes that gain too little halve theirs


def climb_within(
    run: Run,
    problem: Problem,
    target: NDArray[np.int64],
    x: Array,
    lower: Array,
    upper: Array,
    steps: int,
    rng: Rng,
    *,
    enough: float | None = None,
    ball: Ball | None = None,
) -> Climb:
    """The deepest points (`Values.depth`) of up to `steps` steps from `x` `[b, f]` in boxes lower, upper `[b, f]`.

    `ball` keeps them inside of it, too, with steps along the gradient instead of its signs. Ends early, once this share
    of the lanes is satisfied, where `enough` is given. Without gradients lanes make drawn moves. The door is not asked.
    """
    walk = _climb if problem.differentiable else _drift
    x = problem.settled(x + namespace(x).zeros_like(x), as_like(target, problem.like))
    x = clip_into(x, lower, upper)
    if ball is not None:
        x = ball.inside(x, lower, upper)
    return walk(run, problem, target, x, lower, upper, steps, rng, enough, ball)


def _climb(
    run: Run,
    problem: Problem,
    target: NDArray[np.int64],
    x: Array,
    lower: Array,
    upper: Array,
    steps: int,
    rng: Rng,
    enough: float | None,
    ball: Ball | None,
) -> Climb:
    """Along the gradient of the least atom."""
    count = x.shape[0]
    lanes = Lanes.at(problem, target, x, list(SCHEDULES), steps)
    lanes.lower, lanes.upper, lanes.width = lower, upper, upper - lower
    aim = as_like(target, problem.like)
    scale, window = problem.emphasis(aim), straight_through(problem, count, repeat=len(SCHEDULES))
    looks = Looks(run, problem, Work.GRADIENT, count)
    check = interval = max(2, round(_FIRST_CHECK * steps))
    for step in range(1, steps + 1):
        if not may(run, count, Work.GRADIENT):
            break
        with looks:
            evaluation, _, gradient = problem.ascend(lanes.x, aim, Reduction.HARD, scale, window)
        lanes.take(problem.depth(evaluation.slack, aim))
        if looks.satisfied(evaluation.margin) and _done(lanes.best_margin, enough):
            break
        if ball is None:
            lanes.move(gradient)
        else:
            lanes.x = ball.stepped(lanes.x, gradient, lanes.alpha, lower, upper)
            lanes.alpha *= lanes.decay
        if step == check:
            interval = max(2, interval - max(1, round(0.03 * steps)))
            check += interval
            lanes.checkpoint()
    return Climb(lanes.best, host_margin(lanes.best_margin))


def _drift(
    run: Run,
    problem: Problem,
    target: NDArray[np.int64],
    x: Array,
    lower: Array,
    upper: Array,
    steps: int,
    rng: Rng,
    enough: float | None,
    ball: Ball | None,
) -> Climb:
    """By drawn moves of some coordinates, kept where they are no worse."""
    xp, count = namespace(x), x.shape[0]
    aim = as_like(target, problem.like)
    best, value = x, full((count,), -float("inf"), x)
    for step in range(steps):
        if not may(run, count, work_of(problem)):
            break
        trial = best + xp.zeros_like(best)
        if step:
            size = _KICKS[0] * (_KICKS[1] / _KICKS[0]) ** rng.uniform((count, 1), x)
            some = rng.uniform(tuple(x.shape), x) < rng.uniform((count, 1), x) ** 2
            moved = trial + size * (upper - lower) * rng.normal(tuple(x.shape), x)
            trial = clip_into(copy_where(some, moved, trial), lower, upper)
            trial = trial if ball is None else ball.inside(trial, lower, upper)
        with run.timed(work_of(problem), count):
            evaluation = problem.evaluate(trial, aim)
        depth = problem.depth(evaluation.slack, aim)
        best = copy_rows(depth >= value, trial, best)
        value = xp.maximum(depth, value)
        if _done(value, enough):
            break
    return Climb(best, host_margin(value))


def _done(value: Array, enough: float | None) -> bool:
    if enough is None:
        return False
    return float(np.mean(host_margin(value) >= 0)) >= enough
