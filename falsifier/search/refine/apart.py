"""Apart: witnesses that lie some distance from all that are known, in widths of the box (l_inf).

A lane is cut off from every known witness along one coordinate each: what is left of its box lies at the distance
asked for, whatever the lane does in it. Which coordinates is drawn anew in every round; those that the least atom
depends on little are preferred in half of the lanes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, Rng, as_like, namespace, to_float64, to_host
from falsifier.objective import Reduction
from falsifier.search.allocation import spread
from falsifier.search.pace import Work, work_of
from falsifier.search.refine.ask import Ask
from falsifier.search.refine.rounds import fitted, may
from falsifier.search.refine.within import climb_within
from falsifier.search.run import Run
from falsifier.search.starts import mixed, place

if TYPE_CHECKING:
    from falsifier.problem import Problem

_LANES, _MOST_LANES = 32, 256
_STEPS, _MOST_STEPS = 12, 300
_ENOUGH = 0.5  # of the lanes satisfied: the door is asked before the others go on
_SLACK = 1e-5  # of the distance, that cuts keep beside it for rounding in every other round: a box may lack the room
_PATIENCE = 12  # rounds in a row that give nothing


class Apart:
    """Rounds of lanes in cut boxes until `count` witnesses are known."""

    name = "apart"
    growth = 1.5

    def __init__(
        self, ask: Ask, known: NDArray[Any], target: int, count: int, distance: float, seconds: float = 0.3
    ) -> None:
        """known `[n]`: the first witness, of a target; distance: that there has to be between any two."""
        self.slice = seconds
        self._ask, self._count, self._distance = ask, count, distance
        self._full, self._target = [np.asarray(known)], [target]
        self._rounds = self._idle = 0

    def applies(self, run: Run) -> bool:
        """While witnesses are wanting and the last rounds were not all in vain."""
        return len(self._full) < self._count and self._idle < _PATIENCE

    def turn(self, run: Run) -> None:
        """Rounds until the time is up."""
        problem = run.batched
        while self.applies(run) and run.going(2):
            before = len(self._full)
            self._round(run, problem)
            run.rounds += 1
            gained = len(self._full) > before
            run.gained |= gained
            self._idle = 0 if gained else self._idle + 1
        if not self.applies(run):
            run.close()

    def _round(self, run: Run, problem: Problem) -> None:
        rng = run.rng.spawn()
        lanes, steps = min(_LANES << (self._idle // 2), _MOST_LANES), min(_STEPS << self._idle, _MOST_STEPS)
        lanes, steps = fitted(run, lanes, steps, Work.GRADIENT if problem.differentiable else work_of(problem))
        lanes = max(2, lanes)
        target, x = self._starts(run, problem, rng, lanes)
        known = self._known(problem)
        lower, upper = (side + namespace(x).zeros_like(x) for side in problem.box(as_like(target, problem.like)))
        width = as_like(widths(problem), problem.like, problem.dtype)
        dear = self._influence(run, problem, target, x)
        distance = self._distance * (1 + _SLACK * (run.rounds % 2))
        alive = cut_off(rng, known, distance, width, lower, upper, dear)
        at = np.flatnonzero(alive)
        if not at.size or run.over():
            return
        rows = as_like(at, problem.like)
        found = climb_within(run, problem, target[at], x[rows], lower[rows], upper[rows], steps, rng, enough=_ENOUGH)
        run.note(problem, found.best, target[at], found.margin)
        hits = np.flatnonzero(found.margin >= 0)
        points = to_host(problem.embed(found.best[as_like(hits, problem.like)]))
        self._take(run, problem, points, target[at][hits])

    def _take(self, run: Run, problem: Problem, points: NDArray[Any], target: NDArray[np.int64]) -> None:
        """Show points `[h, n]` to the door, the farthest from all that are known first, while they are far enough."""
        width = widths(problem)
        free = to_float64(problem.domain.restrict(as_like(points, problem.like)))
        gap = _gaps(free, to_float64(self._known(problem)), width).min(axis=1, initial=np.inf)
        while len(self._full) < self._count and gap.size and gap.max() >= self._distance and not run.over():
            lane = int(np.argmax(gap))
            gap[lane] = -1.0
            confirmed = self._ask(points[lane], int(target[lane]))
            if confirmed is not None:
                self._full.append(confirmed.point)
                self._target.append(int(target[lane]))
                gap = np.minimum(gap, _gaps(free, to_float64(self._known(problem))[-1:], width)[:, 0])

    def _starts(self, run: Run, problem: Problem, rng: Rng, lanes: int) -> tuple[NDArray[np.int64], Array]:
        """Targets `[b]` and points `[b, f]`: half of the lanes begin at known witnesses, half anywhere."""
        mine = np.asarray(rng.integers(0, len(self._full), (lanes // 2,), np.empty(0)))
        target = np.concatenate([np.array(self._target)[mine], spread(run, lanes - lanes // 2)])
        lower, upper = problem.box(as_like(target, problem.like))
        x = place(mixed(rng, lanes, problem.f, problem.like), lower, upper)
        x[: lanes // 2] = self._known(problem)[as_like(mine, problem.like)]
        return target, x

    def _known(self, problem: Problem) -> Array:
        """The free part of the known witnesses `[q, f]`."""
        return problem.domain.restrict(as_like(np.stack(self._full), problem.like, problem.dtype))

    @staticmethod
    def _influence(run: Run, problem: Problem, target: NDArray[np.int64], x: Array) -> Array | None:
        """How much the least atom of each lane changes across each coordinate `[b, f]`, 1 the most."""
        if not problem.differentiable or not may(run, x.shape[0], Work.GRADIENT):
            return None
        xp, aim = namespace(x), as_like(target, problem.like)
        with run.timed(Work.GRADIENT, x.shape[0]):
            _, _, gradient = problem.ascend(x, aim, Reduction.HARD, problem.emphasis(aim))
        lower, upper = problem.box(aim)
        size = xp.abs(gradient) * (upper - lower)
        size[1::2] *= 0  # every other lane draws its coordinates evenly
        most = xp.max(size, axis=1)[:, None]
        return size / xp.where(most > 0, most, most + 1)


def widths(problem: Problem) -> NDArray[np.float64]:
    """The width of each free input over the boxes of all targets: `[f]`."""
    targets = problem.spec.targets
    assert targets is not None
    lower, upper = (np.asarray(side, np.float64) for side in (targets.lower, targets.upper))
    return np.asarray(upper.max(axis=0) - lower.min(axis=0))


def _gaps(a: NDArray[np.float64], b: NDArray[np.float64], width: NDArray[np.float64]) -> NDArray[np.float64]:
    """The distances in widths (l_inf) of points `[a, f]` from others `[b, f]`: `[a, b]`."""
    out = np.empty((len(a), len(b)))
    for column, other in enumerate(b):
        out[:, column] = (np.abs(a - other) / width).max(axis=1)
    return out


def cut_off(
    rng: Rng, known: Array, distance: float, width: Array, lower: Array, upper: Array, dear: Array | None
) -> NDArray[np.bool_]:
    """Shrink boxes `[b, f]`, in place, until every point in one is `distance` widths `[f]` from all known `[q, f]`.

    dear `[b, f]`: coordinates, from 0 to 1, that are better left alone. Returns which lanes `[b]` have a box left.
    """
    xp = namespace(lower)
    lanes, reach = lower.shape[0], distance * width
    alive = np.ones(lanes, dtype=bool)
    apart = np.zeros((lanes, known.shape[0]), dtype=bool)
    for first in range(known.shape[0]):
        apart[:, first] = to_host(xp.any((lower >= known[first] + reach) | (upper <= known[first] - reach), axis=1))
    while True:
        todo = np.flatnonzero(alive & ~apart.all(axis=1))
        if not todo.size:
            return alive
        rows = as_like(todo, lower)
        other = known[as_like(np.argmin(apart[todo], axis=1), lower)]
        floor, ceiling = other + reach, other - reach  # what remains lies above the one or below the other
        up, down = floor <= upper[rows], ceiling >= lower[rows]
        draw = rng.uniform(tuple(other.shape), other)
        wish = draw if dear is None else draw - 2 * dear[rows]
        wish = xp.where(up | down, wish, 0 * wish - 4)
        column = np.argmax(to_host(wish), axis=1)
        at = (rows, as_like(column, lower))
        line = (as_like(np.arange(todo.size), lower), at[1])
        possible = to_host((up | down)[line])
        alive[todo[~possible]] = False
        kept = np.flatnonzero(possible)
        if not kept.size:
            continue
        kept_rows, kept_columns = as_like(todo[kept], lower), as_like(column[kept], lower)
        inner = (as_like(kept, lower), kept_columns)
        coin = rng.uniform((kept.size,), lower) < 0.5
        rises = (up[inner] & coin) | ~down[inner]
        lower[kept_rows, kept_columns] = xp.where(rises, floor[inner], lower[kept_rows, kept_columns])
        upper[kept_rows, kept_columns] = xp.where(rises, upper[kept_rows, kept_columns], ceiling[inner])
        here = known[:, kept_columns].T  # `[kept, q]`
        span = reach[kept_columns][:, None]
        below = lower[kept_rows, kept_columns][:, None] >= here + span
        above = upper[kept_rows, kept_columns][:, None] <= here - span
        apart[todo[kept]] |= to_host(below | above)
