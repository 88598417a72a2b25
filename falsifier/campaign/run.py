"""Running a campaign in this process: network by network, what stacks in one search, the rest one after another."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from falsifier.arguments import as_network
from falsifier.budget import Budget
from falsifier.campaign.executors import Standing
from falsifier.campaign.margins import nearest_of
from falsifier.campaign.plan import Job, by_network
from falsifier.campaign.record import Decision, Decisions
from falsifier.campaign.stack import Member, Settings, Stack
from falsifier.errors import FalsifierError, UnsupportedError
from falsifier.falsify import Prepared
from falsifier.network import Network, load
from falsifier.query.tree import Query
from falsifier.result import Result
from falsifier.spec import Rounding
from falsifier.spec.stacking import MOST_CELLS, obstacle, part_of, stacked, widened
from falsifier.verdict import StopReason, Verdict
from falsifier.witness.binding import assign, bind
from falsifier.witness.text import write_witness

_FIRST, _MOST, _GROWTH = 256, 4096, 4  # instances of a network's first stack, of any, and from one to the next
_MOST_KEPT = 1 << 26  # bytes of parsed queries that a stack keeps


@dataclass
class _Reading:
    """Members of the next stack, by the network that they are bound to."""

    network: Network
    most: int = _FIRST
    members: list[Member] = field(default_factory=list)
    cells: int = 0
    kept: int = 0


class Account(Decisions, Protocol):
    """To whom a campaign tells what happens. It keeps no count of its own."""

    def begin(self, jobs: Sequence[Job]) -> None:
        """An attempt at these jobs starts."""
        ...

    def stand(self, standing: Standing) -> None:
        """Where it stands, after every batch and every decision."""
        ...

    def at(self, phase: str, jobs: Sequence[Job]) -> None:
        """What comes next, and with which jobs."""
        ...

    def warn(self, text: str) -> None:
        """A line for people, about an instance that is an error or a stack that failed."""
        ...


class Campaign:
    """The search over all jobs, none of which has a fault; every decision is told as it is made."""

    def __init__(
        self,
        jobs: Sequence[Job],
        account: Account,
        settings: Settings | None = None,
        clock: Callable[[], float] = time.monotonic,
        loaded: Mapping[Path, Network] | None = None,
    ) -> None:
        """loaded: networks that were loaded already.

        Raises InputError for a device or a portfolio that there is not.
        """
        self.settings = settings or Settings()
        self.settings.demand()
        self.jobs, self._account, self._clock = jobs, account, clock
        self._loaded = dict(loaded or {})
        self._evaluations = 0  # of searches that ended
        self._stack: Stack | None = None

    def run(self) -> None:
        """Decide every job."""
        for numbers in by_network(self.jobs):
            self._network([self.jobs[number] for number in numbers])

    # --- what is told ---

    def decide(self, job: Job, decision: Decision) -> None:
        """Tell a decision."""
        self._account.decide(job, decision)
        if decision.verdict is Verdict.ERROR:
            self._account.warn(decision.reason)
        self.report()

    def improve(self, job: Job, decision: Decision) -> None:
        """Tell of a better witness."""
        self._account.improve(job, decision)

    def report(self) -> None:
        """Tell where the search stands."""
        stack = self._stack
        run = None if stack is None else stack.run
        self._account.stand(
            Standing(
                open=1 if run is None else run.width,
                lanes=1 if run is None else run.lanes,
                evaluations=self._evaluations + (0 if stack is None else stack.budget.evaluations),
                coverage=None if run is None else run.coverage,
                spent=0.0 if stack is None else stack.shares.seconds * stack.groups.width,
            )
        )

    # --- one network ---

    def _network(self, jobs: list[Job]) -> None:
        """The jobs of one network, or of the same several."""
        self._account.begin(jobs)
        named = jobs[0].networks
        if len(jobs) == 1 or len(named) != 1:
            for job in jobs:
                self._alone(job)
            return
        try:
            base = self._loaded.get(named[0].path) or load(named[0].path)
        except FalsifierError as error:
            for job in jobs:
                self.decide(job, Decision(Verdict.ERROR, f"{job.vnnlib}: {error}"))
            return
        readings: dict[object, _Reading] = {}
        for job in jobs:
            self._read(job, base, readings)
        for reading in readings.values():
            self._search(reading)

    def _read(self, job: Job, base: Network, readings: dict[object, _Reading]) -> None:
        """Decide a job that needs no search or does not stack; put the others into the stack of their network."""
        assert job.question is not None
        self._account.at("reading", [job])
        start = self._clock()
        query = None
        try:
            network = base
            if not job.question.direct:
                query = job.question.query()
                if len(query.networks) != 1 or query.networks[0].hidden:
                    return self._alone(job, query)
                (_,) = assign(query, [(job.networks[0].name, base)])
                shapes = None if query.version[0] == 1 else tuple(v.shape for v in query.networks[0].inputs)
                known = readings.get(shapes)
                network = known.network if known else as_network(base, query.networks[0], query)
                query = bind(query, [network.reference]).query
            else:
                shapes = None
            spec = self.settings.spec(job.question, query, network, Rounding.INWARD)
        except UnsupportedError as error:
            return self.decide(job, Decision(Verdict.UNKNOWN, str(error), self._clock() - start))
        except FalsifierError as error:
            return self.decide(job, Decision(Verdict.ERROR, str(error), self._clock() - start))
        except (ValueError, MemoryError):  # several networks declared, or too large: the ordinary path says what it is
            return self._alone(job)
        if spec.empty:
            return self.decide(job, Decision(Verdict.UNSAT, spec.reason, self._clock() - start))
        if obstacle(spec) is not None:
            return self._alone(job, query, network)
        reading = readings.setdefault(shapes, _Reading(network))
        part = part_of(spec)
        if reading.members and (reading.members[0].part.lower.dtype != part.lower.dtype):
            return self._alone(job, query, network)
        reading.kept += job.question.bytes
        if reading.kept > _MOST_KEPT:
            query = None
        prepare = self._clock() - start
        if prepare >= job.limit:
            return self.decide(job, Decision(Verdict.TIMEOUT, StopReason.DEADLINE.value, prepare))
        reading.members.append(Member(job, part, prepare, query))
        reading.cells += part.lower.size + part.forms.outputs.size + part.form.size
        if reading.cells >= MOST_CELLS or len(reading.members) >= reading.most:
            self._search(reading)
            readings[shapes] = _Reading(network, min(_GROWTH * reading.most, _MOST))
        return None

    def _search(self, reading: _Reading) -> None:
        """Search a stack; what it leaves open, one after the other."""
        members, network = reading.members, reading.network
        if len(members) > 1:
            spec = stacked([member.part for member in members[:64]], network.reference.m, Rounding.INWARD)
            if not widened(spec, [member.part for member in members[:64]]):
                self._account.at("searching together with others", [member.job for member in members])
                stack = Stack(members, network, self.settings, self, Budget(clock=self._clock))
                stack.tell = self.report
                self._stack = stack
                try:
                    members = stack.search()
                finally:
                    self._stack = None
                    self._evaluations += stack.budget.evaluations
                if stack.failure:
                    self._account.warn(f"{network.origin}: {stack.failure}; its instances go on one after the other")
        for member in members:
            self._alone(member.job, member.query, network, member.prepare)

    # --- one instance ---

    def _alone(self, job: Job, query: Query | None = None, network: Network | None = None, spent: float = 0.0) -> None:
        """An instance by the ordinary path. spent: seconds that its clock shows already."""
        assert job.question is not None
        self._account.at("searching", [job])
        start = self._clock() - spent
        early: list[Decision] = []
        prepare = spent

        def decision(result: Result) -> Decision:
            text = None
            if result.witness is not None and result.query is not None:
                text = write_witness(result.query, result.witness)
            seconds = self._clock() - start - prepare
            left = nearest_of(result.open, result.margins) if result.witness is None else {}
            return Decision(
                result.verdict,
                result.reason_text,
                prepare,
                seconds,
                text,
                result.class_,
                result.evaluations,
                tuple(left.values()),
                result.engine or "",
                disjuncts=tuple(left),
            )

        def keep(result: Result) -> None:
            early.append(decision(result))
            self.decide(job, early[0])

        try:
            asked = query or job.question.query()
            models = [(n.name, network or self._loaded.get(n.path) or n.path) for n in job.networks]
            prepared = Prepared(
                models,
                asked,
                device=self.settings.device,
                require=self.settings.require,
                portfolio=self.settings.portfolio,
                budgets=self.settings.budgets,
            )
            prepare = self._clock() - start
            result = prepared.search(
                start + job.limit,
                rng_seed=self.settings.rng_seed,
                max_evaluations=self.settings.evaluations,
                report=keep,
            )
            made = decision(result)
            self._evaluations += result.evaluations
        except FalsifierError as error:
            made = Decision(Verdict.ERROR, str(error), prepare, self._clock() - start - prepare)
        except Exception as error:  # noqa: BLE001 - whatever it is, it costs this instance alone
            text = f"{job.vnnlib}: internal error: {type(error).__name__}: {error}"
            made = Decision(Verdict.ERROR, text, prepare, self._clock() - start - prepare)
        if not early:
            self.decide(job, made)
        elif made.witness is not None:
            self.improve(job, made)
