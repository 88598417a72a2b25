"""Last bits: where a margin is within rounding of 0, the neighbours a few representable values away decide.

Engines differ in rounding from the reference, constants of a query from their nearest representable values, and an
equality on an output is met by few of the points that nearly meet it. Children of such points are judged one sample at
a time on the reference itself, and the nearest ones are shown to the door whatever their margin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, as_like, namespace, step, to_float64, to_host
from falsifier.search.pace import work_of
from falsifier.search.run import Run

if TYPE_CHECKING:
    from falsifier.problem import Problem

_FLOOR = 32.0  # units of rounding of the largest number in a comparison: what may hide a satisfied point
_SHOWN = 2.0  # the same, for points that are shown to the door: one representable value
_CLOSE = 1e-3  # margins that are looked at closer
_ASKED = 24  # points shown to the door per turn, at most
_TARGETS = 4
_CHILDREN = 16  # of a parent and generation
_FARTHEST = 5.0  # logarithm (base 2) of the longest move of a coordinate, in representable values


class LastBits:
    """Generations of children a few bits away from the best points of targets within rounding of satisfaction."""

    name = "last-bits"
    growth = 2.0

    def __init__(self, seconds: float = 0.15) -> None:
        self.slice = seconds

    def applies(self, run: Run) -> bool:
        """Where a target's best margin is small against anything that is compared; the turn looks closer."""
        return bool(self._close(run).size)

    @staticmethod
    def _close(run: Run) -> NDArray[np.int64]:
        """The most promising targets whose best margin may be within rounding of 0."""
        aims = run.ledger.ranked()[:_TARGETS]
        return np.asarray(aims[np.abs(run.ledger.margin[aims]) < _CLOSE], dtype=np.int64)

    def turn(self, run: Run) -> None:
        """Generations until the time is up."""
        problem = run.problems.single
        aims = self._close(run)
        known, best = run.ledger.known(aims)
        if best is None or not known.any() or not run.going(int(known.sum())):
            return
        aims = aims[known]
        parents = as_like(best[known], problem.like, problem.dtype)
        evaluation, margin = run.judge(problem, parents, aims)
        unit = self._rounding(problem, evaluation.outputs, aims)
        near = margin > -_FLOOR * unit
        aims, parents, margin, unit = aims[near], parents[as_like(near, problem.like)], margin[near], unit[near]
        asked = self._show(run, problem, parents, aims, margin, unit, _ASKED)
        if not run.holds(aims.size * _CHILDREN, work_of(problem)):
            return
        while aims.size and run.going(aims.size * _CHILDREN, work_of(problem)):
            target = np.repeat(aims, _CHILDREN)
            children = self._moved(run, problem, parents, target)
            values = run.evaluate(problem, children, target)
            asked += self._show(run, problem, children, target, values, np.repeat(unit, _CHILDREN), _ASKED - asked)
            table = values.reshape(aims.size, _CHILDREN)
            best_child = np.argmax(table, axis=1)
            value = table[np.arange(aims.size), best_child]
            taken = value >= margin  # equal ones too: rounding makes plateaus
            chosen = children[as_like(np.arange(aims.size) * _CHILDREN + best_child, problem.like)]
            parents = namespace(chosen).where(as_like(taken, problem.like)[:, None], chosen, parents)
            margin = np.where(taken, value, margin)

    @staticmethod
    def _rounding(problem: Problem, outputs: Array, aims: NDArray[np.int64]) -> NDArray[np.float64]:
        """Half the distance `[b]` of representable values about the largest output `[b, m]` or bound of each target."""
        output = np.abs(to_host(outputs)).max(axis=1, initial=0)
        bound = np.abs(to_float64(problem.targets.bound)[aims]).max(axis=1, initial=0)
        largest = np.where(np.isfinite(output), np.maximum(output, bound), bound)
        return np.asarray(largest * float(np.finfo(problem.dtype).eps) / 2 + float(np.finfo(problem.dtype).tiny))

    @staticmethod
    def _moved(run: Run, problem: Problem, parents: Array, target: NDArray[np.int64]) -> Array:
        """One child `[b, f]` per row: a share of coordinates moved by 1 to 32 representable values."""
        rng = run.rng
        count, f = target.size, problem.f
        parent = parents[as_like(np.repeat(np.arange(count // _CHILDREN), _CHILDREN), problem.like)]
        like = np.empty(0)
        share = rng.uniform((count, 1), like) ** 3
        some = rng.uniform((count, f), like) < share
        some[np.arange(count), rng.integers(0, f, (count,), like)] = True  # never none
        length = np.floor(2 ** (_FARTHEST * rng.uniform((count, f), like)))
        sign = np.where(rng.uniform((count, f), like) < 0.5, -1, 1)
        moves = np.where(some, sign * length, 0).astype(np.int64)
        lower, upper = problem.box(as_like(target, problem.like))
        return namespace(parent).clip(step(parent, as_like(moves, problem.like)), lower, upper)

    @staticmethod
    def _show(
        run: Run,
        problem: Problem,
        points: Array,
        aims: NDArray[np.int64],
        margin: NDArray[np.float64],
        unit: NDArray[np.float64],
        most: int,
    ) -> int:
        """Show the door the points nearest to 0; how many were shown. Points with margin >= 0 were offered before."""
        lanes = np.flatnonzero((margin < 0) & (margin >= -_SHOWN * unit))
        lanes = lanes[np.argsort(-margin[lanes], kind="stable")][: max(most, 0)]
        for lane in lanes.tolist():
            if run.over():
                break
            point = to_host(problem.embed(points[as_like(np.array([lane]), problem.like)]))[0]
            if run.ask(int(aims[lane]), point):
                break
        return int(lanes.size)
