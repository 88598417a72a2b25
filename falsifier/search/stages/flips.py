"""Flips: children of good points with groups of coordinates moved to bounds, mirrored, redrawn or shifted by one.

Where there are gradients half of the groups are chosen by them: the coordinates with most to gain, moved to the bound
that the gradient points to. Equal margins are accepted, so that plateaus of discrete networks are crossed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from falsifier.arrays import Array, arange, as_like, beside, full, namespace
from falsifier.objective import Reduction
from falsifier.search.allocation import shared, spread
from falsifier.search.pace import Work, work_of
from falsifier.search.run import Run, host_margin
from falsifier.search.starts import lattice, mixed, place
from falsifier.search.windows import straight_through

if TYPE_CHECKING:
    from falsifier.problem import Problem

_PARENTS = 8
_CHILDREN = 32  # of a parent and generation, at most
_FEWEST = 8  # of a parent and generation, where time allows
_LEAST = 3  # evaluations of a generation
_GENERATIONS = 4  # that a turn should see
_PATIENCE = 30  # generations without gain before a parent is replaced
_NOISE = 1.0  # spread of the logarithm by which gains are blurred, so that no two groups are the same


class Flips:
    """Parents, each kept or replaced by its best child, generation by generation."""

    name = "flips"
    growth = 1.6

    def __init__(self, seconds: float = 0.1) -> None:
        self.slice = seconds
        self._parents: Array | None = None
        self._target = np.zeros(0, dtype=np.int64)
        self._margin = np.zeros(0)
        self._age = np.zeros(0, dtype=np.int64)
        self._generations = 0

    def applies(self, run: Run) -> bool:
        """Always."""
        return True

    def turn(self, run: Run) -> None:
        """Generations until the time is up."""
        problem = run.batched
        if not run.holds(_LEAST, Work.GRADIENT if problem.differentiable else work_of(problem)):
            return
        most = shared(run, _PARENTS, _CHILDREN * problem.f)
        fits = run.pace.fits(work_of(problem), max(run.left(), 0.0) / _GENERATIONS, most * _FEWEST)
        count = int(np.clip(fits // _FEWEST, 1, most))
        each = int(np.clip(fits // count, 2, _CHILDREN))
        parents = None if self._parents is None else beside(self._parents, problem.like)
        if parents is None or len(self._target) != count:
            self._target = np.zeros(count, dtype=np.int64)
            self._age = np.full(count, _PATIENCE)
            self._margin = np.full(count, -np.inf)
            parents = full((count, problem.f), 0.0, problem.like)
        while run.going((each + 1) * count):
            self._age = np.where(run.ledger.open[self._target], self._age, _PATIENCE)
            parents = self._without_stale(run, problem, parents)
            parents = self._generation(run, problem, parents, each)
            self._generations += 1
        self._parents = parents

    def _without_stale(self, run: Run, problem: Problem, parents: Array) -> Array:
        """Old parents make room: every other one for the best point of a target, the others for fresh points."""
        old = self._age >= _PATIENCE
        if not old.any():
            return parents
        count = old.size
        self._target = np.where(old, spread(run, count), self._target)
        lower, upper = problem.box(as_like(self._target, problem.like))
        fresh = place(mixed(run.rng, count, problem.f, problem.like), lower, upper)
        xp = namespace(fresh)
        known, best = run.ledger.known(self._target)
        if best is not None:
            near = as_like(known & (np.arange(count) % 2 == 0), problem.like)
            fresh = xp.where(near[:, None], as_like(best, problem.like, problem.dtype), fresh)
        self._margin = np.where(old, -np.inf, self._margin)
        self._age = np.where(old, 0, self._age)
        return xp.where(as_like(old, problem.like)[:, None], fresh, parents)

    def _generation(self, run: Run, problem: Problem, parents: Array, each: int) -> Array:
        """The parents of the next generation."""
        count = self._target.size
        rows = np.repeat(np.arange(count), each)
        target = self._target[rows]
        row, aim = as_like(rows, problem.like), as_like(target, problem.like)
        lower, upper = problem.box(aim)
        children = _changed(run, parents[row], lower, upper)
        if problem.differentiable:
            toward, chosen = self._guided(run, problem, parents, row)
            xp = namespace(children)
            guided = xp.where(chosen, xp.where(toward[row] > 0, upper, lower), parents[row])
            half = as_like(np.arange(rows.size) % 2 == 0, problem.like)[:, None]
            children = xp.where(half, guided, children)
        if run.integer.any():
            children = lattice(children, lower, upper, as_like(run.integer, problem.like))
        margin = run.evaluate(problem, children, aim).reshape(count, each)
        best = np.argmax(margin, axis=1)
        value = margin[np.arange(count), best]
        accept = value >= self._margin
        chosen = children[as_like(np.arange(count) * each + best, problem.like)]
        self._age = np.where(value > self._margin, 0, self._age + 1)
        self._margin = np.maximum(self._margin, value)
        return namespace(chosen).where(as_like(accept, problem.like)[:, None], chosen, parents)

    def _guided(self, run: Run, problem: Problem, parents: Array, row: Array) -> tuple[Array, Array]:
        """The parents' gradients `[p, f]`, and which coordinates `[b, f]` of each child follow them."""
        target = as_like(self._target, problem.like)
        window = straight_through(problem, self._target.size, first=self._generations)
        with run.timed(Work.GRADIENT, self._target.size):
            evaluation, _, gradient = problem.ascend(parents, target, Reduction.HINGE, window=window)
            margin = host_margin(evaluation.margin)
        self._margin = np.maximum(self._margin, margin)
        xp = namespace(gradient)
        lower, upper = problem.box(target)
        room = xp.where(gradient > 0, upper - parents, parents - lower)
        gain = xp.where(xp.isfinite(gradient), xp.abs(gradient) * room, xp.zeros_like(gradient))
        ranked = xp.sort(gain, axis=1)
        lanes, f = row.shape[0], problem.f
        share = xp.exp(-run.rng.uniform((lanes, 1), gain) * float(np.log(max(f, 2))))  # log-uniform from one to all
        position = xp.astype((1 - share) * (f - 1), row.dtype)[:, 0]
        threshold = ranked[row, position][:, None]
        blur = xp.exp(_NOISE * run.rng.normal((lanes, f), gain))
        return gradient, (gain[row] * blur >= threshold) & (gain[row] > 0)


def _changed(run: Run, parents: Array, lower: Array, upper: Array) -> Array:
    """One child `[b, f]` per row: a random share of coordinates changed in one of four ways."""
    rng = run.rng
    xp = namespace(parents)
    lanes, f = parents.shape
    group = xp.exp(rng.uniform((lanes, 1), parents) * float(np.log(max(2.0, f / 3))))  # log-uniform from 1 to f / 3
    chosen = rng.uniform((lanes, f), parents) < group / f
    only = rng.integers(0, f, (lanes, 1), parents)
    chosen = chosen | (only == arange(f, parents)[None, :])  # never none
    corner = rng.uniform((lanes, f), parents) < 0.5
    one = xp.ones_like(parents)
    bound = xp.where(corner, lower, upper)
    mirrored = lower + (upper - parents)
    redrawn = lower + rng.uniform((lanes, f), parents) * (upper - lower)
    shifted = xp.where(as_like(run.integer, parents), parents + xp.where(corner, -one, one), redrawn)
    way = rng.integers(0, 4, (lanes, 1), parents)
    moved = xp.where(way == 0, bound, xp.where(way == 1, mirrored, xp.where(way == 2, redrawn, shifted)))
    return xp.where(chosen, xp.clip(moved, lower, upper), parents)
