"""Lanes of gradient ascent: the rows of a batch, each with its target, point and step state.

All schedules share one update, so that one batch mixes them at the cost of one:

    momentum <- beta * momentum + gradient / |gradient|_1
    x        <- clip(x + alpha * width * sign(momentum)),   alpha <- alpha * decay

Lanes that are `adaptive` halve alpha and return to their best point where too few steps improved (auto-PGD).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, as_like, namespace
from falsifier.search.run import bounds

if TYPE_CHECKING:
    from falsifier.problem import Problem

_TINY = 1e-30


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
    """target `[b]` (host); x, best, momentum `[b, f]`; bounds as given by `bounds`; step state `[b, 1]`."""

    problem: Problem
    target: NDArray[np.int64]
    x: Array
    lower: Array
    upper: Array
    width: Array
    momentum: Array
    best: Array
    best_margin: Array
    alpha: Array
    decay: Array
    beta: Array
    adaptive: Array
    wins: Array
    span: int = 0

    @classmethod
    def at(cls, problem: Problem, target: NDArray[np.int64], x: Array, schedules: list[Schedule], steps: int) -> Lanes:
        """Lanes at points `[b, f]`; lane i follows `schedules[i % len(schedules)]` over `steps` steps."""
        xp = namespace(x)
        lower, upper = bounds(problem, as_like(target, problem.like))
        rows = [schedules[i % len(schedules)] for i in range(len(schedules))]
        index = np.arange(x.shape[0]) % len(rows)

        def column(values: list[float]) -> Array:
            return as_like(np.array(values)[index][:, None], problem.like, problem.dtype)

        count = max(1, steps - 1)
        return cls(
            problem=problem,
            target=target,
            x=x,
            lower=lower,
            upper=upper,
            width=upper - lower,
            momentum=xp.zeros_like(x),
            best=x,
            best_margin=xp.full(x.shape[:1], -xp.inf, dtype=x.dtype, device=x.device),
            alpha=column([s.first for s in rows]),
            decay=column([(s.last / s.first) ** (1 / count) for s in rows]),
            beta=column([s.beta for s in rows]),
            adaptive=as_like(np.array([s.adaptive for s in rows])[index], problem.like),
            wins=xp.zeros(x.shape[:1], dtype=x.dtype, device=x.device),
        )

    def take(self, margin: Array) -> None:
        """Keep the points whose margin `[b]` beats their lane's best."""
        xp = namespace(self.x)
        better = margin > self.best_margin
        self.best_margin = xp.where(better, margin, self.best_margin)
        self.best = xp.where(better[:, None], self.x, self.best)
        self.wins = self.wins + xp.astype(better, self.wins.dtype)
        self.span += 1

    def move(self, gradient: Array) -> None:
        """One step along a gradient `[b, f]`."""
        xp = namespace(self.x)
        norm = xp.sum(xp.abs(gradient), axis=1)[:, None]
        usable = xp.isfinite(norm)
        momentum = self.momentum * self.beta + xp.where(usable, gradient, 0 * self.x) / xp.where(
            usable, norm + _TINY, 1.0
        )
        self.momentum = momentum
        step = xp.sign(momentum) * (self.alpha * self.width)
        self.x = xp.clip(self.x + step, self.lower, self.upper)
        self.alpha = self.alpha * self.decay

    def checkpoint(self) -> None:
        """Adaptive lanes that improved in under 3/4 of the steps halve their step and return to their best."""
        xp = namespace(self.x)
        slow = self.adaptive & (self.wins < 0.75 * self.span)
        self.alpha = xp.where(slow[:, None], self.alpha / 2, self.alpha)
        self.x = xp.where(slow[:, None], self.best, self.x)
        self.momentum = xp.where(slow[:, None], 0 * self.momentum, self.momentum)
        self.wins = 0 * self.wins
        self.span = 0
