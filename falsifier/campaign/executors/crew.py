"""A crew of workers at the units of a campaign: who gets which, and what becomes of the jobs of one that dies.

Workers tell what they are at. So of a unit whose worker died the jobs that it was not at go back as they are; those
that it was at are tried again in smaller units, at last each alone in a fresh worker. A job on which such a one dies
too has its `error`. What was decided stays.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from falsifier.campaign.executors import Sink
from falsifier.campaign.executors.messages import (
    LOADING,
    At,
    Decided,
    Done,
    Improved,
    Message,
    Ready,
    Stands,
    Warned,
)
from falsifier.campaign.plan import Job
from falsifier.campaign.record import Decision
from falsifier.campaign.units import Unit
from falsifier.errors import EngineError
from falsifier.verdict import Verdict

GRACE = 60.0
_TICK = 0.25  # seconds between two looks at silent workers
_START = 120.0  # seconds that a worker has to import what it needs
_VAIN_STARTS = 3  # workers in a row that end before they have begun a unit: no more can be had
_LOSSES = 3  # of the machines that a unit ran on: then it is the unit


class Worker(Protocol):
    """One worker, as the crew sees it.

    name: for the record. lost: it went down with its machine, through no fault of its unit. worn: to be replaced
    before its next unit.
    """

    name: str
    lost: bool
    worn: bool

    def give(self, unit: Unit) -> None:
        """Let it run a unit. Only once it has said Ready, or Done after the last one."""
        ...

    def hear(self) -> list[Message]:
        """What it has told since the last time."""
        ...

    def ended(self) -> str | None:
        """Half a sentence on how it ended, once it has and all that it told was heard."""
        ...

    def kill(self, why: str) -> None:
        """End it, soon: `ended` gives `why` then."""
        ...

    def close(self) -> None:
        """End it, and wait until nothing of it is left."""
        ...


W = TypeVar("W", bound=Worker)


class Hiring(Protocol[W]):
    """Where workers come from."""

    def hire(self) -> W:
        """Start one. Raises FalsifierError where that is hopeless."""
        ...

    def wait(self, workers: Sequence[W], seconds: float) -> None:
        """Return when one of them may have told something, or after some time."""
        ...


@dataclass
class _Hand(Generic[W]):
    """A worker, and what it is at."""

    worker: W
    heard: float
    ready: bool = False
    fresh: bool = True
    began: bool = False  # it has told something of a unit
    unit: Unit | None = None
    undecided: set[int] = field(default_factory=set)
    at: At | None = None
    networks: set[str] = field(default_factory=set)  # that it may have loaded
    silent: bool = False


class Crew(Generic[W]):
    """Runs units to the end. grace: seconds after its limit that a job may be silent before its worker is killed."""

    def __init__(
        self,
        hiring: Hiring[W],
        width: int,
        sink: Sink,
        grace: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hiring, self._width, self._sink, self._grace, self._clock = hiring, width, sink, grace, clock
        self._waiting: deque[Unit] = deque()
        self._hands: list[_Hand[W]] = []
        self._vain_starts, self._vain = 0, ""  # since a unit was done, and how the last one ended
        self._told = False  # that fewer work than could
        self.abandoned = False  # deaths mean nothing any more

    def run(self, units: Iterable[Unit]) -> None:
        """Decide every job. Raises EngineError where workers cannot be had, and what the sink raises."""
        self._waiting.extend(units)
        try:
            while not self.abandoned and (self._waiting or any(hand.unit for hand in self._hands)):
                self._hire()
                self._deal()
                self._hiring.wait([hand.worker for hand in self._hands], _TICK)
                for hand in list(self._hands):
                    self._attend(hand)
        finally:
            self.abandon()
            for hand in self._hands:
                hand.worker.close()

    def abandon(self) -> None:
        """Kill every worker, from any thread; `run` returns."""
        self.abandoned = True
        for hand in list(self._hands):
            with suppress(OSError):
                hand.worker.kill("")

    # --- who works ---

    def _hire(self) -> None:
        """As many workers as there is work for. Where none come up those that are there go on alone."""
        busy = sum(hand.unit is not None for hand in self._hands)
        while len(self._hands) < min(self._width, busy + len(self._waiting)):
            if self._vain_starts >= _VAIN_STARTS:
                if not self._hands:
                    raise EngineError(f"no worker comes up; the last one: {self._vain}")
                if not self._told and any(hand.ready for hand in self._hands):
                    self._told = True
                    self._sink.warn(f"no more workers come up, {len(self._hands)} go on; the last one: {self._vain}")
                return
            self._hands.append(_Hand(self._hiring.hire(), self._clock()))

    def _deal(self) -> None:
        for hand in list(self._hands):
            if not hand.ready or hand.unit is not None or not self._waiting:
                continue
            unit = self._next(hand)
            if unit is None:  # what is left needs a worker that has run nothing
                self._dismiss(hand)
                continue
            hand.unit, hand.at, hand.heard = unit, None, self._clock()
            hand.undecided = set(range(len(unit.jobs)))
            hand.networks.add(unit.network)
            self._sink.begin(unit.jobs, hand.worker.name)
            hand.worker.give(unit)
            hand.fresh = False

    def _next(self, hand: _Hand[W]) -> Unit | None:
        """The unit that a worker gets: of a network that it has, else of one that nobody has, else the first."""
        taken = {network for other in self._hands for network in other.networks}
        best, rank = -1, 4
        for place, unit in enumerate(self._waiting):
            if unit.careful:
                mine = 0 if hand.fresh else 4
            else:
                mine = 1 if unit.network in hand.networks else 3 if unit.network in taken else 2
            if mine < rank:
                best, rank = place, mine
            if rank <= 1:
                break
        if best < 0:
            return None
        unit = self._waiting[best]
        del self._waiting[best]
        return unit

    def _dismiss(self, hand: _Hand[W]) -> None:
        self._hands.remove(hand)
        hand.worker.close()

    # --- what they tell ---

    def _attend(self, hand: _Hand[W]) -> None:
        for message in hand.worker.hear():
            hand.heard = self._clock()
            self._take(hand, message)
        why = hand.worker.ended()
        if self.abandoned:
            return
        if why is not None:
            self._hands.remove(hand)
            hand.worker.close()
            self._bury(hand, why)
        elif hand.worker.worn and hand.unit is None and not hand.fresh:
            self._dismiss(hand)
        else:
            self._demand_signs_of_life(hand)

    def _take(self, hand: _Hand[W], message: Message) -> None:
        unit, sink, name = hand.unit, self._sink, hand.worker.name
        if isinstance(message, Ready):
            hand.ready = True
        if unit is None:
            return
        hand.began = True
        match message:
            case At():
                hand.at = message
            case Decided(job, decision):
                hand.undecided.discard(job)
                sink.decide(unit.jobs[job], decision, name)
            case Improved(job, decision):
                sink.improve(unit.jobs[job], decision, name)
            case Stands(standing):
                sink.stand(name, standing)
            case Warned(text):
                sink.warn(text)
            case Done():
                sink.end(name)
                hand.unit, self._vain_starts = None, 0
                for job in sorted(hand.undecided):  # there is none, unless something is wrong with the worker
                    self._give_up(unit.jobs[job], "its worker gave no answer", "running its unit", 0.0, name)

    def _demand_signs_of_life(self, hand: _Hand[W]) -> None:
        """Kill a worker that has been silent for longer than any of its jobs may take."""
        silence = self._clock() - hand.heard
        if not hand.ready:
            if silence > _START + self._grace:
                hand.worker.kill(f"its worker was not ready after {silence:.0f} s")
        elif hand.unit is not None and not hand.silent:
            limit = max((hand.unit.jobs[job].limit for job in self._suspects(hand)), default=0.0)
            if silence > limit + self._grace:
                hand.silent = True
                hand.worker.kill(f"its worker gave no sign of life for {silence:.1f} s and was killed")

    # --- what becomes of the jobs of one that died ---

    def _bury(self, hand: _Hand[W], why: str) -> None:
        unit, name = hand.unit, hand.worker.name
        if not hand.began:
            self._vain_starts, self._vain = self._vain_starts + 1, why
        if unit is None:
            return
        self._sink.end(name)
        if not hand.began and not hand.silent:
            self._waiting.appendleft(unit)
            return
        if hand.worker.lost and unit.lost + 1 < _LOSSES:
            left = tuple(unit.jobs[job] for job in sorted(hand.undecided))
            if left:
                self._waiting.appendleft(Unit(left, unit.careful, unit.lost + 1))
            return
        suspects = self._suspects(hand)
        self._back(unit, sorted(hand.undecided - set(suspects)))
        if not suspects:
            return
        jobs = tuple(unit.jobs[job] for job in suspects)
        phase = hand.at.phase if hand.at else "starting"
        together = phase == LOADING  # it is their network then
        if (together or len(jobs) == 1) and (unit.careful or hand.silent):
            for job in jobs:
                self._give_up(job, why, phase, self._clock() - hand.heard, name)
        elif together:
            self._waiting.append(Unit(jobs, careful=True))
        else:
            self._waiting.extend(Unit(jobs).pieces())

    def _suspects(self, hand: _Hand[W]) -> list[int]:
        """The undecided jobs that a worker is at; all of them where it has not said, or has decided what it was at."""
        named = hand.undecided.intersection(hand.at.jobs if hand.at else ())
        return sorted(named or hand.undecided)

    def _back(self, unit: Unit, jobs: Sequence[int]) -> None:
        if jobs:
            self._waiting.appendleft(Unit(tuple(unit.jobs[job] for job in jobs)))

    def _give_up(self, job: Job, why: str, phase: str, seconds: float, name: str) -> None:
        text = f"{job.vnnlib}: {why} while {phase}"
        self._sink.warn(text)
        self._sink.decide(job, Decision(Verdict.ERROR, text, seconds=seconds), name)
