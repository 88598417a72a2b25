"""Bounding as a stage of a search: boxes are refuted or split, worst first, in turns with the stages that search.

A target whose boxes are all refuted is ruled out, so that search leaves it alone; middles and likely minimisers of the
bounds of the worst boxes are evaluated as candidates and become starting points.

Axes: b box, n flat input, k atom, t target.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import as_like
from falsifier.errors import UnsupportedError
from falsifier.search.run import Run
from falsifier_adapters.lirpa_allowance import Allowance
from falsifier_adapters.lirpa_frontier import Boxes, Frontier
from falsifier_adapters.lirpa_network import BoundedNetwork, Method
from falsifier_adapters.lirpa_region import Region, region_of

if TYPE_CHECKING:
    from falsifier.problems import Problems
    from falsifier_adapters.lirpa_library import Library

Floats = NDArray[np.float64]

_CELLS = 1 << 26  # numbers that the boxes of the frontier may take
_FIRST, _MOST = 16, 1024  # boxes of a call
_LEAST = 8
_CALL_SHARE = 0.2  # of the time left that a call may take
_ROUND = 0.5  # seconds up to which a call may grow; one of four times as long shrinks
_ALPHA_SHARE = 0.1  # of the time left that optimised bounds of whole targets may take
_CROWN_SHARE = 0.1  # of the time left that the bounds of one box may take; dearer ones give way to cheaper
_PROBED = 16  # rounds between two trials of a cheap method before the dear one
_SAMPLES = 4  # points beside the middle whose slopes say how sensitive a box is to an input
_REPLAYED = 4  # middles of a round that the original network is run on
_FED = 16  # boxes of a round whose points the search gets
_FINEST = 8  # units in the last place: boxes no wider are not split
_SLOP = 1e-7  # relative: by how much a value may lie above its own bound before the bounds count as wrong


class Bounding:
    """Refutes targets. `fault` says what ended it, `report` what it did."""

    name = "bound"
    growth = 2.0

    def __init__(self, problems: Problems, library: Library, seconds: float = 1.0, rng_seed: int = 0) -> None:
        self.slice = seconds
        self._problems, self._library = problems, library
        self._rng = np.random.default_rng(rng_seed)
        self._ready = False
        self.fault = ""
        self.methods: Counter[str] = Counter()
        self.boxes = self.refuted = self.rounds = 0
        self._size = _FIRST
        self._cheap_gain, self._since = 0.0, 0

    def applies(self, run: Run) -> bool:
        """While there is something to refute, nothing in the way, and time for a call."""
        return not self.fault and not run.settled and self._in_time(run)

    def turn(self, run: Run) -> None:
        """Rounds until the time is up."""
        try:
            if not self._ready:
                self._start(run)
                self._ready = True
            first = self.rounds
            allowed = max(1, int(8 * (run.until - run.pace.now()))) if run.pace.nominal else None
            while run.going() and not self.fault and self._in_time(run):
                self._round(run)
                if allowed is not None and self.rounds - first >= allowed:
                    return
        except UnsupportedError as error:
            self.fault = str(error)
        except MemoryError:
            self.fault = "ran out of memory"

    @property
    def proved(self) -> bool:
        """Whether every target is refuted by more than what is allowed for rounding now."""
        if not self._ready or self.fault or len(self._pending) or self._left.any():
            return False
        return bool(np.all(self._ceiling < -self._allowance.of_targets()))

    def report(self) -> dict[str, Any]:
        """What was done, JSON types."""
        found: dict[str, Any] = {
            "boxes": self.boxes,
            "refuted": self.refuted,
            "rounds": self.rounds,
            "methods": dict(self.methods),
        }
        if self._ready:
            found["open"] = len(self._frontier) + len(self._pending)
            found["open_targets"] = int((self._left > 0).sum())
            found["allowance"] = float(self._allowance.of_targets().max())
            finite = self._ceiling[np.isfinite(self._ceiling)]
            found["gap"] = float(-finite.max()) if finite.size else None
        return found

    # --- the start ---

    def _start(self, run: Run) -> None:
        problems = self._problems
        nearest = problems.nearest
        self._region: Region = region_of(problems.spec, None if nearest is None else nearest.spec)
        region = self._region
        self._network = BoundedNetwork(problems.lowered, region.columns, self._library)
        if (self._network.n, self._network.width) != (region.lower.shape[1], region.rows.shape[2]):
            raise UnsupportedError("the query does not speak of all inputs and outputs of the network")
        self._dtype = problems.spec.dtype
        self._allowance = Allowance(region, self._dtype)
        self._ceiling = np.full(region.t, -np.inf)  # the greatest bound below which a target's boxes were refuted
        self._left = np.ones(region.t, np.int64)  # boxes of each target that are not refuted
        self._pending = np.arange(region.t)  # targets whose whole box was not bounded yet
        self._frontier = Frontier(self._network.n, max(1, _CELLS // max(1, self._network.n)))
        some = self._rng.choice(region.t, min(region.t, 16), replace=False)
        points, target = self._spread(np.repeat(some, 2)), np.repeat(some, 2)
        self._network.check(points)
        self._replay(points, target)

    def _spread(self, target: NDArray[np.int64]) -> Floats:
        """Uniform points in the boxes of targets."""
        lower, upper = self._region.lower[target], self._region.upper[target]
        return np.asarray(lower + (upper - lower) * self._rng.random(lower.shape))

    # --- a round ---

    def _round(self, run: Run) -> None:
        self.rounds += 1
        left = run.budget.remaining()
        if len(self._pending):
            now, self._pending = self._pending[: self._size], self._pending[self._size :]
            boxes = Boxes(self._region.lower[now], self._region.upper[now], now, np.zeros(len(now), np.int64))
            score = self._climb(boxes, left, run)
        else:
            self._fit(run)
            if not len(self._frontier):
                self.fault = self.fault or "what is left cannot be split further"
                return
            parents = self._frontier.worst(max(1, self._size // 2))
            whole = parents.axis >= 0
            if not whole.all():
                self.fault = "a box of a few representable values is left"
                return
            boxes = parents.halves()
            np.add.at(self._left, parents.target, 1)
            score = self._bounds(boxes, self._dear(left), cheap_first=True)
        self._sort_out(run, boxes, score)

    def _climb(self, boxes: Boxes, left: float, run: Run) -> Floats:
        """Bounds of whole targets, by dearer methods for what the cheap ones leave."""
        score = np.full(len(boxes), np.inf)
        rows = np.arange(len(boxes))
        for method in (Method.IBP, self._dear(left), Method.ALPHA):
            if method is Method.ALPHA:
                price = self._network.expected(method) * len(rows) * (1 + len(self._pending) / len(boxes))
                if (
                    price > _ALPHA_SHARE * left
                    or not self._network.fits(Method.CROWN, len(rows))
                    or not self._network.optimised
                ):
                    break
            score[rows] = np.minimum(score[rows], self._bounds(boxes.take(rows), method))
            rows = np.flatnonzero(score >= -self._allowance.of_targets()[boxes.target])
            if not len(rows) or run.budget.remaining() <= 0:
                break
        return score

    def _dear(self, left: float) -> Method:
        """The tightest method whose price for one box is small beside the time left."""
        crown = self._network.expected(Method.CROWN) <= _CROWN_SHARE * left and self._network.fits(Method.CROWN)
        return Method.CROWN if crown else Method.CROWN_IBP

    def _bounds(self, boxes: Boxes, method: Method, *, cheap_first: bool = False) -> Floats:
        """Upper bounds `[b]` of the margins of boxes. A cheap method goes first where that was seen to pay."""
        if cheap_first and method is Method.CROWN and self._cheap_pays():
            score = self._bounds(boxes, Method.CROWN_IBP)
            rest = np.flatnonzero(score >= -self._allowance.of_targets()[boxes.target])
            self._cheap_gain = 0.5 * self._cheap_gain + 0.5 * (1 - len(rest) / len(boxes))
            if len(rest):
                score[rest] = np.minimum(score[rest], self._bounds(boxes.take(rest), method))
            return score
        target = boxes.target
        bounds = self._network.upper(boxes.lower, boxes.upper, self._region.rows[target], method)
        self.methods[method.value] += len(boxes)
        slack = np.where(self._region.present[target], bounds - self._region.bound[target], np.inf)
        return np.asarray(slack.min(axis=1))

    def _cheap_pays(self) -> bool:
        self._since += 1
        price = self._network.expected(Method.CROWN_IBP) / max(self._network.expected(Method.CROWN), 1e-9)
        return self._cheap_gain > price or self._since % _PROBED == 1

    def _in_time(self, run: Run) -> bool:
        """Whether a call is expected to end before the deadline does: a library does not look at the clock."""
        return not self._ready or 2 * self._network.last_call[0] < run.budget.remaining()

    def _fit(self, run: Run) -> None:
        """How many boxes the next call takes."""
        seconds, boxes = self._network.last_call
        if seconds > 4 * _ROUND or seconds > _CALL_SHARE * run.budget.remaining():
            self._size = max(_LEAST, self._size // 2)
        elif seconds < _ROUND and boxes >= self._size // 2 and 4 * seconds < _CALL_SHARE * run.budget.remaining():
            self._size = min(_MOST, 2 * self._size)
        while self._size > _LEAST and not self._network.fits(Method.CROWN, self._size):
            self._size //= 2
        if not self._frontier.room(self._size):
            self.fault = "the boxes that are left fill the memory set aside for them"

    def _sort_out(self, run: Run, boxes: Boxes, score: Floats) -> None:
        """Drop what is refuted, keep the rest, and tell the search."""
        self.boxes += len(boxes)
        middle, outputs = self._checked(boxes, score)
        if self.fault:
            return
        refuted = score < -self._allowance.of_targets()[boxes.target]
        gone = boxes.target[refuted]
        self.refuted += len(gone)
        np.maximum.at(self._ceiling, gone, score[refuted])
        np.subtract.at(self._left, gone, 1)
        run.gained = run.gained or bool(len(gone))
        self._look(run, boxes.take(~refuted), score[~refuted], middle[~refuted], outputs[~refuted])
        closed = np.unique(gone[self._left[gone] == 0])
        closed = closed[run.ledger.open[closed]]
        if len(closed) and not self.fault:
            run.rule_out(closed)

    def _checked(self, boxes: Boxes, score: Floats) -> tuple[Floats, Floats]:
        """The middles of boxes and their outputs; a margin above its own bound is the end of all bounding."""
        target, region = boxes.target, self._region
        middle = (boxes.lower + boxes.upper) / 2
        outputs = self._network.values(middle)
        rows, bound = region.rows[target], region.bound[target]
        slack = (rows @ outputs[:, :, None])[:, :, 0] - bound
        slop = _SLOP * ((np.abs(rows) @ np.abs(outputs)[:, :, None])[:, :, 0] + np.abs(bound))
        lowest = np.where(region.present[target], slack - slop, np.inf).min(axis=1)
        if np.any(lowest > score):
            self.fault = "auto_LiRPA's bounds exclude a value that the network has"
        return middle, outputs

    def _look(self, run: Run, boxes: Boxes, score: Floats, middle: Floats, outputs: Floats) -> None:
        """Slopes in boxes that are left: where to split, what to allow for, what the search should try."""
        if not len(boxes):
            return
        target, region = boxes.target, self._region
        slack = (region.rows[target] @ outputs[:, :, None])[:, :, 0] - region.bound[target]
        worst = np.where(region.present[target], slack, np.inf).argmin(axis=1)
        rows = region.rows[target, worst]
        slope = self._network.slopes(middle, rows)
        steep = np.abs(slope)
        for _ in range(_SAMPLES if self._network.n <= 64 else 0):
            inside = boxes.lower + (boxes.upper - boxes.lower) * self._rng.random(middle.shape)
            steep = steep + np.abs(self._network.slopes(inside, rows))
        axis = self._axis(boxes, steep)
        self._frontier.add(Boxes(boxes.lower, boxes.upper, target, axis), score)
        first = np.argsort(-score, kind="stable")[:_FED]
        self._replay(middle[first[:_REPLAYED]], target[first[:_REPLAYED]])
        corner = np.where(slope > 0, boxes.upper, boxes.lower)[first]
        self._feed(run, np.concatenate([middle[first], corner]), np.tile(target[first], 2))

    def _axis(self, boxes: Boxes, steep: Floats) -> NDArray[np.int64]:
        """The input to split by: width times sensitivity; -1 where no width is left."""
        width = boxes.upper - boxes.lower
        ulp = np.finfo(self._dtype).eps * np.maximum(np.abs(boxes.lower), np.abs(boxes.upper))
        wide = width > _FINEST * ulp + np.finfo(self._dtype).tiny
        floor = 0.02 * steep.max(axis=1, keepdims=True) + np.finfo(float).tiny
        weight = np.where(wide, width * (steep + floor), -1.0)
        return np.asarray(np.where(wide.any(axis=1), weight.argmax(axis=1), -1))

    def _replay(self, points: Floats, target: NDArray[np.int64]) -> None:
        """Compare the original network with the float64 one at points `[b, n]`."""
        typed = points.astype(self._dtype)
        exact = self._network.values(typed.astype(np.float64))
        replayed = np.asarray(self._problems.single.engine.outputs(typed), dtype=np.float64)
        seen = np.concatenate([replayed, exact[:, replayed.shape[1] :]], axis=1)
        self._allowance.see(exact, seen, target)

    def _feed(self, run: Run, points: Floats, target: NDArray[np.int64]) -> None:
        """Points `[b, n]` as candidates of the search, moved into the boxes that it searches."""
        problem = run.batched
        room = min(len(points), run.room())
        if room <= 0 or run.over():
            return
        free = np.asarray(self._problems.domain.restrict(points[:room]))
        aim = as_like(target[:room], problem.like)
        lower, upper = problem.box(aim)
        run.evaluate(problem, problem.xp.clip(as_like(free, problem.like, problem.dtype), lower, upper), aim)
