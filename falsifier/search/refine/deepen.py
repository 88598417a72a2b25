"""Deepening: the witness with the greatest margin. Climbs from the deepest points and from anywhere, then small moves.

The engine says what is promising, the door what counts: engines may compare logits where the query compares
probabilities, so the best of a round is shown to the door by the engine's own scale.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, Rng, as_like, copy_rows, namespace, to_host
from falsifier.search.allocation import spread
from falsifier.search.moves import kick
from falsifier.search.pace import Work, work_of
from falsifier.search.refine.ask import Ask
from falsifier.search.refine.rounds import fitted
from falsifier.search.refine.together import climb_together, lanes_together
from falsifier.search.refine.vain import Vain
from falsifier.search.refine.within import climb_within
from falsifier.search.run import Run, host_margin
from falsifier.search.starts import mixed, place

if TYPE_CHECKING:
    from falsifier.problem import Problem

_LANES, _MOST_LANES = 16, 128
_STEPS, _MOST_STEPS = 24, 400
_MODELS = 8  # of all atoms together, in a round of those
_SHOWN = 3  # points of a round that the door sees
_GAIN = 1e-5  # of a margin: what counts as a gain where the end of the search is in question
_CHILDREN = 64
_FRESH = 0.02  # of the small moves that start anew


class Deepest:
    """What the stages share: the deepest point so far as the door has it, and when to stop."""

    def __init__(self, ask: Ask, point: NDArray[Any], target: int, margin: float) -> None:
        """A first witness `[n]`, its target and the door's margin."""
        self._ask, self.point, self.target, self.margin = ask, point, target, margin
        self._vain = Vain()

    def show(self, run: Run, problem: Problem, points: Array, target: NDArray[np.int64], depth: NDArray[Any]) -> None:
        """Take in evaluated points `[b, f]` with their depths `[b]`; the door sees those that beat their target's
        best. Ends the search where more of it would be in vain.
        """
        before = run.ledger.margin[target].copy()
        run.note(problem, points, target, depth)
        lanes = np.flatnonzero((depth > before) & (depth >= 0))
        lanes = lanes[np.argsort(-depth[lanes], kind="stable")][:_SHOWN]
        for lane in lanes.tolist():
            if run.over():
                return
            point = to_host(problem.embed(points[as_like(np.array([lane]), problem.like)]))[0]
            confirmed = self._ask(point, int(target[lane]))
            if confirmed is not None and confirmed.margin > self.margin:
                if confirmed.margin > self.margin + _GAIN * abs(self.margin):
                    self._vain.gained(run)
                self.point, self.target, self.margin = confirmed.point, int(target[lane]), confirmed.margin
        if self._vain.enough(run):
            run.close()


class Deepen:
    """Rounds of climbs, each with more lanes and steps than the last; where there are several atoms every other one
    by the models of all of them.
    """

    name = "deepen"
    growth = 1.5

    def __init__(self, deepest: Deepest, seconds: float = 0.2) -> None:
        self.slice = seconds
        self._deepest = deepest
        self._rounds = 0

    def applies(self, run: Run) -> bool:
        """Where the engine has gradients."""
        return run.batched.differentiable

    def turn(self, run: Run) -> None:
        """Rounds until the time is up."""
        problem = run.batched
        while run.going():
            rng = run.rng.spawn()
            lanes = min(_LANES << (self._rounds // 2), _MOST_LANES)
            steps = min(_STEPS << self._rounds, _MOST_STEPS)
            lanes, steps = fitted(run, lanes, steps, Work.GRADIENT)
            few = min(lanes_together(problem), lanes)
            target, x = self._starts(run, problem, rng, few if few and self._rounds % 2 else lanes)
            lower, upper = problem.box(as_like(target, problem.like))
            if few and self._rounds % 2:
                found = climb_together(run, problem, target, x, lower, upper, _MODELS)
            else:
                found = climb_within(run, problem, target, x, lower, upper, steps, rng)
            self._rounds += 1
            run.rounds += 1
            self._deepest.show(run, problem, found.best, target, found.margin)

    def _starts(self, run: Run, problem: Problem, rng: Rng, lanes: int) -> tuple[NDArray[np.int64], Array]:
        """Half of the lanes begin at the deepest point and at the best points of other targets, half anywhere."""
        near = (lanes + 1) // 2
        target = np.concatenate([np.full((near + 1) // 2, self._deepest.target), spread(run, lanes - (near + 1) // 2)])
        lower, upper = problem.box(as_like(target, problem.like))
        x = place(mixed(rng, lanes, problem.f, problem.like), lower, upper)
        known, best = run.ledger.known(target)
        if best is not None:
            begin = known & (np.arange(lanes) < near)
            x = copy_rows(as_like(begin, problem.like), as_like(best, problem.like, problem.dtype), x)
        return target, x


class Vary:
    """Small moves of the deepest point: generations of children, of which the deepest is the next parent."""

    name = "vary"
    growth = 1.3

    def __init__(self, deepest: Deepest, seconds: float = 0.1) -> None:
        self.slice = seconds
        self._deepest = deepest

    def applies(self, run: Run) -> bool:
        """Always."""
        return True

    def turn(self, run: Run) -> None:
        """Generations until the time is up."""
        problem = run.batched
        xp = namespace(problem.like)
        while run.going(_CHILDREN, work_of(problem)):
            rng = run.rng.spawn()
            target = np.full(_CHILDREN, self._deepest.target)
            target[: _CHILDREN // 4] = spread(run, _CHILDREN // 4)
            aim = as_like(target, problem.like)
            lower, upper = problem.box(aim)
            known, best = run.ledger.known(target)
            if best is None:
                return
            width = xp.where(upper > lower, upper - lower, 0 * upper + 1)
            parent = as_like(best, problem.like, problem.dtype)
            unit = xp.clip((parent - lower) / width, 0, 1)
            partner, other = (unit[rng.integers(0, _CHILDREN, (_CHILDREN,), problem.like)] for _ in range(2))
            fresh = xp.where(as_like(known, problem.like), 0 * width[:, 0] + _FRESH, 1 + 0 * width[:, 0])[:, None]
            x = place(kick(rng, unit, partner, other, fresh), lower, upper)
            with run.timed(work_of(problem), _CHILDREN):
                evaluation = problem.evaluate(x, aim)
            depth = host_margin(problem.depth(evaluation.slack, aim))
            self._deepest.show(run, problem, x, target, depth)
