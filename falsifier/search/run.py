"""One run of a search: its budget, ledger, candidates and records, and the calls by which stages evaluate points."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, Rng, as_like, beside, to_host
from falsifier.budget import Budget
from falsifier.records import record
from falsifier.search.candidates import Candidates
from falsifier.search.groups import Confirm, Groups
from falsifier.search.ledger import Ledger
from falsifier.search.pace import Pace, Work, screening, work_of
from falsifier.search.result import StageRecord
from falsifier.search.source import ProblemSource

if TYPE_CHECKING:
    from falsifier.problem import Problem
    from falsifier.search.company import Company
    from falsifier.values import Evaluation

_SCREENED = 1 << 23  # margins of points against targets held at once
_REBASED = 256  # targets whose best points the batched engine judges anew
_COPIES = 4  # targets for each distinct point, from which all targets are judged at it at once
_SLOW = 0.005  # seconds of a sample from which a first gradient round takes longer than bringing up a device
_BRING_UP = 6.0  # seconds left that an accelerator is brought up for: twice what that takes
_OVERRUN = 4  # times what is left of a turn, that its least work may take
_WHOLE = 2.0**24  # magnitude from which float32 has no fractions


@record
class Found:
    """A confirmed point `[n]`, its target, and the stage that found it."""

    stage: str
    target: int
    point: NDArray[Any]


@dataclass
class Run:
    """The state that stages share. `stage` names the one at work.

    coverage: the share of the watched neurons that have fired, where a stage measures it; for progress reports.
    company: who searches for the same elsewhere.
    """

    problems: ProblemSource
    budget: Budget
    rng: Rng
    groups: Groups
    candidates: Candidates
    ledger: Ledger
    pace: Pace
    integer: NDArray[np.bool_]  # `[f]`: free inputs that look integer-valued
    records: dict[str, StageRecord] = field(default_factory=dict)
    finds: list[Found] = field(default_factory=list)  # one for each group that a point closed
    deferred: bool = False  # whether the turn at work was too short for its stage (`holds`)
    starved: dict[str, MemoryError] = field(default_factory=dict)  # stages whose least work does not fit into memory
    gained: bool = False  # whether the turn at work gained something other than a margin
    settled: bool = False  # whether every target was ruled out
    stage: str = ""
    rounds: int = 0
    rebased: bool = False  # whether the ledger's margins are the batched engine's
    passes: int = 0  # of the portfolio, completed
    deals: int = 0  # how often lanes were dealt to targets
    dealt: int = 0  # lanes dealt to targets in turn so far
    until: float = 0.0  # reading of `pace` at which the stage at work hands over
    lanes: int = 0  # of the batch that was evaluated last
    coverage: float | None = None
    started: float = 0.0  # reading of the budget's clock
    company: Company | None = None

    @classmethod
    def start(cls, problems: ProblemSource, budget: Budget, rng: Rng, confirm: Confirm | Groups) -> Run:
        """A fresh run over all targets of `problems`: one group, or the groups of `confirm`."""
        single = problems.single
        groups = confirm if isinstance(confirm, Groups) else Groups.single(single.t, confirm)
        candidates = Candidates(groups, budget)
        ledger = Ledger(single.t, single.f)
        run = cls(problems, budget, rng, groups, candidates, ledger, Pace(budget), integer_valued(single))
        run.started = budget.clock()
        return run

    @property
    def width(self) -> int:
        """How many groups are open."""
        return self.groups.width

    def elapsed(self) -> float:
        """Seconds since the search began."""
        return self.budget.clock() - self.started

    @property
    def batched(self) -> Problem:
        """The problem on the batched engine. When it is first asked for, the best points so far are judged by it.

        Its margins may differ from those of single samples: in rounding, or wholly where a final softmax was left out.
        """
        if not self.rebased:
            before = self.budget.clock()
            single = None if self.pace.nominal else self.pace.seconds(Work.SINGLE)
            if single is not None and single > _SLOW and self._hurry():
                self.problems.accelerate()
            self.rebased = True
            if not self.problems.batched.serial:
                self._rebase(self.problems.batched)
            if not self.pace.nominal:  # bringing up an engine is no part of the turn that first asks for it
                self.until += self.budget.clock() - before
        return self.problems.batched

    def accelerate(self) -> None:
        """Go over to an accelerator, if there is one and time enough to bring it up.

        Stages move what they keep with `arrays.beside`.
        """
        if not self.over() and self._hurry() and self.problems.accelerate():
            self.rebased = False
            self.pace.forget()

    def _hurry(self) -> bool:
        """Whether the time left is worth what it takes to bring up torch and a device."""
        return self.budget.remaining() > _BRING_UP

    def _rebase(self, problem: Problem) -> None:
        aims = self.ledger.ranked()[: _REBASED * max(1, self.width)]
        known, points = self.ledger.known(aims)
        self.ledger.margin[:] = -np.inf
        if points is None or not known.any() or self.over():
            return
        self.revalue(problem, points[known], aims[known])

    def over(self) -> bool:
        """Whether the search ends here."""
        if self.company is not None:
            self.company.look(self)
        if self.groups.watch is not None:
            for group in self.groups.watch():
                self._close(group)
        return self.width == 0 or self.budget.remaining() <= 0 or self.room() < 1

    def _close(self, group: int) -> None:
        self.groups.close(group)
        self.ledger.open[self.groups.targets(group)] = False

    def close(self) -> None:
        """End the search: a stage has all that was asked for."""
        for group in np.flatnonzero(self.groups.open).tolist():
            self._close(group)

    def rule_out(self, targets: NDArray[np.int64]) -> None:
        """Search these targets no longer: a stage has shown that none of their points satisfies them."""
        self.ledger.open[targets] = False
        self.gained = True
        for group in np.unique(self.groups.of[targets]).tolist():
            if not self.ledger.open[self.groups.targets(group)].any():
                self.groups.close(group)
        self.settled = self.width == 0 and not self.finds

    def going(self, evaluations: int = 1, work: Work | None = None) -> bool:
        """Whether the stage at work may make this many more evaluations; of a known kind: by the deadline, too."""
        if self.over() or self.pace.now() >= self.until:
            return False
        each = None if work is None else self.pace.seconds(work)
        if each is not None and not self.pace.nominal and each * evaluations > self.budget.remaining():
            return False
        return self.room() >= evaluations

    def holds(self, evaluations: int, work: Work) -> bool:
        """Whether the turn at work is long enough for this many evaluations, its least work, as far as can be told.

        It may take somewhat longer. Where a sample takes long, stages that need many would leave no time to others.
        """
        each = self.pace.expected(work)
        if each is None or self.pace.nominal or each * evaluations <= _OVERRUN * max(self.left(), 0.0):
            return True
        self.deferred = True
        return False

    def worthwhile(self, target: NDArray[np.int64]) -> bool:
        """Whether at least half of the lanes with targets `[b]` still aim at something open."""
        return self.width > 0 and (self.groups.count == 1 or 2 * int(self.ledger.open[target].sum()) >= target.size)

    def best(self) -> float:
        """The best margin of all targets."""
        return float(self.ledger.margin.max())

    def room(self) -> int:
        """Evaluations that may still be made: one is kept for the door."""
        return int(min(self.budget.evaluations_left() - 1, 1 << 24))

    def left(self) -> float:
        """Seconds that the stage at work still has, by the pace's clock."""
        left = self.until - self.pace.now()
        return left if self.pace.nominal else min(left, self.budget.remaining())

    def evaluate(self, problem: Problem, points: Array, target: Array) -> NDArray[np.float64]:
        """Margins `[b]`, on the host, of points `[b, f]` against their targets `[b]`. Serves ledger and door."""
        return self.judge(problem, points, target)[1]

    def judge(self, problem: Problem, points: Array, target: Array) -> tuple[Evaluation, NDArray[np.float64]]:
        """`evaluate`, for callers that look at outputs or slacks as well. `target` `[b]` may lie on the host."""
        with self.timed(work_of(problem), points.shape[0]):
            evaluation = problem.evaluate(points, beside(target, problem.like))
            margin = host_margin(evaluation.margin)
        self.offer(problem, points, target, margin)
        return evaluation, margin

    def revalue(self, problem: Problem, points: NDArray[Any], aims: NDArray[np.int64]) -> None:
        """`evaluate`, for the best points `[b, f]` of targets `[b]`, on the host: what many share is evaluated once."""
        distinct = list({hash(point.tobytes()): lane for lane, point in enumerate(points)}.values())
        if problem.shared_box and len(distinct) * _COPIES <= aims.size:
            self.screen(problem, as_like(points[distinct], problem.like))
        else:
            self.evaluate(problem, as_like(points, problem.like), as_like(aims, problem.like))

    def screen(self, problem: Problem, points: Array) -> None:
        """Judge every point `[b, f]` against every target; serves ledger and door."""
        size = max(1, _SCREENED // problem.t)
        for first in range(0, points.shape[0], size):
            part = points[first : first + size]
            if self.over():
                return
            with self.timed(screening(problem), part.shape[0]):
                margin = host_margin(problem.screen(part))
            aim = np.arange(problem.t)
            # infinite where nothing is asked beyond the box, or an output is: shown to the door after what is finite
            endless = np.isposinf(margin)
            for seen in (np.where(endless, -np.inf, margin), margin) if endless.any() else (margin,):
                lane = np.argmax(seen, axis=0)
                best = seen[lane, aim]
                keep = np.flatnonzero((best > -np.inf) & self.ledger.open)
                self.offer(problem, part[as_like(lane[keep], problem.like)], aim[keep], best[keep])

    def screen_boxes(self, problem: Problem, points: Array, box: NDArray[np.int64]) -> None:
        """Judge points `[b, f]` of boxes `[b]` against all targets of their own box; serves ledger and door."""
        with self.timed(work_of(problem), points.shape[0]):
            margin = host_margin(problem.screen_boxes(points, box))
        aims = problem.in_box[box]
        size = max(1, _SCREENED // max(1, aims.shape[1] * problem.f))
        for first in range(0, aims.shape[0], size):  # a point stands there for each target that it is good for
            aim, value = aims[first : first + size], margin[first : first + size]
            better = (value > self.ledger.margin[aim]) | (value >= 0)
            lane, place = np.nonzero((aim >= 0) & (value > -np.inf) & self.ledger.open[aim] & better)
            self.offer(problem, points[as_like(lane + first, problem.like)], aim[lane, place], value[lane, place])

    def timed(self, work: Work, evaluations: int) -> _Timed:
        """A context that tells the pace how long this many evaluations took."""
        self.lanes = evaluations
        return _Timed(self.pace, work, evaluations)

    def note(self, problem: Problem, points: Array, target: Array, margin: NDArray[np.float64]) -> bool:
        """Serve the ledger alone, with evaluated points `[b, f]` of targets `[b]`; whether one is a target's best."""
        aim = target if isinstance(target, np.ndarray) else to_host(target)
        better = self.ledger.improving(aim, np.where(np.isposinf(margin), -np.inf, margin))
        if better.size:
            chosen = to_host(points[as_like(better, problem.like)])
            self.ledger.raise_margin(aim[better], margin[better], chosen)
            self.record.improvements += int(better.size)
        return bool(better.size)

    def offer(self, problem: Problem, points: Array, target: Array, margin: NDArray[np.float64]) -> None:
        """Serve the ledger and the door with evaluated points `[b, f]` of targets `[b]`; margin `[b]` on the host."""
        if margin.size == 0:
            return
        aim = target if isinstance(target, np.ndarray) else to_host(target)
        self.note(problem, points, aim, margin)
        if self.width == 0 or not np.max(margin) >= 0:
            return

        def embed(lanes: NDArray[np.int64]) -> NDArray[Any]:
            return np.asarray(to_host(problem.embed(points[as_like(lanes, problem.like)])))

        for lane, point in self.candidates.admit(embed, aim, margin):
            self._found(int(aim[lane]), point)

    def ask(self, aim: int, point: NDArray[Any]) -> bool:
        """Whether the door of a target confirms a full point `[n]`, whatever its margin; closes its group then."""
        confirmed = self.candidates.ask(int(self.groups.of[aim]), point)
        if confirmed:
            self._found(aim, point)
        return confirmed

    def _found(self, aim: int, point: NDArray[Any]) -> None:
        self._close(int(self.groups.of[aim]))
        self.finds.append(Found(self.stage, aim, point))

    @property
    def record(self) -> StageRecord:
        """The record of the stage at work."""
        return self.records.setdefault(self.stage, StageRecord())


class _Timed:
    """Notes the evaluations and seconds of a block."""

    def __init__(self, pace: Pace, work: Work, evaluations: int) -> None:
        self._pace, self._work, self._evaluations = pace, work, evaluations

    def __enter__(self) -> None:
        self._start = self._pace.budget.clock()

    def __exit__(self, *_: object) -> None:
        self._pace.note(self._work, self._evaluations, self._pace.budget.clock() - self._start)


def integer_valued(problem: Problem) -> NDArray[np.bool_]:
    """Free inputs `[f]` with integer bounds in every target, two or more apart in one: pixels, positions, counts."""
    lower, upper = (to_host(a) for a in problem.box(as_like(np.arange(min(problem.t, 1000)), problem.like)))
    lower, upper = lower.astype(np.float64), upper.astype(np.float64)
    whole = (lower == np.round(lower)) & (upper == np.round(upper))
    resolved = np.maximum(np.abs(lower), np.abs(upper)) < _WHOLE  # beyond, every float32 is whole
    return np.asarray((whole & resolved).all(axis=0) & (upper / 2 - lower / 2 >= 1).any(axis=0))


def bounds(problem: Problem, aim: Array) -> tuple[Array, Array]:
    """Lower and upper bounds of lanes with targets `aim` `[b]`: `[b, f]`, or `[1, f]` where all targets share a box.

    Half the memory traffic of a step where lanes are wide.
    """
    return problem.box(aim[:1] if problem.shared_box else aim)


def host_margin(margin: Array) -> NDArray[np.float64]:
    """Margins as host float64."""
    return np.asarray(to_host(margin), dtype=np.float64)
