"""Descent by finite differences: one probe per free dimension and lane in one batch, a few candidate moves in a second.

A lane takes the best move if it raises the margin of its target, else its step halves. Needs no gradient, sees every
atom at the scale of the step (no zig-zag between atoms, no dead region narrower than it), and costs f evaluations a
step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, Rng, as_like, namespace
from falsifier.search.allocation import spread
from falsifier.search.pace import work_of
from falsifier.search.run import Run
from falsifier.search.starts import mixed, place, uniform

if TYPE_CHECKING:
    from falsifier.problem import Problem

_LARGEST, _SMALLEST = 0.25, 2.0**-20  # steps, in widths of the box
_FEWEST = 2  # lanes
_MOVES = 6  # that are tried from a lane, its own evaluation included
_PROBES = 2048  # evaluations of one step, about
_NUMBERS = 1 << 24  # in the probes of one step, where many groups share it


class Descent:
    """Lanes of finite-difference descent; stuck ones start anew, every third at its target's best point."""

    name = "descent"
    growth = 1.6

    def __init__(self, seconds: float = 0.15, dimensions: int = 130) -> None:
        self.slice = seconds
        self._dimensions = dimensions

    def applies(self, run: Run) -> bool:
        """In few enough dimensions that a probe for each is affordable."""
        return run.problems.single.f <= self._dimensions

    def turn(self, run: Run) -> None:
        """Steps until the time is up."""
        problem = run.batched
        if not run.holds(_FEWEST * (problem.f + _MOVES), work_of(problem)):
            return
        fits = run.pace.fits(work_of(problem), max(run.left(), 0.0), _PROBES)
        lanes = int(np.clip(min(_PROBES, fits // 8) // problem.f, _FEWEST, 64))
        if run.width > 1:
            most = max(_FEWEST, min(64 * run.width, _NUMBERS // (problem.f * (problem.f + 1))))
            lanes = int(np.clip(fits // (8 * problem.f), min(2 * run.width, most), most))
        group = _Group(run, problem, lanes)
        while run.going(group.cost):
            group.step()


class _Group:
    """The lanes of one turn: target `[b]`, x `[b, f]`, margin `[b]` and step `[b]` (host), previous x."""

    def __init__(self, run: Run, problem: Problem, lanes: int) -> None:
        self.run, self.problem = run, problem
        self.lanes = lanes
        self.cost = lanes * (problem.f + _MOVES)
        self.rng: Rng = run.rng.spawn()
        self.target = spread(run, lanes)
        self.step_size = np.full(lanes, _LARGEST)
        self.margin = np.full(lanes, -np.inf)
        lower, upper = problem.box(as_like(self.target, problem.like))
        self.x = place(uniform(self.rng, lanes, problem.f, problem.like), lower, upper)
        self.x = self._starts(np.arange(lanes) % 3 == 0)
        self.before = self.x

    def step(self) -> None:
        """Probe every dimension, try the candidate moves, keep what is better."""
        problem, lanes, f = self.problem, self.lanes, self.problem.f
        xp = namespace(self.x)
        target = as_like(self.target, problem.like)
        lower, upper = (xp.broadcast_to(a, (lanes, f)) for a in problem.box(target))
        width = upper - lower
        h = as_like(self.step_size, problem.like, problem.dtype)[:, None] * width
        sign = xp.where(self.rng.uniform((lanes, f), problem.like) < 0.5, -xp.ones_like(h), xp.ones_like(h))
        sign = xp.where(self.x + sign * h > upper, -xp.ones_like(h), sign)
        sign = xp.where(self.x + sign * h < lower, xp.ones_like(h), sign)
        moved = xp.clip(self.x + sign * h, lower, upper)
        probes = xp.where(xp.eye(f, dtype=xp.bool, device=h.device)[None], moved[:, None, :], self.x[:, None, :])
        probes = xp.concat([self.x[:, None, :], probes], axis=1)  # the lane itself, then one probe per dimension
        evaluation, probed = self.run.judge(problem, probes.reshape((-1, f)), np.repeat(self.target, f + 1))
        probed = probed.reshape(lanes, f + 1)
        self.margin = probed[:, 0]
        slack = evaluation.slack.reshape((lanes, f + 1, -1))
        moves = self._moves(slack[:, 1:], slack[:, 0], moved - self.x, h, lower, upper)
        count = moves.shape[1]
        tried = self.run.evaluate(problem, moves.reshape((-1, f)), np.repeat(self.target, count))
        self._take(moves, tried.reshape(lanes, count), probes, probed)

    def _moves(self, slack: Array, base: Array, delta: Array, h: Array, lower: Array, upper: Array) -> Array:
        """Candidate moves `[b, c, f]` from slacks of probes `[b, f, k]` and lanes `[b, k]`, displacements `[b, f]`."""
        xp = namespace(slack)
        usable = xp.isfinite(slack) & xp.isfinite(base)[:, None, :]
        slack = xp.where(usable, slack, xp.zeros_like(slack))
        rise = xp.where(usable, slack - xp.where(xp.isfinite(base), base, xp.zeros_like(base))[:, None, :], slack)
        quotient = xp.where(delta != 0, 1 / xp.where(delta != 0, delta, xp.ones_like(delta)), xp.zeros_like(delta))
        gradient = rise * (quotient * h)[:, :, None]  # [b, f, k]: rise of each atom over a full step in each dimension
        finite = xp.where(
            xp.isfinite(base), base, xp.max(xp.where(xp.isfinite(base), base, -1e30), axis=1)[:, None] + 1e6
        )
        worst = xp.min(finite, axis=1)[:, None]
        reach = xp.sum(xp.abs(gradient), axis=1)  # [b, k]
        scale = xp.max(reach, axis=1)[:, None] + 1e-30
        moves = []
        for sharpness in (1.0, 8.0):
            weight = xp.exp(-sharpness * (finite - worst) / scale)
            weight = weight / xp.sum(weight, axis=1)[:, None]
            slope = xp.sum(gradient * weight[:, None, :], axis=2)
            moves.append(xp.sign(slope) * h)
            moves.append(h * slope / (xp.max(xp.abs(slope), axis=1)[:, None] + 1e-30))
        moves.append(self.x - self.before)
        moves.append(2.0 * h * slope / (xp.max(xp.abs(slope), axis=1)[:, None] + 1e-30))
        stacked = xp.stack(moves, axis=1) + self.x[:, None, :]
        return xp.clip(stacked, lower[:, None, :], upper[:, None, :])

    def _take(self, moves: Array, tried: NDArray[np.float64], probes: Array, probed: NDArray[np.float64]) -> None:
        """Move each lane to its best candidate if that is better; restart those whose step became too small."""
        xp = namespace(self.x)
        rows = np.arange(self.lanes)
        problem = self.problem
        best_move, best_probe = np.argmax(tried, axis=1), np.argmax(probed, axis=1)
        by_move = tried[rows, best_move] >= probed[rows, best_probe]
        value = np.maximum(tried[rows, best_move], probed[rows, best_probe])
        better = value > self.margin
        lane = as_like(rows, problem.like)
        move = moves[lane, as_like(best_move, problem.like)]
        probe = probes[lane, as_like(best_probe, problem.like)]
        chosen = xp.where(as_like(by_move, problem.like)[:, None], move, probe)
        keep = as_like(better, problem.like)[:, None]
        self.before = xp.where(keep, self.x, self.before)
        self.x = xp.where(keep, chosen, self.x)
        self.margin = np.where(better, value, self.margin)
        self.step_size = np.where(
            better, np.minimum(self.step_size * np.where(by_move, 1.5, 1.0), _LARGEST), self.step_size / 2
        )
        stuck = (self.step_size < _SMALLEST) | ~self.run.ledger.open[self.target]
        if stuck.any():
            self._restart(stuck)

    def _restart(self, stuck: NDArray[np.bool_]) -> None:
        """New starts for stuck lanes; a third of them at the best point of their target with a small step."""
        problem = self.problem
        xp = namespace(self.x)
        aims = spread(self.run, self.lanes)
        self.target = np.where(stuck, aims, self.target)
        near = stuck & (np.arange(self.lanes) % 3 == 0)
        mask = as_like(stuck, problem.like)[:, None]
        self.x = xp.where(mask, self._starts(near), self.x)
        self.before = xp.where(mask, self.x, self.before)
        self.step_size = np.where(stuck, np.where(near, _LARGEST / 16, _LARGEST), self.step_size)

    def _starts(self, near: NDArray[np.bool_]) -> Array:
        """Fresh points of every lane's target; where `near`, the target's best point if there is one."""
        problem = self.problem
        xp = namespace(self.x)
        lower, upper = problem.box(as_like(self.target, problem.like))
        x = place(mixed(self.rng, self.lanes, problem.f, problem.like), lower, upper)
        known, best = self.run.ledger.known(self.target)
        if best is None:
            return x
        return xp.where(as_like(known & near, problem.like)[:, None], as_like(best, problem.like, problem.dtype), x)
