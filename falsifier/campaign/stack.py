"""A stack at work: many instances of one network in one search, each with its door, its clock and its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arguments import Limits, demand_count, demand_device
from falsifier.arrays import Rng
from falsifier.budget import Budget
from falsifier.campaign.margins import nearest
from falsifier.campaign.plan import Job, Question
from falsifier.campaign.record import Decision, Decisions
from falsifier.campaign.shares import Shares
from falsifier.errors import EngineError, FalsifierError, InputError
from falsifier.network import Network
from falsifier.problem import Problem
from falsifier.problems import Problems
from falsifier.search.groups import Groups
from falsifier.search.portfolio import stages_of
from falsifier.search.run import Run
from falsifier.search.search import search_run
from falsifier.spec import Rounding, Spec
from falsifier.spec.budgets import shrunk
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
    """What all instances of a campaign have in common. evaluations: a cap for each instance; budgets: how far each
    input may move from the centre of its box.
    """

    device: str = "auto"
    require: str = "correct"
    portfolio: str = "standard"
    rng_seed: int = 0
    evaluations: int | None = None
    budgets: Limits | None = None

    def spec(self, question: Question, query: Query | None, network: Network, rounding: Rounding) -> Spec:
        """A question compiled, in the boxes that the budgets leave. Raises InputError, UnsupportedError."""
        spec = question.spec(query, network, rounding)
        return spec if self.budgets is None else shrunk(spec, self.budgets.radius, self.budgets.origin)

    def demand(self) -> None:
        """Raise InputError for a device or a portfolio that there is not, and for counts that are none."""
        demand_device(self.device)
        self.demand_search()

    def demand_search(self) -> None:
        """`demand`, whatever the device: another machine has it."""
        stages_of(self.portfolio)
        demand_count("rng_seed", self.rng_seed, 0)
        if self.evaluations is not None:
            demand_count("evaluations", self.evaluations)


class StackedProblems(Problems):
    """The `ProblemSource` of a stack."""

    @property
    def batched(self) -> Problem:
        """Raises ApartError where this network gains nothing from a stack."""
        problem = self._on(self._engine)
        if problem.serial:
            raise ApartError("it runs one sample at a time")
        if problem.lanes_in_memory < _FEWEST_LANES:
            raise ApartError("few of its lanes fit into memory at once")
        return problem


@dataclass(frozen=True)
class _Door:
    """What decides about a member's candidates, once it has one."""

    judge: Judge
    budget: Budget
    query: Query


class Stack:
    """One search over the members; what it finds is recorded at once."""

    def __init__(
        self, members: Sequence[Member], network: Network, settings: Settings, record: Decisions, budget: Budget
    ) -> None:
        self.members, self._network, self._settings, self._record = members, network, settings, record
        self.budget = budget
        self.shares = Shares([m.job.limit - m.prepare for m in members], budget, settings.evaluations)
        self.groups = Groups([m.part.t for m in members], self._confirm, self._watched)
        self.decided = np.zeros(len(members), dtype=bool)
        self.run: Run | None = None
        self.failure = ""  # what went wrong, if something did that should not
        self.tell: Callable[[], None] = lambda: None
        self._doors: dict[int, _Door] = {}
        self._problems: StackedProblems | None = None

    def search(self) -> list[Member]:
        """Decide the members; those returned are still open, and better run one after the other."""
        network, settings = self._network, self._settings
        problems = self._problems = StackedProblems(self._spec, network, self.budget, settings.device)
        self.shares.begin(self.groups)
        try:
            self.run = Run.start(problems, self.budget, Rng(settings.rng_seed), self.groups)
            result = search_run(self.run, settings.portfolio)
        except InputError:  # the record cannot be written
            raise
        except (ApartError, EngineError, MemoryError):
            return self._left()
        except Exception as error:  # noqa: BLE001 - whatever it is, it costs the stack alone
            self.failure = f"internal error: {type(error).__name__}: {error}"
            return self._left()
        for i in np.flatnonzero(~self.decided).tolist():
            self._end(i, result.reason)
        return []

    def _left(self) -> list[Member]:
        """What is open, with the time that it had."""
        self._watched()
        left = [self.members[i] for i in np.flatnonzero(self.groups.open & ~self.decided).tolist()]
        return [replace(member, prepare=member.prepare + self.shares.seconds) for member in left]

    def _watched(self) -> list[int]:
        """Asked by the search between batches."""
        ended = self.shares.watch()
        for group in ended:
            self._doors.pop(group, None)
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
        self._record.decide(member.job, self._decision(i, verdict, reason.value))

    def _decision(self, i: int, verdict: Verdict, reason: str, witness: Witness | None = None) -> Decision:
        """What is said of an instance as things stand."""
        left: dict[int, float] = {}
        if self.run is not None and verdict in (Verdict.TIMEOUT, Verdict.UNKNOWN):
            left = nearest(self.members[i].part.disjunct, self.run.ledger.margin[self.groups.targets(i)])
        return Decision(
            verdict,
            reason,
            self.members[i].prepare,
            self.shares.seconds,
            None if witness is None else write_witness(self._doors[i].query, witness),
            None if witness is None else witness.class_.value,
            int(self.shares.evaluations),
            tuple(left.values()),
            "" if self._problems is None else self._problems.engine_name,
            disjuncts=tuple(left),
        )

    def _confirm(self, i: int, point: NDArray[Any]) -> bool:
        """Whether a point ends the search for an instance; asks its own door."""
        try:
            if i not in self._doors:
                self._doors[i] = self._door(i)
        except FalsifierError as error:  # its file is gone, or has become another
            self.decided[i] = True
            self._record.decide(self.members[i].job, self._decision(i, Verdict.ERROR, str(error)))
            return True
        judge, budget = self._doors[i].judge, self._doors[i].budget
        budget.evaluations = int(self.shares.evaluations)
        done = judge(point)
        if budget.max_evaluations is not None:  # a `correct` witness is in hand, an `exact` one is sought for a while
            self.shares.cap(i, budget.max_evaluations)
        if done:
            assert judge.witness is not None
            self._sat(i, judge.witness)
            del self._doors[i]
        return done

    def _door(self, i: int) -> _Door:
        member = self.members[i]
        query = member.query or member.question.query()
        door = Door(query, [self._network.reference], WitnessClass(self._settings.require))
        budget, patient = Budget(), bool(np.any(member.part.exact))
        return _Door(Judge(door, budget, patient, lambda witness: self._sat(i, witness)), budget, door.query)

    def _sat(self, i: int, witness: Witness) -> None:
        """Keep a witness."""
        job, decision = self.members[i].job, self._decision(i, Verdict.SAT, witness.reason, witness)
        if self.decided[i]:
            self._record.improve(job, decision)
        else:
            self.decided[i] = True
            self._record.decide(job, decision)

    def _spec(self, rounding: Rounding) -> Spec:
        """The stack in boxes rounded so; what is decided keeps its boxes."""
        kept = self.decided | (rounding is Rounding.INWARD)
        parts = [m.part if kept[i] else self._wider_part(m) for i, m in enumerate(self.members)]
        return stacked(parts, self._network.reference.m, rounding)

    def _wider_part(self, member: Member) -> Part:
        try:
            return part_of(self._settings.spec(member.question, member.query, self._network, Rounding.NEAREST))
        except (FalsifierError, ValueError):  # its file is gone, or has become another
            return member.part
