"""What the stages that approach a point share: the nearest witness so far, and how candidates get to the door."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, as_like, namespace, put_rows, to_host
from falsifier.search.pace import work_of
from falsifier.search.refine.ask import Ask
from falsifier.search.refine.geometry import Metric
from falsifier.search.refine.rounds import may
from falsifier.search.refine.vain import Vain
from falsifier.search.run import Run, host_margin

if TYPE_CHECKING:
    from falsifier.problem import Problem

_SHOWN = 4  # points of a round that the door sees
_WALKED = 8  # points of a round that are moved towards the reference
_PLACES = 16  # that a walk tries at once
_WALKS = 3  # each in the gap that the last one left
_GAIN = 1e-4  # of the distance: what counts as a gain where the end of the search is in question
_CLOSER = 1e-7  # of the distance: what is worth asking the door


class Nearer:
    """The nearest witness as the door has it, and when to stop."""

    def __init__(self, ask: Ask, metric: Metric, point: NDArray[Any], target: int, distance: float) -> None:
        """A first witness `[n]`, its target and its distance."""
        self._ask, self.metric = ask, metric
        self.point, self.target, self.distance = point, target, distance
        self._floor = 0.0  # margins that are worth showing: doubled by a refusal, halved by a confirmation
        self._vain = Vain()

    def free(self, problem: Problem) -> Array:
        """The nearest witness's free part `[1, f]`."""
        return problem.domain.restrict(as_like(self.point[None], problem.like, problem.dtype))

    def take(
        self, run: Run, problem: Problem, points: Array, target: NDArray[np.int64], depth: NDArray[np.float64]
    ) -> None:
        """Take in points `[b, f]` of targets with their depths `[b]`: satisfied ones are moved along the line to the
        reference while they stay satisfied, and the nearest shown to the door.
        """
        run.note(problem, points, target, depth)
        good = np.flatnonzero(depth >= self._floor)
        if good.size:
            distance = self.metric.of_lanes(problem, points[as_like(good, problem.like)])
            chosen = good[np.argsort(distance, kind="stable")][:_WALKED]
            some, aims = points[as_like(chosen, problem.like)], target[chosen]
            some = self._walked(run, problem, some, aims)
            self._show(run, problem, some, aims)
        if self._vain.enough(run) or self.distance <= self.metric.rounding(problem):
            run.close()

    def _walked(self, run: Run, problem: Problem, points: Array, target: NDArray[np.int64]) -> Array:
        """Satisfied points `[b, f]`, each as near to the reference on the line to it as is satisfied."""
        xp = namespace(points)
        there = self.metric.free(problem)
        lanes = points.shape[0]
        low, high = np.zeros(lanes), np.ones(lanes)  # shares of the way: not known to be satisfied, and satisfied
        best, aims = points, np.repeat(target, _PLACES)
        for _ in range(_WALKS):
            if not may(run, lanes * _PLACES, work_of(problem)):
                break
            share = low[:, None] + (high - low)[:, None] * np.arange(_PLACES) / _PLACES
            part = as_like(share.reshape(-1, 1), problem.like, problem.dtype)
            row = as_like(np.repeat(np.arange(lanes), _PLACES), problem.like)
            trial = there + part * (points[row] - there)
            lower, upper = problem.box(as_like(aims, problem.like))
            trial = xp.clip(trial, lower, upper)
            value = self.depth_of(run, problem, trial, aims).reshape(lanes, _PLACES)
            good = value >= self._floor
            first = np.where(good.any(axis=1), np.argmax(good, axis=1), _PLACES)
            found = np.flatnonzero(first < _PLACES)
            if found.size:
                chosen = as_like(found * _PLACES + first[found], problem.like)
                best = put_rows(best, as_like(found, problem.like), trial[chosen])
            edge = np.concatenate([share, high[:, None]], axis=1)
            high = edge[np.arange(lanes), first]
            low = edge[np.arange(lanes), np.maximum(first - 1, 0)]
        return best

    @staticmethod
    def depth_of(run: Run, problem: Problem, points: Array, target: NDArray[np.int64]) -> NDArray[np.float64]:
        """The depths `[b]`, on the host, of points `[b, f]` of targets `[b]`."""
        aim = as_like(target, problem.like)
        with run.timed(work_of(problem), points.shape[0]):
            evaluation = problem.evaluate(points, aim)
        return host_margin(problem.depth(evaluation.slack, aim))

    def _show(self, run: Run, problem: Problem, points: Array, target: NDArray[np.int64]) -> None:
        distance = self.metric.of_lanes(problem, points)
        order = np.argsort(distance, kind="stable")[:_SHOWN]
        for lane in order.tolist():
            if run.over() or not distance[lane] < self.distance * (1 - _CLOSER):
                return
            point = to_host(problem.embed(points[as_like(np.array([lane]), problem.like)]))[0]
            confirmed = self._ask(point, int(target[lane]))
            if confirmed is None:
                self._floor = max(2 * self._floor, float(np.finfo(problem.dtype).eps))
                continue
            self._floor /= 2
            now = self.metric.of_full(confirmed.point)
            if now < self.distance:
                if now < self.distance * (1 - _GAIN):
                    self._vain.gained(run)
                self.point, self.target, self.distance = confirmed.point, int(target[lane]), now
