"""Flips: children of the best points with groups of coordinates moved to bounds, mirrored, redrawn or shifted by one.

Equal margins are accepted, so that plateaus of discrete networks are crossed. Needs no gradient.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, as_like, namespace
from falsifier.search.allocation import spread
from falsifier.search.run import Run, work_of
from falsifier.search.starts import lattice, mixed, place

_PARENTS = 8
_CHILDREN = 256  # of one generation, over all parents
_PATIENCE = 30  # generations without gain before a parent is replaced


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

    def applies(self, run: Run) -> bool:
        """Always."""
        return True

    def turn(self, run: Run) -> None:
        """Generations until the time is up."""
        problem = run.batched
        work = work_of(run, problem)
        if self._parents is not None and not run.ledger.open[self._target].all():
            self._parents = None
        if self._parents is None:
            self._target = spread(run, _PARENTS)
            self._age = np.full(_PARENTS, _PATIENCE)
            self._margin = np.full(_PARENTS, -np.inf)
            self._parents = as_like(np.zeros((_PARENTS, problem.f)), problem.like, problem.dtype)
        while run.going():
            self._replace_stale(run)
            size = run.pace.fits(work, max(run.left(), 0.0), _CHILDREN // 4)
            each = max(1, min(size, _CHILDREN) // _PARENTS)
            if not run.going(each * _PARENTS):
                return
            self._generation(run, self._parents, each)

    def _replace_stale(self, run: Run) -> None:
        """Old parents make room: every other one for the best point of a target, the others for fresh points."""
        old = self._age >= _PATIENCE
        if not old.any():
            return
        problem = run.batched
        self._target = np.where(old, spread(run, _PARENTS), self._target)
        lower, upper = problem.box(as_like(self._target, problem.like))
        fresh = place(mixed(run.rng, _PARENTS, problem.f, problem.like), lower, upper)
        known, best = run.ledger.known(self._target)
        if best is not None:
            near = as_like(known & (np.arange(_PARENTS) % 2 == 0), problem.like)
            fresh = namespace(fresh).where(near[:, None], as_like(best, problem.like, problem.dtype), fresh)
        mask = as_like(old, problem.like)[:, None]
        self._parents = namespace(fresh).where(mask, fresh, self._parents)
        self._margin = np.where(old, -np.inf, self._margin)
        self._age = np.where(old, 0, self._age)

    def _generation(self, run: Run, parents: Array, each: int) -> None:
        problem = run.batched
        rows = np.repeat(np.arange(_PARENTS), each)
        target = self._target[rows]
        lower, upper = problem.box(as_like(target, problem.like))
        children = self._mutate(run, parents[as_like(rows, problem.like)], lower, upper)
        margin = run.evaluate(problem, children, as_like(target, problem.like)).reshape(_PARENTS, each)
        best = np.argmax(margin, axis=1)
        value = margin[np.arange(_PARENTS), best]
        accept = value >= self._margin
        chosen = children[as_like(np.arange(_PARENTS) * each + best, problem.like)]
        xp = namespace(chosen)
        self._parents = xp.where(as_like(accept, problem.like)[:, None], chosen, parents)
        self._age = np.where(value > self._margin, 0, self._age + 1)
        self._margin = np.maximum(self._margin, value)

    def _mutate(self, run: Run, parents: Array, lower: Array, upper: Array) -> Array:
        """One child `[b, f]` per row: a random share of coordinates changed in one of four ways."""
        problem, rng = run.batched, run.rng
        xp = namespace(parents)
        lanes, f = parents.shape
        largest = np.log(max(2.0, f / 3))
        group = xp.exp(rng.uniform((lanes, 1), parents) * largest)  # 1 to f / 3 coordinates, log-uniformly
        chosen = rng.uniform((lanes, f), parents) < group / f
        only = as_like(np.asarray(rng.integers(0, f, (lanes,), np.empty(0))), problem.like)
        chosen = chosen | (only[:, None] == xp.arange(f, device=parents.device)[None, :])
        corner = rng.uniform((lanes, f), parents) < 0.5
        bound = xp.where(corner, lower, upper)
        mirrored = xp.clip(lower + (upper - parents), lower, upper)
        redrawn = lower + rng.uniform((lanes, f), parents) * (upper - lower)
        one = xp.ones_like(parents)
        shifted = parents + xp.where(corner, -one, one)
        way = rng.integers(0, 4, (lanes, 1), parents)
        moved = xp.where(way == 0, bound, xp.where(way == 1, mirrored, redrawn))
        integer: NDArray[np.bool_] = run.integer
        moved = xp.where((way == 3) & as_like(integer, problem.like), shifted, moved)
        moved = xp.clip(moved, lower, upper)
        if integer.any():
            moved = lattice(moved, lower, upper, as_like(integer, problem.like))
        return xp.where(chosen, moved, parents)
