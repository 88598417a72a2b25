"""Ascent: a short local climb of many lanes at once along the gradient of their violated atoms.

In the unit cube of its box a lane steps by `length * gradient`. Polyak lanes aim at the level where the score reaches
zero: length = (1 + over) * |score| / |gradient|^2, which in a linear piece lands just beyond the bound; a cap on the
longest coordinate, shrinking step by step, keeps them inside what the gradient knows about. Decaying lanes step a fixed
distance that shrinks geometrically. The score is the least atom, or the sum of what all violated atoms lack, which half
of the lanes weigh by how much each lacks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, Rng, as_like, clip_into, copy_rows, full, is_numpy, namespace, row_blocks
from falsifier.errors import EngineError
from falsifier.network.walk import CAP_DECAY, FIRST_LENGTH, LARGEST_LACK, LAST_LENGTH, OVER, SMALLEST, Rule
from falsifier.objective import Reduction
from falsifier.search.looks import Looks
from falsifier.search.pace import Work
from falsifier.search.run import Run, bounds, host_margin
from falsifier.search.strides import take_steps
from falsifier.search.windows import straight_through

if TYPE_CHECKING:
    from falsifier.problem import Problem
    from falsifier.walks import Walk

_CAPS = (0.1, 0.3)  # of the longest coordinate of a Polyak step, in widths
_DECAYING = 0.25  # share of lanes


@dataclass
class Climb:
    """Best points `[b, f]` of the lanes and their margins `[b]` (host)."""

    best: Array
    margin: NDArray[np.float64]


def climb(
    run: Run, problem: Problem, target: NDArray[np.int64], x: Array, steps: int, rng: Rng, reduction: Reduction
) -> Climb:
    """Up to `steps` steps from `x` `[b, f]`; fewer where the turn or the search ends. The door sees hits at once."""
    rules = _Rules.drawn(rng, x, problem.k > 1 and reduction is Reduction.HINGE, steps)
    path = _Path(x, *bounds(problem, as_like(target, problem.like)))

    def move(step: int, x: Array, gradient: Array, lack: Array, slack: Array) -> tuple[Array, Array | None]:
        path.move(gradient, rules, lack, step)
        return path.x, rules.scale(slack)

    return climb_by(move, run, problem, target, x, steps, reduction, rules.whole(problem.f, problem.k))


@dataclass
class Whole:
    """A climb's rule as one run of many steps (`falsifier.network.walk`): what it is given, and its first state."""

    rule: Rule
    given: dict[str, Array]
    state: dict[str, Array]


Move = Callable[[int, Array, Array, Array, Array], tuple[Array, "Array | None"]]


def climb_by(
    move: Move,
    run: Run,
    problem: Problem,
    target: NDArray[np.int64],
    x: Array,
    steps: int,
    reduction: Reduction,
    whole: Whole | None = None,
    scale: Array | None = None,
    inside: bool = False,
) -> Climb:
    """What all climbs share: `steps` evaluations, of which each lane keeps its best, and points for the door.

    `move(step, x, gradient, lack, slack)` gives the points of the next step and the scales `[b, k]` of its slacks;
    gradient `[b, f]` of the score, lack `[b]`: how far the score is from where it should be, slack `[b, k]`. `scale`:
    of the first step; `inside`: steps follow what targets ask of inputs alone, and end within it. `whole` is the same
    as a run of many steps, taken where that pays.
    """
    xp = namespace(x)
    lanes = x.shape[0]
    aim = as_like(target, problem.like)
    window = straight_through(problem, lanes)
    level = _refused_level(run, problem, target)
    if level is not None:
        reduction = Reduction.HARD  # the sum of what atoms lack is flat beyond the bound
    if whole is not None and not inside:
        sought = {"level": _column(level, x), "floor": np.array([[-np.inf if level is None else 0.0]])}
        walk = problem.walks.begin(
            whole.rule, reduction, target, x, steps, whole.state, {**whole.given, **sought}, window
        )
        if walk is not None:
            with suppress(EngineError, MemoryError):  # by hand only the lanes are lost that the engine fails on
                return _walked(run, problem, target, walk, steps)
    best, best_margin = x + xp.zeros_like(x), full((lanes,), -float("inf"), x)
    looks = Looks(run, problem, Work.GRADIENT, lanes)
    for step in range(steps):
        if not run.going(lanes, Work.GRADIENT):
            break
        with looks:
            evaluation, score, gradient = problem.ascend(x, aim, reduction, scale, window)
        margin = evaluation.margin
        best = copy_rows(margin > best_margin, x, best)
        best_margin = xp.maximum(margin, best_margin)
        if looks.satisfied(margin):
            run.offer(problem, x, target, host_margin(margin))
            if not run.worthwhile(target):
                break
        lack = -score if level is None else xp.maximum(level - score, 0 * score)
        x, scale = move(step, x, problem.along(x, gradient, aim) if inside else gradient, lack, evaluation.slack)
        if inside:
            x = problem.settled(x, aim)
    run.offer(problem, best, target, host_margin(best_margin))
    return Climb(best, host_margin(best_margin))


def _walked(run: Run, problem: Problem, target: NDArray[np.int64], walk: Walk, steps: int) -> Climb:
    """The same as runs of many steps; a run ends where the door has something to see."""
    while walk.done < steps and take_steps(run, walk, target, steps - walk.done):
        margin = walk.margin()
        if margin.max() >= 0:
            run.offer(problem, walk.state["best"], target, margin)
            if not run.worthwhile(target):
                break
    margin = walk.margin()
    run.offer(problem, walk.state["best"], target, margin)
    return Climb(walk.state["best"], margin)


def _column(x: Array | None, like: Array) -> Array:
    """`[b]` as `[b, 1]`; zeros for None."""
    return full((like.shape[0], 1), 0.0, like) if x is None else x[:, None]


class _Path:
    """Where the lanes of a climb stand, x `[b, f]`: an array that the next step but one overwrites."""

    def __init__(self, x: Array, lower: Array, upper: Array) -> None:
        xp = namespace(x)
        self.x = x
        self._box = lower, upper, upper - lower
        self._blocks = row_blocks(x)
        self._next, self._spare = xp.empty_like(x), xp.empty_like(x)

    def move(self, gradient: Array, rules: _Rules, lack: Array, step: int) -> None:
        """Step number `step` along gradients `[b, f]` of lanes that lack `lack` `[b]`."""
        xp = namespace(gradient)
        for rows in self._blocks:
            lower, upper, width = (a if a.shape[0] == 1 else a[rows] for a in self._box)
            slope = xp.multiply(gradient[rows], width, out=self._next[rows])
            length, usable = rules.length(slope, lack[rows], step, rows)
            if usable is not None:
                slope[...] = xp.where(usable[:, None], slope, 0 * slope)
            slope *= length[:, None]
            slope *= width
            slope += self.x[rows]
            clip_into(slope, lower, upper)
        self.x, self._next, self._spare = self._next, self._spare, self._next


class _Rules:
    """How each lane steps: cap `[b]` of Polyak lanes, which lanes decay `[b]`, which weigh atoms `[b, 1]`."""

    def __init__(self, cap: Array, decaying: Array, weighted: Array | None, steps: int) -> None:
        self._cap, self._decaying, self._weighted, self._steps = cap, decaying, weighted, steps

    @classmethod
    def drawn(cls, rng: Rng, like: Array, weigh: bool, steps: int) -> _Rules:
        """Rules drawn for the lanes of `like` `[b, f]`."""
        shape = (like.shape[0], 1)
        xp = namespace(like)
        first = rng.uniform(shape, like) < 0.5
        cap = xp.where(first, full(shape, _CAPS[0], like), full(shape, _CAPS[1], like))
        weighted = rng.uniform(shape, like) < 0.5
        decaying = rng.uniform(shape, like) < _DECAYING
        return cls(cap[:, 0], decaying[:, 0], weighted if weigh else None, steps)

    def length(self, slope: Array, lack: Array, step: int, rows: slice) -> tuple[Array, Array | None]:
        """The factor of the slope `[b, f]` in steps of the lanes `rows`, and which slopes can be followed (None: all).

        The factor is 0 where a slope cannot be.
        """
        xp = namespace(slope)
        longest = xp.maximum(xp.max(slope, axis=1), -xp.min(slope, axis=1))
        square = xp.vecdot(slope, slope)
        usable = (longest > SMALLEST) & (longest < 1 / SMALLEST) & (lack >= 0)  # False for NaN
        followed = is_numpy(usable) and usable.all()  # a device would have to wait for the answer
        if not followed:
            one = full((1,), 1.0, slope)
            square, longest = xp.where(usable, square, one), xp.where(usable, longest, one)
        length = xp.minimum((1 + OVER) * lack / square, self._cap[rows] * (CAP_DECAY**step) / longest)
        shrunk = (LAST_LENGTH / FIRST_LENGTH) ** (step / max(1, self._steps - 1))
        distance = FIRST_LENGTH * shrunk * slope.shape[1] ** 0.5
        length = xp.where(self._decaying[rows], distance / xp.sqrt(square), length)
        return (length, None) if followed else (xp.where(usable, length, full((1,), 0.0, slope)), usable)

    def whole(self, f: int, atoms: int) -> Whole:
        """The same rules for runs of many steps of lanes with `f` free inputs and `atoms` atoms."""
        given = {
            "caps": self._cap[:, None],
            "decaying": self._decaying[:, None],
            "far": np.array([[f**0.5]]),
            "shortening": np.array([[(LAST_LENGTH / FIRST_LENGTH) ** (1 / max(1, self._steps - 1))]]),
        }
        if self._weighted is None:
            return Whole(Rule.POLYAK, given, {})
        given["weighted"] = self._weighted
        return Whole(Rule.POLYAK, given, {"scale": full((self._cap.shape[0], atoms), 1.0, self._cap)})

    def scale(self, slack: Array) -> Array | None:
        """Scales `[b, k]` of the next step: what an atom lacks, with mean 1, in weighing lanes; ones elsewhere."""
        if self._weighted is None:
            return None
        xp = namespace(slack)
        lack = clip_into(-slack, full((1, 1), 0.0, slack), full((1, 1), LARGEST_LACK, slack))
        total = xp.sum(lack, axis=1)[:, None] + 1 / LARGEST_LACK
        # An atom that holds now keeps a little weight: it may be violated after the step.
        return xp.where(self._weighted, lack * (slack.shape[1] / total) + 0.01, full((1, 1), 1.0, slack))


def _refused_level(run: Run, problem: Problem, target: NDArray[np.int64]) -> Array | None:
    """Margins `[b]` to aim at where the door refused some: twice the greatest refused; None where it refused none."""
    refused = run.candidates.refused
    if not np.isfinite(refused).any():
        return None
    return as_like(np.where(np.isfinite(refused), 2 * refused, 0.0)[target], problem.like, problem.dtype)
