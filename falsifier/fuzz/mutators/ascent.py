"""Drives inner tensors to where numbers break, by the gradient of their magnitude: overflow, zeros, ends of domains.

Every lane follows a recipe: one to three sites, each with a way to go and an element to move. It keeps its best point,
and proposes the next by steps of several kinds, whose size grows with success and shrinks with failure. A lane whose
recipe is used up gets another.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Rng, step
from falsifier.fuzz.magnitude import Magnitudes
from falsifier.fuzz.sites import Way, goals
from falsifier.fuzz.space import Space

Array = NDArray[Any]

_PARTS = 3  # sites of one recipe, at most
_OLD = 32  # steps after which a recipe is used up
_NEAR = 3e-7  # of the first value of a recipe: what counts as nearly 0
_BROKEN = -1e12  # the merit of a point whose tensors are NaN: it was a hit, there is nothing left to climb
_ALONG_NOTHING = 5  # the step that needs no slope
_FAR = 1e3  # the merit of an infinity that was asked for
_LOOK = 4  # evaluations: two runs forward, one forward and back
_UP, _DOWN, _ZERO = range(3)
_CODE = {Way.UP: _UP, Way.DOWN: _DOWN, Way.ZERO: _ZERO}


class Ascent:
    """A population of lanes over the sites of one network; its children are the lanes' next points."""

    name = "ascent"
    most = 2 * _LOOK  # a look at where it got, and one at where it starts anew

    def __init__(self, space: Space, magnitudes: Magnitudes) -> None:
        self._space = space
        self._magnitudes = magnitudes
        self._goals = np.array([(s, _CODE[way]) for s, way in goals(magnitudes.sites)])
        self._partner = np.array([s.partner for s in magnitudes.sites])
        self._ways = [[_CODE[w] for w in s.ways] for s in magnitudes.sites]
        self._turn = 0
        self._lanes = 0
        self.home: Array = np.zeros(0, np.int64)
        self.evaluations = 0
        self._age = self._rate = self._merit = np.zeros(0)
        self._walks = np.zeros(0, np.bool_)

    def children(self, parents: Array, oldest: Array, rng: Rng) -> Array:
        b = len(parents)
        self.evaluations = 0
        if b != self._lanes:
            self._start(parents, oldest, rng)
        else:
            self._learn()
            old = np.flatnonzero(
                (self._age > np.where(self._walks, 3 * _OLD, _OLD)) | (self._rate < 1e-8) | (self._merit <= _BROKEN)
            )
            if old.size:
                self._renew(old, parents[old], oldest[old], rng)
        self._next = self._space.project(self._propose(rng), self._space.starts[self.home])
        return self._next.copy()

    def _start(self, parents: Array, oldest: Array, rng: Rng) -> None:
        b, n = parents.shape
        self._lanes = b
        self._best, self.home = parents.copy(), oldest.copy()
        self._next = parents.copy()
        self._slope = np.zeros((b, n), np.float64)
        self._value = np.zeros((b, _PARTS))
        self._merit = np.full(b, -np.inf)
        self._rate, self._age = np.ones(b), np.zeros(b, np.int64)
        self._secant = np.zeros(b)
        self._walks, self._polished, self._scale = np.zeros(b, np.bool_), np.zeros(b, np.bool_), np.ones(b)
        self._site = np.zeros((b, _PARTS), np.int64)
        self._way = np.full((b, _PARTS), -1)
        self._element = np.full((b, _PARTS), -1)
        self._renew(np.arange(b), parents, oldest, rng)

    def _renew(self, lanes: Array, parents: Array, oldest: Array, rng: Rng) -> None:
        """New recipes for some lanes; a third of them goes on from where it is."""
        k = lanes.size
        renewed = (rng.uniform((k,)) > 1 / 3) | (self._merit[lanes] <= _BROKEN)
        self._best[lanes[renewed]], self.home[lanes[renewed]] = parents[renewed], oldest[renewed]
        first = (self._turn + np.arange(k)) % len(self._goals)
        self._turn += k
        self._site[lanes, 0], self._way[lanes, 0] = self._goals[first, 0], self._goals[first, 1]
        parts = 1 + (rng.uniform((k,)) < 0.5) + (rng.uniform((k,)) < 0.15)
        for p in range(1, _PARTS):
            other = self._goals[rng.integers(0, len(self._goals), (k,))]
            partner = self._partner[self._site[lanes, 0]]
            beside = (partner >= 0) & (rng.uniform((k,)) < 0.6) & (p == 1)
            pick = rng.integers(0, 1 << 30, (k,))
            ways = np.array([self._ways[s][r % len(self._ways[s])] for s, r in zip(partner, pick, strict=True)])
            self._site[lanes, p] = np.where(beside, partner, other[:, 0])
            self._way[lanes, p] = np.where(parts > p, np.where(beside, ways, other[:, 1]), -1)
        # the extreme element, or one that is kept: the same for all parts, so that operands meet in it
        kept = np.where(rng.uniform((k,)) < 0.5, -1, rng.integers(0, 1 << 20, (k,)))
        self._element[lanes] = kept[:, None]
        self._rate[lanes] = 4.0 ** -rng.integers(0, 8, (k,))
        self._age[lanes] = 0
        alone = (self._way[lanes] >= 0).sum(axis=1) == 1
        self._walks[lanes] = alone & (self._way[lanes, 0] != _UP) & (rng.uniform((k,)) < 0.4)
        self._merit[lanes] = -np.inf
        value, merit, slope = self._look(self._best[lanes], lanes)
        self._value[lanes], self._merit[lanes], self._slope[lanes] = value, merit, slope
        self._secant[lanes] = 0
        self._scale[lanes], self._polished[lanes] = np.abs(value[:, 0]), False

    def _learn(self) -> None:
        """Whether the points proposed last are better than the best ones."""
        lanes = np.arange(self._lanes)
        value, merit, slope = self._look(self._next, lanes)
        # a sum of magnitudes falls to 0 by steps of Polyak's length, not all of which fall
        walks = self._walks & (merit > _BROKEN)
        better = (merit >= self._merit) | walks
        gained = (merit > self._merit) | walks
        self._secants(better, slope)
        self._best[better], self._value[better] = self._next[better], value[better]
        self._slope[better], self._merit[better] = slope[better], merit[better]
        self._rate = np.where(gained, np.minimum(self._rate * 1.5, 1.0), self._rate * 0.6)
        self._age += 1
        # nearly 0: what is left are last bits, for which there is more time and no walking
        near = (self._way[:, 0] != _UP) & (np.abs(self._value[:, 0]) < _NEAR * self._scale)
        self._age = np.where(near & ~self._polished, 0, self._age)
        self._rate = np.where(near, np.maximum(self._rate, 1e-6), self._rate)
        self._polished |= near
        self._walks &= ~self._polished
        reached = (self._way[:, 0] == _ZERO) & (self._value[:, 0] == 0) & (self._way[:, 1] < 0)
        self._age = np.where(reached, self._age + _OLD // 8, self._age)

    def _secants(self, moved: Array, slope: Array) -> None:
        """Barzilai and Borwein's lengths: what two slopes say of the curvature between them (0: nothing)."""
        span = self._space.span.astype(np.float64)
        with np.errstate(all="ignore"):
            path = (self._next.astype(np.float64) - self._best) / np.where(span > 0, span, 1)
            bend = -(slope - self._slope) * span
            length = (path * path).sum(axis=1) / (path * bend).sum(axis=1)
        self._secant = np.where(moved & np.isfinite(length) & (length > 0), length, np.where(moved, 0, self._secant))

    def _look(self, x: Array, lanes: Array) -> tuple[Array, Array, Array]:
        """Values `[k, parts]` of the recipes' elements, merit `[k]`, and its gradient `[k, n]`."""
        x = np.ascontiguousarray(x)
        self.evaluations += _LOOK * len(x)
        k, sites = len(x), len(self._magnitudes.sites)
        site, way, kept = self._site[lanes], self._way[lanes], self._element[lanes]
        element = np.zeros((k, sites), np.int64)
        rows = np.arange(k)
        extremes = self._magnitudes.extremes(x)
        for p in range(_PARTS):
            at = site[:, p]
            extreme = np.choose(
                np.clip(way[:, p], 0, 2),
                [extremes.largest[rows, at], extremes.smallest[rows, at], extremes.nearest[rows, at]],
            )
            element[rows, at] = np.where(kept[:, p] < 0, extreme, kept[:, p])
        every = self._magnitudes.values(x, element).astype(np.float64)
        value = np.take_along_axis(every, site, axis=1)
        weight = np.zeros((k, sites))
        merit = np.zeros(k)
        for p in range(_PARTS):
            v, used = value[:, p], way[:, p] >= 0
            size = np.where(np.isfinite(v), np.abs(v), 1.0)
            towards = np.select([way[:, p] == _UP, way[:, p] == _DOWN], [1.0, -1.0], -np.sign(v))
            with np.errstate(all="ignore"):
                along = np.where(
                    way[:, p] == _ZERO, -np.log(np.abs(v) + 1e-300), towards * np.sign(v) * np.log1p(np.abs(v))
                )
            along = np.where(np.isfinite(along), along, np.where(np.isnan(v), 2 * _BROKEN, np.sign(along) * _FAR))
            merit += np.where(used, along, 0.0)
            scale = np.where(way[:, p] == _ZERO, 1.0 / np.maximum(size, 1e-30), 1.0 / (1.0 + size))
            alone = (way >= 0).sum(axis=1) == 1
            pull = np.where(used & np.isfinite(v), towards * np.where(alone, 1.0, scale), 0.0)
            np.add.at(weight, (rows, site[:, p]), pull)
        _, slope = self._magnitudes.gradient(x, element, np.clip(weight, -1e30, 1e30))
        return value, merit, slope.astype(np.float64)

    def _propose(self, rng: Rng) -> Array:
        best, span = self._best.astype(np.float64), self._space.span.astype(np.float64)
        b, n = best.shape
        # what would leave the range does not count
        low, high = self._space.lower.astype(np.float64), self._space.upper.astype(np.float64)
        pinned = ((best <= low) & (self._slope < 0)) | ((best >= high) & (self._slope > 0)) | (span == 0)
        largest = np.maximum(np.abs(self._slope).max(axis=1, keepdims=True), 1e-300)
        slope = np.where(pinned, 0.0, self._slope / largest)
        rate = self._rate[:, None]
        with np.errstate(all="ignore"):
            reach = np.maximum(np.abs(slope * span).max(axis=1, keepdims=True), 1e-300)
            scaled = slope * span / reach
            steps = [
                rate * span * np.sign(slope),
                rate * span * scaled,
                self._newton(slope, largest, span, rng),
                np.where(np.abs(scaled) >= 1.0, rate * span * np.sign(slope), 0.0),
                self._coordinate(slope, span, rate, rng),
                np.where(rng.uniform((b, n)) < 2.0 / n, rate * span * rng.normal((b, n)), 0.0),
                self._secant[:, None] * slope * largest * span**2,
            ]
        one_zero = (self._way[:, 0] != _UP) & (self._way[:, 1] < 0)
        kind = rng.integers(0, len(steps) + 1, (b,))
        kind = np.where(one_zero & (rng.uniform((b,)) < 0.4), 2, kind)
        secant = (self._secant > 0) & (np.arange(b) % 2 == 0)
        kind = np.where(self._walks, np.where(secant, len(steps) - 1, 2), kind)
        kind = np.where(self._polished & (rng.uniform((b,)) < 0.7), len(steps), kind)
        flat = np.abs(slope).max(axis=1) == 0
        kind = np.where(flat & (kind != len(steps)), _ALONG_NOTHING, kind)
        move = np.choose(np.minimum(kind, len(steps) - 1)[:, None], steps)
        with np.errstate(all="ignore"):
            x = (best + np.nan_to_num(move, nan=0.0, posinf=0.0, neginf=0.0)).astype(self._best.dtype)
        x = np.where((kind == len(steps))[:, None], self._jittered(rng), x)
        return np.asarray(x)

    def _jittered(self, rng: Rng) -> Array:
        """The best points, moved by a few of their own last bits, or of those of the largest coordinate."""
        b, n = self._best.shape
        moves = rng.integers(-4, 5, (b, n))
        grain = np.abs(self._best).max(axis=1, keepdims=True) * np.finfo(self._best.dtype).eps / 2
        with np.errstate(all="ignore"):
            coarse = self._best + (moves * grain).astype(self._best.dtype)
        fine = step(np.ascontiguousarray(self._best), moves)
        some = rng.uniform((b, n)) < np.where(rng.uniform((b, 1)) < 0.5, 1.0, 2.0 / n)
        return np.where(some, np.where(rng.uniform((b, 1)) < 0.5, coarse, fine), self._best)

    def _newton(self, slope: Array, largest: Array, span: Array, rng: Rng) -> Array:
        """The step at the end of which the first site's element would be 0, or a little below, were it linear."""
        value = self._value[:, 0]
        sign = np.where(self._way[:, 0] == _ZERO, -np.sign(value), np.where(self._way[:, 0] == _DOWN, -1.0, 1.0))
        beyond = np.where(self._way[:, 0] == _ZERO, 1.0, 1.0 + rng.uniform((len(slope),)) ** 4)
        need = np.abs(value) * beyond
        direction = slope * span**2
        # the span may be huge: the direction is normalised before it meets anything
        direction = direction / np.maximum(np.abs(direction).max(axis=1, keepdims=True), 1e-300)
        # slope is the merit's gradient, over `largest`: towards the goal already
        gain = (slope * direction).sum(axis=1) * largest[:, 0]
        length = np.where(sign != 0, need / np.maximum(gain, 1e-300), 0.0)
        return np.asarray(length[:, None] * direction)

    def _coordinate(self, slope: Array, span: Array, rate: Array, rng: Rng) -> Array:
        """One coordinate with a slope, by the Newton step of its own or by the rate."""
        b, n = slope.shape
        score = np.where(slope != 0, rng.uniform((b, n)), -1.0)
        at = score.argmax(axis=1)
        move = np.zeros((b, n))
        rows = np.arange(b)
        move[rows, at] = (rate * span * np.sign(slope))[rows, at]
        return move
