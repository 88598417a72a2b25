"""Within: a population that never leaves what targets ask of inputs alone, for regions that are small in their box.

Elsewhere such comparisons are atoms among others, which steps trade for each other. Here lanes start in the region, hop
and climb in it: gradients lose what leads out, and points go back to the nearest ones inside (`spec/projection.py`).
That costs more than the evaluations of a small network, so lanes are few at first, and more where turns see several
rounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from falsifier.arrays import Array, as_like, beside, namespace, to_host
from falsifier.objective import Reduction
from falsifier.search.allocation import spread
from falsifier.search.pace import Work
from falsifier.search.run import Run
from falsifier.search.starts import mixed, place

if TYPE_CHECKING:
    from falsifier.arrays import Rng
    from falsifier.problem import Problem
    from falsifier.search.population import Population

_FIRST, _MOST = 8, 128  # lanes
_STEPS = 40  # of a climb
_FRESH = 0.1  # share of lanes that start anew in a round
_LOOKED, _LARGE = 64, 0.1  # points of the boxes, and the share of them in the region that makes other stages do
_GAIN = 0.02  # of a margin: what counts as a gain


class Within:
    """Rounds of moves and dilated climbs inside of regions."""

    name = "within"
    growth = 2.0

    def __init__(self, seconds: float = 0.5) -> None:
        self.slice = seconds
        self._population: Population | None = None
        self._lanes = _FIRST
        self._rounds = 0
        self._small: bool | None = None
        self._entered = False  # whether some lane was inside

    def applies(self, run: Run) -> bool:
        """Where there are gradients, and what is asked of inputs leaves little of their boxes; not for long where no
        way in is found.
        """
        problem = run.batched
        if problem.region is None or not problem.differentiable or (self._rounds and not self._entered):
            return False
        if self._small is None:
            target = np.resize(run.ledger.ranked(), _LOOKED)
            aim = as_like(target, problem.like)
            points = place(run.rng.spawn().uniform((_LOOKED, problem.f), problem.like), *problem.box(aim))
            self._small = bool(problem.region.holds(to_host(points), target).mean() < _LARGE)
        return self._small

    def turn(self, run: Run) -> None:
        """Rounds until the time is up; the last one may be cut short."""
        from falsifier.search.dilation import dilated_climb

        problem = run.batched
        done, started = 0, run.pace.now()
        while run.going(self._lanes, Work.GRADIENT):
            rng = run.rng.spawn()
            population, x = self._deal(run, problem, rng)
            if self._rounds == 0:
                run.until += min(run.pace.now() - started, self.slice)  # to begin takes its time, once
            reduction = Reduction.HARD if self._rounds % 2 and problem.k > 1 else Reduction.HINGE
            result = dilated_climb(run, problem, population.target, x, _STEPS, rng, reduction, inside=True)
            before = population.margin.max()
            population.accept(result.best, result.margin, rng.uniform((self._lanes,), np.empty(0)))
            after = population.margin.max()  # others stand higher, by leaving the region
            run.gained |= bool(after > before + _GAIN * abs(before))
            if problem.region is not None and not self._entered:
                self._entered = bool(problem.region.holds(to_host(population.x), population.target).any())
                if not self._entered:
                    return
            population.renew()
            self._rounds += 1
            run.rounds += 1
            done += 1
        if done > 2:
            self._lanes = min(2 * self._lanes, _MOST)

    def _deal(self, run: Run, problem: Problem, rng: Rng) -> tuple[Population, Array]:
        """Lanes dealt to targets, and the points to climb from: lanes that are new are evaluated where they start."""
        from falsifier.search.moves import kick
        from falsifier.search.population import Population
        from falsifier.search.regions import scattered

        lanes = self._lanes
        target = spread(run, lanes)
        aim = as_like(target, problem.like)
        lower, upper = problem.box(aim)
        old = self._population
        source, has = (np.zeros(lanes, np.int64), np.zeros(lanes, bool)) if old is None else old.dealt(target)
        new = np.flatnonzero(~has)
        x = lower + 0 * upper
        margin = np.full(lanes, -np.inf)
        if old is not None:
            x = beside(old.x, problem.like)[as_like(source, problem.like)]
            margin = np.where(has, old.margin[source], -np.inf)
        if new.size:
            at = as_like(new, problem.like)
            unit = mixed(rng, new.size, problem.f, problem.like)
            fresh = scattered(rng, problem, place(unit, lower[at], upper[at]), aim[at])
            x[at] = fresh
            margin[new] = run.evaluate(problem, fresh, target[new])
        self._population = population = Population(target, margin, x, {} if old is None else old.islands)
        xp = namespace(x)
        width = upper - lower
        unit = (x - lower) / xp.where(width > 0, width, xp.ones_like(width))
        one, two = (as_like(population.partners(rng.uniform((lanes,), np.empty(0))), problem.like) for _ in range(2))
        share = as_like(np.full((lanes, 1), _FRESH), problem.like, problem.dtype)
        moved = place(kick(rng, unit, unit[one], unit[two], share), lower, upper)
        stays = as_like(~has, problem.like)[:, None]
        return population, xp.where(stays, x, problem.settled(moved, aim))
