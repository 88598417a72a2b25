"""Evolution: populations that learn from the ranks of their children where to go and how far in each coordinate, where
there are no gradients.

Separable covariance matrix adaptation (Ros and Hansen, 2008) with its usual constants and three times the usual number
of children, in the unit cube of a target's box: a child beyond a bound is taken to it. All populations of a turn make
their children in one batch. One that has shrunk to a point or has not risen for long starts anew, every third one at
its target's best point.

Axes: p population, c child, f free input.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import as_like, to_host
from falsifier.search.allocation import shared, spread
from falsifier.search.pace import work_of
from falsifier.search.run import Run
from falsifier.search.starts import place

if TYPE_CHECKING:
    from falsifier.problem import Problem

Floats = NDArray[np.float64]

_CHILDREN = 3  # times the usual number
_TOGETHER = 4  # populations of one group, where a batch costs less than its samples one by one
_WIDE, _NEAR = 0.3, 0.1  # first deviations, of a population anywhere and of one at a known point
_SMALLEST = 1e-6  # deviation at which a population has ended


class Evolution:
    """Generations until the time is up; populations live on from turn to turn."""

    name = "evolution"
    growth = 2.0

    def __init__(self, seconds: float = 0.3) -> None:
        self.slice = seconds
        self._populations: _Populations | None = None

    def applies(self, run: Run) -> bool:
        """Where the engine has no gradients."""
        return not run.batched.differentiable

    def turn(self, run: Run) -> None:
        """Generations of all populations."""
        problem = run.batched
        rates = _Rates(problem.f)
        if not run.holds(rates.children, work_of(problem)):
            return
        count = shared(run, 1 if problem.serial else _TOGETHER, rates.children * problem.f)
        if self._populations is None or self._populations.target.size != count:
            self._populations = _Populations(rates, count)
        while run.going(count * rates.children):
            self._populations.generation(run, problem)


class _Rates:
    """How many children there are of f coordinates, the weights of the better half, and how fast what is learnt."""

    def __init__(self, f: int) -> None:
        self.f = f
        self.children = _CHILDREN * int(4 + 3 * math.log(f))
        weights = math.log((self.children + 1) / 2) - np.log(np.arange(1, self.children // 2 + 1))
        self.weights: Floats = weights / weights.sum()
        self.mass = mass = 1 / float((self.weights**2).sum())
        self.step = (mass + 2) / (f + mass + 5)
        self.damping = 1 + 2 * max(0.0, math.sqrt((mass - 1) / (f + 1)) - 1) + self.step
        self.path = (4 + mass / f) / (f + 4 + 2 * mass / f)
        faster = (f + 2) / 3  # than where covariances are learnt as well
        self.by_path = min(1.0, faster * 2 / ((f + 1.3) ** 2 + mass))
        self.by_rank = min(1 - self.by_path, faster * 2 * (mass - 2 + 1 / mass) / ((f + 2) ** 2 + mass))
        self.length = math.sqrt(f) * (1 - 1 / (4 * f) + 1 / (21 * f * f))  # of a normal vector, on average
        self.patience = 20 + 30 * f // self.children  # generations without gain


class _Populations:
    """What populations have learnt, on the host: targets `[p]`; means, variances, paths `[p, f]`; steps `[p]`, 0 for
    one that is to start anew."""

    def __init__(self, rates: _Rates, count: int) -> None:
        self._rates = rates
        self.target = np.zeros(count, np.int64)
        self._step = np.zeros(count)
        self._mean, self._variance, self._path, self._step_path = (np.zeros((count, rates.f)) for _ in range(4))
        self._best, self._age, self._generations = np.full(count, -np.inf), np.zeros(count), np.zeros(count)
        self._made = 0  # populations so far

    def generation(self, run: Run, problem: Problem) -> None:
        """Children of every population, and what is learnt from their ranks."""
        self._renew(run, problem)
        count, children, f = self.target.size, self._rates.children, self._rates.f
        normal = np.asarray(run.rng.spawn().normal((count * children, f), np.empty(0)), np.float64)
        deviation = self._step[:, None] * np.sqrt(self._variance)
        unit = np.clip(self._mean[:, None] + deviation[:, None] * normal.reshape(count, children, f), 0, 1)
        target = np.repeat(self.target, children)
        lower, upper = problem.box(as_like(target, problem.like))
        points = place(as_like(unit.reshape(-1, f), problem.like, problem.dtype), lower, upper)
        evaluation, score = run.judge(problem, points, target)
        if problem.k > 1:
            slack = np.asarray(to_host(evaluation.slack), np.float64)
            score = np.where(score >= 0, score, np.minimum(slack, 0).sum(axis=1))
        self._learn(unit, score.reshape(count, children))

    def _renew(self, run: Run, problem: Problem) -> None:
        """Populations that have ended, or whose target is closed, start anew."""
        old = (self._step == 0) | ~run.ledger.open[self.target]
        if not old.any():
            return
        self.target = np.where(old, spread(run, old.size), self.target)
        mean = np.asarray(run.rng.spawn().uniform(self._mean.shape, np.empty(0)), np.float64)
        number = self._made + np.cumsum(old)
        self._made += int(old.sum())
        known, best = run.ledger.known(self.target)
        near = known & (number % 3 == 0)
        if best is not None and near.any():
            lower, upper = (to_host(a).astype(np.float64) for a in problem.box(as_like(self.target, problem.like)))
            mean = np.where(near[:, None], (best - lower) / np.where(upper > lower, upper - lower, 1), mean)
        self._mean = np.where(old[:, None], np.clip(mean, 0, 1), self._mean)
        self._step = np.where(old, np.where(near, _NEAR, _WIDE), self._step)
        self._variance = np.where(old[:, None], 1.0, self._variance)
        self._path, self._step_path = (np.where(old[:, None], 0.0, path) for path in (self._path, self._step_path))
        self._best = np.where(old, -np.inf, self._best)
        self._age, self._generations = (np.where(old, 0, count) for count in (self._age, self._generations))

    def _learn(self, unit: Floats, score: Floats) -> None:
        """From children `[p, c, f]` in the unit cube and their scores `[p, c]`: what the next ones are drawn from."""
        rates = self._rates
        order = np.argsort(-score, axis=1, kind="stable")[:, : rates.weights.size]
        top = np.take_along_axis(score, order[:, :1], axis=1)[:, 0]
        self._age = np.where(top > self._best, 0, self._age + 1)
        self._best, self._generations = np.maximum(self._best, top), self._generations + 1
        moves = (np.take_along_axis(unit, order[:, :, None], axis=1) - self._mean[:, None]) / self._step[:, None, None]
        move = rates.weights @ moves
        self._mean = np.clip(self._mean + self._step[:, None] * move, 0, 1)
        kept = 1 - rates.step
        self._step_path = kept * self._step_path + math.sqrt((1 - kept**2) * rates.mass) * move / np.sqrt(
            self._variance
        )
        length = np.linalg.norm(self._step_path, axis=1) / rates.length
        steady = length / np.sqrt(1 - kept ** (2 * self._generations)) < 1.4 + 2 / (rates.f + 1)
        rest = rates.path * (2 - rates.path)
        self._path = (1 - rates.path) * self._path + steady[:, None] * math.sqrt(rest * rates.mass) * move
        share = 1 - rates.by_path - rates.by_rank + np.where(steady, 0, rates.by_path * rest)
        learnt = rates.by_path * self._path**2 + rates.by_rank * (rates.weights @ moves**2)
        self._variance = np.maximum(share[:, None] * self._variance + learnt, _SMALLEST**2)
        self._step = self._step * np.exp(np.minimum(1, rates.step / rates.damping * (length - 1)))
        widest = self._step * np.sqrt(self._variance.max(axis=1))
        ended = ~(widest > _SMALLEST) | (widest > 1 / _SMALLEST) | (self._age > rates.patience)
        self._step = np.where(ended, 0.0, self._step)
