"""A stack at work: many instances of one network in one search, each with its door, its clock and its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arguments import demand_device
from falsifier.arrays import Rng
from falsifier.budget import Budget
from falsifier.campaign.plan import Job, Question
from falsifier.campaign.record import Decision, Record
from falsifier.campaign.shares import Shares
from falsifier.errors import EngineError
from falsifier.falsify import Problems
from falsifier.network import Network
from falsifier.problem import Problem
from falsifier.search.groups import Groups
from falsifier.search.portfolio import stages_of
from falsifier.search.run import Run
from falsifier.search.search import search_run
from falsifier.spec import Rounding, Spec
from falsifier.spec.stacking import Part, part_of, stacked
from falsifier.verdict import StopReason, Verdict
from falsifier.witness.confirm import Door
from falsifier.witness.judge import Judge
from falsifier.witness.outcome import Witness, WitnessClass
from falsifier.witness.text import write_witness

if TYPE_CHECKING:
    from falsifier.query.tree import Query

_FEWEST_LANES = 2  # that must fit into memory at once for a stack to be one


class ApartError(Exception):
    """This network is better searched one instance after the other; the text says why."""


@dataclass(frozen=True)
class Member:
    """An instance in a stack: its job, its targets, and the seconds that reading took."""

    job: Job
    part: Part
    prepare: float
    query: Query | None = None  # bound to the network; kept where it is small, else read again for the door

    @property
    def question(self) -> Question:
        assert self.job.question is not None
        return self.job.question


@dataclass(frozen=True)
class Settings:
    """What all instances of a campaign have in common. evaluations: a cap for each instance."""

    device: str = "auto"
    require: str = "correct"
    portfolio: str = "standard"
    rng_seed: int = 0
    evaluations: int | None = None

    def demand(self) -> None:
        """Raise InputError for a device or a portfolio that there is not."""
        demand_device(self.device)
        stages_of(self.portfolio)


class StackedProblems(Problems):
    """The `ProblemSource` of a stack."""

    def __init__(
        self,
        spec: Spec,
        network: Network,
        budget: Budget,
        device: str,
        wider: Callable[[], Spec] | None = None,
        inner: Problems | None = None,
    ) -> None:
        """wider: makes the spec of the nearest-rounded boxes when it is asked for; inner: as in `Problems`."""
        self.spec = spec
        self._network, self._budget, self._device, self._inner = network, budget, device, inner
        self._wider = wider
        self._problems: dict[str, Problem] = {}
        self.engine_name = "single-sample"

    @cached_property
    def batched(self) -> Problem:
        """Raises ApartError where this network gains nothing from a stack."""
        problem = self._on(self._engine)
        if problem.serial:
            raise ApartError("it runs one sample at a time")
        if problem.lanes_in_memory < _FEWEST_LANES:
            raise ApartError("few of its lanes fit into memory at once")
        return problem

    @cached_property
    def nearest(self) -> Problems | None:
        if self._wider is None:
            return None
        spec = self._wider()
        mine, its = self.targets, spec.targets
        assert its is not None
        if np.array_equal(mine.lower, its.lower) and np.array_equal(mine.upper, its.upper):
            return None
        return StackedProblems(spec, self._network, self._budget, self._device, None, self)


class Stack:
    """One search over the members; what it finds is recorded at once."""

    def __init__(
        self, members: Sequence[Member], network: Network, settings: Settings, record: Record, budget: Budget
    ) -> None:
        self.members, self._network, self._settings, self._record = members, network, settings, record
        self.budget = budget
        self.shares = Shares([m.job.limit - m.prepare for m in members], budget, settings.evaluations)
        self.groups = Groups([m.part.t for m in members], self._confirm, self._watched)
        self.decided = np.zeros(len(members), dtype=bool)
        self.run: Run | None = None
        self.tell: Callable[[], None] = lambda: None
        self._judges: dict[int, Judge] = {}
        self._budgets: dict[int, Budget] = {}
        self._queries: dict[int, Query] = {}

    def search(self) -> list[Member]:
        """Decide the members; those returned are still open, and better run one after the other."""
        network, settings = self._network, self._settings
        spec = stacked([m.part for m in self.members], network.reference.m, Rounding.INWARD)
        problems = StackedProblems(spec, network, self.budget, settings.device, self._wider)
        self.shares.begin(self.groups)
        try:
            self.run = Run.start(problems, self.budget, Rng(settings.rng_seed), self.groups)
            result = search_run(self.run, settings.portfolio)
        except (ApartError, EngineError, MemoryError):
            self._watched()
            seconds = self.shares.seconds
            left = [i for i in range(len(self.members)) if self.groups.open[i] and not self.decided[i]]
            return [replace(self.members[i], prepare=self.members[i].prepare + seconds) for i in left]
        for i in np.flatnonzero(~self.decided).tolist():
            self._end(i, result.reason)
        return []

    def _watched(self) -> list[int]:
        """Asked by the search between batches."""
        ended = self.shares.watch()
        for group in ended:
            self._forget(group)
            if not self.decided[group]:
                timed_out = self.shares.timed_out(group)
                self._end(group, StopReason.DEADLINE if timed_out else StopReason.EVALUATIONS)
        self.tell()
        return ended

    def _end(self, i: int, reason: StopReason) -> None:
        """An instance without a witness."""
        verdict = Verdict.TIMEOUT if reason is StopReason.DEADLINE else Verdict.UNKNOWN
        member = self.members[i]
        self.decided[i] = True
        self._record.decide(member.job, Decision(verdict, reason.value, member.prepare, self.shares.seconds))

    def _confirm(self, i: int, point: NDArray[Any]) -> bool:
        """Whether a point ends the search for an instance; asks its own door."""
        if i not in self._judges:
            self._judges[i] = self._judge(i)
        judge, budget = self._judges[i], self._budgets[i]
        budget.evaluations = int(self.shares.evaluations)
        done = judge(point)
        if budget.max_evaluations is not None:  # a `correct` witness is in hand, an `exact` one is sought for a while
            self.shares.cap(i, budget.max_evaluations)
        if done:
            assert judge.witness is not None
            self._sat(i, judge.witness)
            self._forget(i)
        return done

    def _forget(self, i: int) -> None:
        for kept in (self._judges, self._budgets, self._queries):
            kept.pop(i, None)

    def _judge(self, i: int) -> Judge:
        member = self.members[i]
        query = member.query or member.question.query()
        door = Door(query, [self._network.reference], WitnessClass(self._settings.require))
        self._budgets[i], self._queries[i] = Budget(), door.query
        patient = bool(np.any(member.part.exact))
        return Judge(door, self._budgets[i], patient, lambda witness: self._sat(i, witness))

    def _sat(self, i: int, witness: Witness) -> None:
        """Keep a witness."""
        member = self.members[i]
        text = write_witness(self._queries[i], witness)
        decision = Decision(
            Verdict.SAT, witness.reason, member.prepare, self.shares.seconds, text, witness.class_.value
        )
        if self.decided[i]:
            self._record.improve(member.job, decision)
        else:
            self.decided[i] = True
            self._record.decide(member.job, decision)

    def _wider(self) -> Spec:
        """The stack in nearest-rounded boxes; what is decided keeps its boxes."""
        parts = [
            m.part if self.decided[i] else part_of(m.question.spec(m.query, self._network, Rounding.NEAREST))
            for i, m in enumerate(self.members)
        ]
        return stacked(parts, self._network.reference.m, Rounding.NEAREST)
