"""Hopping: a population that climbs, moves and climbs again (basin hopping), the strongest of the stages given time.

Lanes persist over turns. Each round moves every lane away from where it stands, climbs, and keeps the better of the two
tops, mostly; per target the worst lanes give way to copies of the best. Two populations of this kind live side by side:
short Polyak climbs follow a slope to its end at little cost, dilated ones follow the ridges that others zigzag across.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, Rng, as_like, beside, is_numpy, namespace
from falsifier.objective import Reduction
from falsifier.search.allocation import shared, spread
from falsifier.search.ascent import Climb, climb
from falsifier.search.dilation import dilated_climb
from falsifier.search.moves import kick
from falsifier.search.pace import Work
from falsifier.search.population import Population
from falsifier.search.run import Run
from falsifier.search.starts import interleaved, mixed, place

if TYPE_CHECKING:
    from falsifier.problem import Problem

_FEWEST = 8  # lanes
_SHORTEST = 8  # steps of a climb that is worth beginning
_LEAST = 16  # lanes that climbs are lengthened for
_MOST_HOST, _MOST_DEVICE = 256, 4096
_ROUNDS = 2  # that a turn should see
_FRESH_NEAR, _FRESH_FAR = 0.1, 0.5  # share of lanes that start anew in a round, in islands that look near and far

Ascent = Callable[[Run, "Problem", NDArray[np.int64], Array, int, Rng, Reduction], Climb]


class Hopping:
    """Rounds of moves and Polyak climbs."""

    name = "hopping"
    growth = 2.0
    later = 2.0  # times as long are the turns after the first pass, when what falls at once is gone
    steps = (40, 40)  # of a climb, at least and at most
    near = 8  # one lane in so many of a first population starts at its target's best point; 0: none
    ascent: Ascent = staticmethod(climb)

    def __init__(self, seconds: float = 0.3) -> None:
        self.slice = seconds
        self._population: Population | None = None
        self._rounds = 0

    def applies(self, run: Run) -> bool:
        """Where the engine has gradients."""
        return run.batched.differentiable

    def turn(self, run: Run) -> None:
        """Rounds until the time is up; the last one may be cut short."""
        problem = run.batched
        if not run.holds(_FEWEST * _SHORTEST, Work.GRADIENT):
            return
        lanes, steps = self._size(run, problem)
        while run.going(lanes, Work.GRADIENT):
            rng = run.rng.spawn()
            x, population = self._deal(run, problem, lanes, rng)
            reduction = Reduction.HARD if self._rounds % 2 and problem.k > 1 else Reduction.HINGE
            result = self.ascent(run, problem, population.target, x, steps, rng, reduction)
            population.accept(result.best, result.margin, rng.uniform((lanes,), np.empty(0)))
            population.renew()
            self._population = population
            self._rounds += 1
            run.rounds += 1
        self.slice, self.later = self.slice * self.later, 1.0

    def _size(self, run: Run, problem: Problem) -> tuple[int, int]:
        """Lanes and steps of a round: as many as let the turn see a few rounds, first longer climbs, then more lanes.

        Lanes are a power of two; a short turn does not cut a population.
        """
        most = shared(run, _MOST_HOST if is_numpy(problem.like) else _MOST_DEVICE, problem.f)
        least, longest = self.steps
        fits = run.pace.fits(Work.GRADIENT, max(run.left(), 0.0) / _ROUNDS, 16 * least)
        steps = int(np.clip(fits // _LEAST, least, longest))
        lanes = 1 << int(np.log2(np.clip(fits // steps, _FEWEST, most)))
        if self._population is not None and self._population.target.size <= 4 * lanes:
            lanes = max(lanes, self._population.target.size)
        return max(1, min(lanes, run.room())), steps

    def _deal(self, run: Run, problem: Problem, lanes: int, rng: Rng) -> tuple[Array, Population]:
        """Lanes dealt to targets, and the points to climb from: moved lanes, or fresh starts for new ones."""
        target = spread(run, lanes)
        aim = as_like(target, problem.like)
        lower, upper = problem.box(aim)
        fresh = place(mixed(rng, lanes, problem.f, problem.like), lower, upper)
        xp = namespace(fresh)
        if self._population is None:
            known, best = run.ledger.known(target)
            unit = interleaved(rng, lanes, problem.f, problem.like)
            start = place(unit, lower, upper)
            if best is not None and self.near:
                there = known & (np.arange(lanes) % self.near == 0)
                start = xp.where(
                    as_like(there, problem.like)[:, None], as_like(best, problem.like, problem.dtype), start
                )
            return start, Population(target, np.full(lanes, -np.inf), start)
        source, has = self._population.dealt(target)
        old = as_like(has, problem.like)[:, None]
        x = xp.where(old, beside(self._population.x, problem.like)[as_like(source, problem.like)], fresh)
        margin = np.where(has, self._population.margin[source], -np.inf)
        population = Population(target, margin, x, self._population.islands)
        width = upper - lower
        unit = (x - lower) / xp.where(width > 0, width, xp.ones_like(width))
        one, two = (as_like(population.partners(rng.uniform((lanes,), np.empty(0))), problem.like) for _ in range(2))
        share = np.where(population.exploring, _FRESH_FAR, _FRESH_NEAR)[:, None]
        fresh_share = as_like(share, problem.like, problem.dtype)
        moved = place(kick(rng, unit, unit[one], unit[two], fresh_share), lower, upper)
        return xp.where(old, moved, fresh), population


class DilatedHopping(Hopping):
    """Rounds of moves and dilated climbs.

    It begins afresh: what other stages found best is a local optimum as a rule, and would take over the population.
    """

    name = "dilated-hopping"
    later = 3.0
    near = 0
    steps = (40, 100)
    ascent: Ascent = staticmethod(dilated_climb)
