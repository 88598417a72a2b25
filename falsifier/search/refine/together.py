"""Steps that look at all atoms of a lane together, through their first-order models (`planes`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, as_like, copy_rows, namespace, to_float64
from falsifier.search.ascent import Climb
from falsifier.search.pace import Work, work_of
from falsifier.search.refine.geometry import Metric
from falsifier.search.refine.planes import Floats, deepest_move, nearest_in_half_spaces
from falsifier.search.run import Run, host_margin

if TYPE_CHECKING:
    from falsifier.problem import Problem

_LANES = 8
_NUMBERS = 1 << 20  # in the slopes of all lanes
_ATOMS = 64
_STILL = 1e-6  # of the box's width: a step that leads nowhere
_SHRINK, _GROW = 0.3, 2.0  # of the share of the box in which a model is believed


def lanes_together(problem: Problem) -> int:
    """How many lanes such steps may have: 0 where one atom decides, where there is no gradient, or for too many."""
    if not problem.differentiable or not 1 < problem.k <= _ATOMS:
        return 0
    return min(_LANES, _NUMBERS // (problem.k * max(1, problem.f)))


class _Solving:
    """How long models took to solve: no other is begun for which the turn has no time."""

    def __init__(self, run: Run) -> None:
        self._run, self._seconds = run, 0.0

    def fits(self, evaluations: int) -> bool:
        return self._run.going(evaluations, Work.GRADIENT) and (
            self._run.pace.nominal or self._seconds < self._run.left()
        )

    def __enter__(self) -> None:
        self._start = self._run.budget.clock()

    def __exit__(self, *_: object) -> None:
        self._seconds = self._run.budget.clock() - self._start


def climb_together(
    run: Run, problem: Problem, target: NDArray[np.int64], x: Array, lower: Array, upper: Array, rounds: int
) -> Climb:
    """The deepest points of up to `rounds` models, from `x` `[b, f]` in boxes `[b, f]`. The door is not asked."""
    aim = as_like(target, problem.like)
    low, high = to_float64(lower), to_float64(upper)
    trust = np.full((len(target), 1), 1.0)
    best = namespace(x).clip(x, lower, upper)
    value, depth = np.full(len(target), -np.inf), np.full(len(target), -np.inf)
    solving = _Solving(run)
    for _ in range(rounds):
        if not solving.fits(len(target) * (problem.k + 2)):
            break
        slack, rows, value, depth = _models(run, problem, best, aim)
        here = to_float64(best)
        reach = trust * (high - low)
        with solving:
            move = deepest_move(slack, rows, np.maximum(low - here, -reach), np.minimum(high - here, reach))
        trial = namespace(x).clip(as_like(here + move, problem.like, problem.dtype), lower, upper)
        with run.timed(work_of(problem), len(target)):
            evaluation = problem.evaluate(trial, aim)
        after = _scaled(problem, evaluation.slack, aim)[0].min(axis=1)
        better = after > value
        best = copy_rows(as_like(better, problem.like), trial, best + 0 * best)
        depth = np.where(better, host_margin(problem.depth(evaluation.slack, aim)), depth)
        trust = np.where(better[:, None], np.minimum(1.0, _GROW * trust), _SHRINK * trust)
    return Climb(best, depth)


def approach_together(
    run: Run,
    problem: Problem,
    target: NDArray[np.int64],
    x: Array,
    metric: Metric,
    known: float,
    over: Floats,
    rounds: int,
) -> Climb:
    """The nearest satisfied points that up to `rounds` models from `x` `[b, f]` lead to; depth -infinity where a lane
    found none. over `[b]`: of its slack, how far an atom is to lie beyond its bound; known: a distance in hand.
    """
    aim = as_like(target, problem.like)
    lower, upper = problem.box(aim)
    low, high = to_float64(lower), to_float64(upper)
    base = to_float64(metric.free(problem)) + 0 * low
    best, depth, nearest = x, np.full(len(target), -np.inf), np.full(len(target), np.inf)
    solving = _Solving(run)
    for _ in range(rounds):
        if not solving.fits(len(target) * (problem.k + 2)):
            break
        slack, rows, _, here = _models(run, problem, x, aim)
        distance = np.where(here >= 0, metric.of_lanes(problem, x), np.inf)
        better = distance < nearest
        best = copy_rows(as_like(better, problem.like), x, best + 0 * best)
        nearest, depth = np.where(better, distance, nearest), np.where(better, here, depth)
        beyond = over[:, None] * np.where(np.isfinite(slack), np.abs(slack), 0.0)
        need = np.where(np.isfinite(slack), np.einsum("bkf,bf->bk", rows, to_float64(x)) - slack + beyond, -np.inf)
        with solving:
            there = nearest_in_half_spaces(base, rows, need, low, high, metric.norm, np.full(len(target), known))
        before, x = to_float64(x), namespace(x).clip(as_like(there, problem.like, problem.dtype), lower, upper)
        if np.abs(to_float64(x) - before).max() <= _STILL * np.abs(high - low).max():
            break
    return Climb(best, depth)


def _models(
    run: Run, problem: Problem, x: Array, aim: Array
) -> tuple[Floats, Floats, NDArray[np.float64], NDArray[np.float64]]:
    """Slacks `[b, k]` and slopes `[b, k, f]` at points, those of inputs alone emphasised; the least slack and the depth
    `[b]`.
    """
    with run.timed(Work.GRADIENT, x.shape[0] * (problem.k + 1)):
        evaluation, slopes = problem.slopes(x, aim)
    slack, scale = _scaled(problem, evaluation.slack, aim)
    rows = to_float64(slopes) * scale[:, :, None]
    rows = np.where(np.isfinite(rows), rows, 0.0)
    return slack, rows, slack.min(axis=1), host_margin(problem.depth(evaluation.slack, aim))


def _scaled(problem: Problem, slack: Array, aim: Array) -> tuple[Floats, Floats]:
    """Slacks `[b, k]` and what they were multiplied by; padding stays +infinity, NaN counts as very low."""
    host = to_float64(slack)
    emphasis = problem.emphasis(aim)
    scale = np.ones_like(host) if emphasis is None else to_float64(emphasis)
    return np.maximum(host * scale, -1e30), scale
