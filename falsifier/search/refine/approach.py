"""Approaching: the witness nearest to a point.

Rounds of several kinds in turn. Lanes that project the point onto the half-space that the least atom's gradient
describes, again and again, as the fast adaptive boundary attack does (Croce and Hein 2020), but from anywhere: exact at
once where the network is linear; where a target has several atoms, also onto those of all of them. And climbs inside of
balls around the point that are smaller than the distance known, a ladder of radii in one batch: what is found inside is
nearer whatever the network is like between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, Rng, as_like, copy_rows, namespace, to_float64
from falsifier.objective import Reduction
from falsifier.search.allocation import spread
from falsifier.search.pace import Work, work_of
from falsifier.search.refine.geometry import Ball, nearest_in_half_space
from falsifier.search.refine.nearer import Nearer
from falsifier.search.refine.rounds import fitted, may
from falsifier.search.refine.together import approach_together, lanes_together
from falsifier.search.refine.within import climb_within
from falsifier.search.run import Run, host_margin
from falsifier.search.starts import mixed, place
from falsifier.search.windows import straight_through

if TYPE_CHECKING:
    from falsifier.problem import Problem

_LANES, _MOST_LANES = 16, 64
_STEPS, _MOST_STEPS = 16, 200
_OVER = (1e-6, 1e-3, 0.02, 0.1)  # of what an atom lacks, or has beyond its bound, that a projection goes too far
_HOME = (1.0, 1.0, 0.3, 0.1)  # share of the projection of the reference in a step, of the lane's own the rest
_RADII = (0.999, 0.99, 0.97, 0.93, 0.85, 0.7, 0.5, 0.25)  # of the distance known
_OUTWARDS = 64  # steps from the reference to the distance known
_MODELS = 4  # of all atoms together, in a round of those
_CHILDREN = 128


class Approach:
    """Rounds of projections, of one atom or of all, and of climbs in balls."""

    name = "approach"
    growth = 1.5

    def __init__(self, nearer: Nearer, seconds: float = 0.1) -> None:
        self.slice = seconds
        self._nearer = nearer
        self._rounds = 0

    def applies(self, run: Run) -> bool:
        """Always: without gradients lanes make drawn moves in their balls."""
        return True

    def turn(self, run: Run) -> None:
        """Rounds until the time is up."""
        problem = run.batched
        work = Work.GRADIENT if problem.differentiable else work_of(problem)
        while run.going(1, work):
            rng = run.rng.spawn()
            lanes, steps = (
                min(_LANES << (self._rounds // 4), _MOST_LANES),
                min(_STEPS << (self._rounds // 2), _MOST_STEPS),
            )
            lanes, steps = fitted(run, lanes, steps, work)
            few = min(lanes_together(problem), lanes)
            if problem.differentiable and self._rounds % 8 == 1:
                self._walk_out(run, problem, lanes)
            elif few and self._rounds % 3 == 1:
                self._project_together(run, problem, rng, few)
            elif problem.differentiable and self._rounds % 2 == 0:
                self._project(run, problem, rng, lanes, steps)
            else:
                self._in_balls(run, problem, rng, lanes, steps)
            self._rounds += 1
            run.rounds += 1

    def _project(self, run: Run, problem: Problem, rng: Rng, lanes: int, steps: int) -> None:
        metric = self._nearer.metric
        target, x = self._starts(run, problem, rng, lanes)
        aim = as_like(target, problem.like)
        xp = namespace(x)
        there = metric.free(problem) + 0 * x
        lower, upper = problem.box(aim)
        index = np.arange(lanes)
        over, home = (
            as_like(np.array(values)[index % len(values)], problem.like, problem.dtype) for values in (_OVER, _HOME)
        )
        scale, window = problem.emphasis(aim), straight_through(problem, lanes, repeat=len(_OVER))
        best, depth = x, np.full(lanes, -np.inf)
        nearest = np.full(lanes, np.inf)
        for _ in range(steps):
            if not may(run, lanes, Work.GRADIENT):
                break
            with run.timed(Work.GRADIENT, lanes):
                evaluation, score, gradient = problem.ascend(x, aim, Reduction.HARD, scale, window)
            value = host_margin(problem.depth(evaluation.slack, aim))
            distance = np.where(value >= 0, metric.of_lanes(problem, x), np.inf)
            better = distance < nearest
            best = copy_rows(as_like(better, problem.like), x, best + 0 * best)
            nearest, depth = np.where(better, distance, nearest), np.where(better, value, depth)
            need = xp.sum(gradient * x, axis=1) - score + over * xp.abs(score)
            usable = xp.isfinite(need)
            need = xp.where(usable, need, 0 * need)
            towards = nearest_in_half_space(there, gradient, need, lower, upper, metric.norm)
            own = nearest_in_half_space(x, gradient, need, lower, upper, metric.norm)
            x = xp.where(usable[:, None], own + home[:, None] * (towards - own), x)
            x = xp.clip(x, lower, upper)
        self._nearer.take(run, problem, best, target, depth)

    def _walk_out(self, run: Run, problem: Problem, lanes: int) -> None:
        """Short steps from the reference up the gradient, or its signs, until the first lane is satisfied: plain, and
        robust where the gradient's size means little.
        """
        metric, xp = self._nearer.metric, problem.xp
        target = spread(run, lanes)
        target[:1] = self._nearer.target
        aim = as_like(target, problem.like)
        lower, upper = problem.box(aim)
        x = xp.clip(metric.free(problem) + 0 * lower, lower, upper)
        scale, window = problem.emphasis(aim), straight_through(problem, lanes)
        length, depth = self._nearer.distance / _OUTWARDS, np.full(lanes, -np.inf)
        for _ in range(_OUTWARDS):
            if not may(run, lanes, Work.GRADIENT):
                break
            with run.timed(Work.GRADIENT, lanes):
                evaluation, _, gradient = problem.ascend(x, aim, Reduction.HARD, scale, window)
            depth = host_margin(problem.depth(evaluation.slack, aim))
            if depth.max() >= 0:
                break
            if metric.norm == "linf":
                step = xp.sign(gradient)
            else:
                size = xp.vecdot(gradient, gradient)[:, None] ** 0.5
                step = gradient / xp.where(size > 0, size, size + 1)
            x = xp.clip(x + length * xp.where(xp.isfinite(step), step, 0 * step), lower, upper)
        self._nearer.take(run, problem, x, target, depth)

    def _project_together(self, run: Run, problem: Problem, rng: Rng, lanes: int) -> None:
        nearer = self._nearer
        lanes = max(1, lanes // 4) if nearer.metric.norm == "linf" else lanes  # each is a ladder of radii there
        target, x = self._starts(run, problem, rng, lanes)
        over = np.array(_OVER)[np.arange(lanes) % len(_OVER)]
        found = approach_together(run, problem, target, x, nearer.metric, nearer.distance, over, _MODELS)
        nearer.take(run, problem, found.best, target, found.margin)

    def _in_balls(self, run: Run, problem: Problem, rng: Rng, lanes: int, steps: int) -> None:
        metric = self._nearer.metric
        target, x = self._starts(run, problem, rng, lanes)
        aim = as_like(target, problem.like)
        xp = namespace(x)
        there = metric.free(problem)
        lower, upper = problem.box(aim)
        least = metric.of_lanes(problem, xp.clip(there + 0 * x, lower, upper))  # nothing in the box is nearer
        share = np.array(_RADII)[np.arange(lanes) % len(_RADII)]
        radius = as_like((least + share * (self._nearer.distance - least))[:, None], problem.like, problem.dtype)
        lower, upper = xp.maximum(lower, there - radius), xp.minimum(upper, there + radius)
        upper = xp.maximum(lower, upper)  # of a box that misses the ball
        ball = None if metric.norm == "linf" else Ball(there, radius)
        found = climb_within(run, problem, target, x, lower, upper, steps, rng, ball=ball)
        self._nearer.take(run, problem, found.best, target, found.margin)

    def _starts(self, run: Run, problem: Problem, rng: Rng, lanes: int) -> tuple[NDArray[np.int64], Array]:
        """A third of the lanes begin at the reference, a third at the nearest witness or another target's best point,
        a third anywhere.
        """
        kind = np.arange(lanes) // 4 % 3
        target = np.where(kind == 1, self._nearer.target, spread(run, lanes))
        target[:2] = self._nearer.target
        lower, upper = problem.box(as_like(target, problem.like))
        x = place(mixed(rng, lanes, problem.f, problem.like), lower, upper)
        there = namespace(x).clip(self._nearer.metric.free(problem) + 0 * x, lower, upper)
        x = copy_rows(as_like(kind == 0, problem.like), there, x)
        x = copy_rows(as_like((kind == 1) & (target == self._nearer.target), problem.like), self._own(problem, x), x)
        return target, x

    def _own(self, problem: Problem, x: Array) -> Array:
        return self._nearer.free(problem) + 0 * x


class Coordinates:
    """Moves single inputs of the nearest witness, then the best of them together, towards the reference."""

    name = "coordinates"
    growth = 1.3

    def __init__(self, nearer: Nearer, seconds: float = 0.1) -> None:
        self.slice = seconds
        self._nearer = nearer
        self._last = np.inf  # the distance that the last turn left

    def applies(self, run: Run) -> bool:
        """Once for each witness that others have found."""
        return self._nearer.distance < self._last

    def turn(self, run: Run) -> None:
        """Passes while they gain."""
        problem = run.batched
        while self._nearer.distance < self._last and run.going(2 * _CHILDREN, work_of(problem)):
            self._last = self._nearer.distance
            self._pass(run, problem, run.rng.spawn())

    def _pass(self, run: Run, problem: Problem, rng: Rng) -> None:
        xp = namespace(problem.like)
        here, there = self._nearer.free(problem), self._nearer.metric.free(problem)
        lower, upper = problem.box(as_like(np.array([self._nearer.target]), problem.like))
        there = xp.clip(there, lower, upper)
        gap = np.abs(to_float64(here - there)[0])
        moved = np.flatnonzero(gap > 0)
        if not moved.size:
            return
        draw = np.asarray(rng.uniform((moved.size,), np.empty(0)))
        chosen = moved[np.argsort(-gap[moved] * (0.5 + draw), kind="stable")][: _CHILDREN // 2]
        chosen, share_of = np.repeat(chosen, 2), np.tile([1.0, 0.25], chosen.size)
        children = here + xp.zeros_like(here[:1]) * as_like(np.zeros((chosen.size, 1)), problem.like, problem.dtype)
        row, column = as_like(np.arange(chosen.size), problem.like), as_like(chosen, problem.like)
        share = as_like(share_of, problem.like, problem.dtype)
        target_of = here[0, column] + share * (there[0, column] - here[0, column])
        children[row, column] = target_of
        target = np.full(chosen.size, self._nearer.target)
        depth = self._nearer.depth_of(run, problem, children, target)
        self._nearer.take(run, problem, children, target, depth)
        order = np.argsort(-depth, kind="stable")
        good = order[depth[order] >= 0]
        if good.size < 2 or not run.going(good.size, work_of(problem)):
            return
        together = here + 0 * children[: good.size]
        for place_, lane in enumerate(good.tolist()):  # the first, the first two, ...
            together[place_:, chosen[lane]] = target_of[lane]
        target = target[: good.size]
        self._nearer.take(run, problem, together, target, self._nearer.depth_of(run, problem, together, target))
