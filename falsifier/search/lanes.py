"""Lanes of gradient ascent: the rows of a batch, each with its target, point and step state.

All schedules share one update, so that one batch mixes them at the cost of one:

    momentum <- beta * momentum + gradient / |gradient|
    x        <- clip(x + alpha * width * sign(momentum)),   alpha <- alpha * decay

Only the momentum's signs count, so it is kept times the last |gradient|, which saves dividing a wide gradient. Lanes
that are `adaptive` halve alpha and return to their best point where too few steps improved (auto-PGD).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, as_like, clip_into, copy_rows, full, is_numpy, namespace, row_blocks, signed_into
from falsifier.search.run import bounds

if TYPE_CHECKING:
    from falsifier.problem import Problem

_FAIR = 1e-30  # squares of a gradient's length between this and its inverse are neither lost nor infinite


@dataclass(frozen=True)
class Schedule:
    """Steps in widths of the box: from `first` to `last` over a round, geometrically; momentum `beta`."""

    name: str
    first: float
    last: float
    beta: float
    adaptive: bool = False


@dataclass
class Lanes:
    """target `[b]` (host); x, best, momentum `[b, f]`; bounds as given by `bounds`; step state `[b, 1]`.

    x, best and momentum change in place. length: what the momentum is multiplied by.
    """

    problem: Problem
    target: NDArray[np.int64]
    x: Array
    lower: Array
    upper: Array
    width: Array
    momentum: Array
    length: Array
    best: Array
    best_margin: Array
    alpha: Array
    decay: Array
    beta: Array
    adaptive: Array
    wins: Array
    blocks: list[slice]
    step: Array  # room for a block's steps
    span: int = 0

    @classmethod
    def at(cls, problem: Problem, target: NDArray[np.int64], x: Array, schedules: list[Schedule], steps: int) -> Lanes:
        """Lanes at points `[b, f]`; lane i follows `schedules[i % len(schedules)]` over `steps` steps."""
        xp = namespace(x)
        lower, upper = bounds(problem, as_like(target, problem.like))
        index = np.arange(x.shape[0]) % len(schedules)

        def column(values: list[float]) -> Array:
            return as_like(np.array(values)[index][:, None], problem.like, problem.dtype)

        count = max(1, steps - 1)
        return cls(
            problem=problem,
            target=target,
            x=x + xp.zeros_like(x),
            lower=lower,
            upper=upper,
            width=upper - lower,
            momentum=xp.zeros_like(x),
            length=full((x.shape[0], 1), 1.0, x),
            best=x + xp.zeros_like(x),
            best_margin=xp.full(x.shape[:1], -xp.inf, dtype=x.dtype, device=x.device),
            alpha=column([s.first for s in schedules]),
            decay=column([(s.last / s.first) ** (1 / count) for s in schedules]),
            beta=column([s.beta for s in schedules]),
            adaptive=as_like(np.array([s.adaptive for s in schedules])[index], problem.like),
            wins=xp.zeros(x.shape[:1], dtype=x.dtype, device=x.device),
            blocks=(blocks := row_blocks(x)),
            step=xp.empty_like(x[blocks[0]]),
        )

    def take(self, margin: Array) -> None:
        """Keep the points whose margin `[b]` beats their lane's best."""
        better = margin > self.best_margin
        self.best_margin = namespace(margin).maximum(margin, self.best_margin)
        self.best = copy_rows(better, self.x, self.best)
        self.wins += better
        self.span += 1

    def move(self, gradient: Array) -> None:
        """One step along a gradient `[b, f]`."""
        for rows in self.blocks:
            self._move(gradient[rows], rows, self.step[: rows.stop - rows.start])
        self.alpha *= self.decay

    def _move(self, gradient: Array, rows: slice, step: Array) -> None:
        xp = namespace(gradient)
        x, momentum, before = self.x[rows], self.momentum[rows], self.length[rows]
        lower, upper, width = (a if a.shape[0] == 1 else a[rows] for a in (self.lower, self.upper, self.width))
        square = xp.vecdot(gradient, gradient)[:, None]
        fair = (square > _FAIR) & (square < 1 / _FAIR)
        if not is_numpy(square) or not fair.all():  # a device would have to wait for the answer
            gradient, square = _rescaled(gradient, before * before)
        length = xp.sqrt(square)
        momentum *= self.beta[rows] * (length / before)
        momentum += gradient
        before[...] = length
        signed_into(width, momentum, step)
        step *= self.alpha[rows]
        x += step
        clip_into(x, lower, upper)

    def given(self) -> dict[str, Array]:
        """What a walk of these lanes is given (`falsifier.network.walk`)."""
        return {"decay": self.decay, "beta": self.beta}

    def state(self) -> dict[str, Array]:
        """Where a walk of these lanes stands."""
        return {
            "points": self.x,
            "best": self.best,
            "best_margin": self.best_margin[:, None],
            "momentum": self.momentum / self.length,
            "alpha": self.alpha,
            "wins": self.wins[:, None],
        }

    def walked(self, state: dict[str, Array], steps: int) -> None:
        """Take over where a walk stands after this many more steps."""
        self.x, self.best, self.best_margin = state["points"], state["best"], state["best_margin"][:, 0]
        self.momentum, self.length = state["momentum"], namespace(self.x).ones_like(self.length)
        self.alpha, self.wins = state["alpha"], state["wins"][:, 0]
        self.span += steps

    def checkpoint(self) -> None:
        """Adaptive lanes that improved in under 3/4 of the steps halve their step and return to their best."""
        xp = namespace(self.x)
        slow = self.adaptive & (self.wins < 0.75 * self.span)
        self.alpha = xp.where(slow[:, None], self.alpha / 2, self.alpha)
        self.x = copy_rows(slow, self.best, self.x)
        self.momentum = copy_rows(slow, 0 * self.momentum, self.momentum)
        self.wins *= 0
        self.span = 0


def _rescaled(gradient: Array, otherwise: Array) -> tuple[Array, Array]:
    """A gradient `[b, f]` over its longest coordinate and the square `[b, 1]` of its length then.

    Where it is zero or not finite: zeros, and the square `otherwise` `[b, 1]`.
    """
    xp = namespace(gradient)
    longest = xp.max(xp.abs(gradient), axis=1)[:, None]
    usable = xp.isfinite(longest) & (longest > 0)
    unit = xp.where(usable, gradient / xp.where(usable, longest, xp.ones_like(longest)), 0 * otherwise)
    return unit, xp.where(usable, xp.vecdot(unit, unit)[:, None], otherwise)
