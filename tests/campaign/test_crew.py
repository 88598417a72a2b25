"""A crew of workers that are played: who gets which unit, and what becomes of the jobs of one that dies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from test_units import jobs

from falsifier.campaign.executors import Standing
from falsifier.campaign.executors.crew import Crew
from falsifier.campaign.executors.messages import LOADING, At, Decided, Done, Message, Ready, Stands
from falsifier.campaign.plan import Job
from falsifier.campaign.record import Decision
from falsifier.campaign.units import Unit
from falsifier.errors import EngineError, InputError
from falsifier.verdict import Verdict

UNKNOWN = Decision(Verdict.UNKNOWN, "")


@dataclass
class Told:
    """A sink that keeps everything."""

    decisions: dict[str, Decision] = field(default_factory=dict)
    begun: list[tuple[str, list[str]]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    def begin(self, jobs: Sequence[Job], worker: str) -> None:
        self.begun.append((worker, [job.vnnlib for job in jobs]))

    def decide(self, job: Job, decision: Decision, worker: str) -> None:
        assert job.vnnlib not in self.decisions, "decided twice"
        self.decisions[job.vnnlib] = decision

    def improve(self, job: Job, decision: Decision, worker: str) -> None:
        assert job.vnnlib in self.decisions

    def stand(self, worker: str, standing: Standing) -> None: ...

    def end(self, worker: str) -> None:
        self.ended.append(worker)

    def warn(self, text: str) -> None:
        self.lines.append(text)

    @property
    def errors(self) -> list[str]:
        return [name for name, decision in self.decisions.items() if decision.verdict is Verdict.ERROR]


def well(unit: Unit) -> list[Message]:
    return [*(Decided(job, UNKNOWN) for job in range(len(unit.jobs))), Done()]


@dataclass
class Played:
    """A worker that answers a unit as `plan` says: messages, and `None` where it dies."""

    name: str
    plan: Callable[[Unit], Sequence[Message | None]]
    lost: bool = False
    worn: bool = False
    starts: bool = True
    script: list[Message | None] = field(default_factory=list)
    why: str | None = None
    units: list[Unit] = field(default_factory=list)
    closed: bool = False

    def __post_init__(self) -> None:
        self.script = [Ready()] if self.starts else [None]

    def give(self, unit: Unit) -> None:
        self.units.append(unit)
        self.script += self.plan(unit)

    def hear(self) -> list[Message]:
        if not self.script:
            return []
        message = self.script.pop(0)
        if message is None:
            self.why = self.why or "its worker died"
            self.script.clear()
            return []
        return [message]

    def ended(self) -> str | None:
        return self.why

    def kill(self, why: str) -> None:
        self.why = self.why or why

    def close(self) -> None:
        self.closed = True


@dataclass
class Agency:
    """Where played workers come from, and the clock that they live by: a second for every wait."""

    make: Callable[[str], Played]
    hired: list[Played] = field(default_factory=list)
    now: float = 0.0

    def hire(self) -> Played:
        self.hired.append(self.make(f"w{len(self.hired) + 1}"))
        return self.hired[-1]

    def wait(self, workers: Sequence[Played], seconds: float) -> None:
        self.now += 1.0
        assert self.now < 10_000, "no end"
        assert len(workers) <= 2

    def run(self, units: list[Unit]) -> Told:
        told = Told()
        try:
            Crew(self, 2, told, grace=5.0, clock=lambda: self.now).run(units)
        finally:
            assert all(worker.closed for worker in self.hired)
        return told


def agency(plan: Callable[[Unit], Sequence[Message | None]] = well) -> Agency:
    return Agency(lambda name: Played(name, plan))


def units(*parts: list[Job]) -> list[Unit]:
    return [Unit(tuple(part)) for part in parts]


def at(phase: str, *numbers: int) -> At:
    return At(phase, numbers)


def test_everything_is_decided_by_as_many_workers_as_there_is_work_for() -> None:
    crew = agency()
    told = crew.run(units(jobs("a", 3), jobs("b", 2), jobs("c", 1)))
    assert len(told.decisions) == 6
    assert len(crew.hired) == 2


def test_a_lone_unit_has_one_worker() -> None:
    crew = agency()
    crew.run(units(jobs("a", 3)))
    assert len(crew.hired) == 1


def test_units_go_where_their_network_is() -> None:
    crew = agency()
    a, b = jobs("a", 4), jobs("b", 4)
    crew.run(units(*([job] for job in a), *([job] for job in b)))
    for worker in crew.hired:
        assert len({unit.network for unit in worker.units}) == 1


def test_of_a_unit_only_what_its_worker_was_at_is_suspected() -> None:
    """Job 2 ends every worker as it is read; the others wait for their turn or are decided."""

    def plan(unit: Unit) -> list[Message | None]:
        told: list[Message | None] = []
        for number, job in enumerate(unit.jobs):
            told.append(at("reading", number))
            if job.vnnlib == "a-2":
                return [*told, None]
            told.append(Decided(number, UNKNOWN))
        return [*told, Done()]

    crew = agency(plan)
    told = crew.run(units(jobs("a", 40)))
    assert told.errors == ["a-2"]
    assert told.decisions["a-2"].reason == "a-2: its worker died while reading"
    assert told.lines == [told.decisions["a-2"].reason]
    assert sum(bool(worker.why) for worker in crew.hired) == 2
    assert len(told.decisions) == 40


def test_a_stack_is_tried_again_in_parts_and_the_culprit_alone() -> None:
    def plan(unit: Unit) -> list[Message | None]:
        names = [job.vnnlib for job in unit.jobs]
        searching = at("searching together with others", *range(len(names)))
        if "a-77" in names:
            first: list[Message | None] = [Decided(0, UNKNOWN)] if names[0] != "a-77" else []
            return [searching, *first, None]
        return [searching, *well(unit)]

    crew = agency(plan)
    told = crew.run(units(jobs("a", 200), jobs("b", 20)))
    assert told.errors == ["a-77"]
    assert len(told.decisions) == 220
    assert sum(bool(worker.why) for worker in crew.hired) <= 4
    for worker in crew.hired:
        assert all(not unit.careful for unit in worker.units[1:]), "run with care, but not in a fresh worker"


def test_a_worker_that_died_once_of_something_else_costs_no_answer() -> None:
    deaths = [1]

    def plan(unit: Unit) -> Sequence[Message | None]:
        if deaths:
            deaths.pop()
            return [at("searching", 0), None]
        return well(unit)

    told = agency(plan).run(units(jobs("a", 1)))
    assert told.errors == []
    assert [names for _, names in told.begun] == [["a-0"], ["a-0"]]


def test_a_network_that_ends_its_workers_is_tried_twice_for_all_its_jobs() -> None:
    crew = agency(lambda unit: [at(LOADING, *range(len(unit.jobs))), None])
    told = crew.run(units(jobs("a", 50)))
    assert len(told.errors) == 50
    assert len(crew.hired) == 2


def test_silence_is_measured_from_the_last_sign_of_life() -> None:
    """Limits of 10 s and 5 s of grace: a worker that speaks every 10 s is well, one that stops is killed once."""

    def plan(unit: Unit) -> Sequence[Message | None]:
        if unit.jobs[0].vnnlib == "b-0":
            return [at("searching", 0)]
        return [at("searching", 0), *[Stands(Standing())] * 40, *well(unit)]

    crew = agency(plan)
    told = crew.run(units(jobs("a", 1), jobs("b", 1)))
    assert told.errors == ["b-0"]
    assert "gave no sign of life for 16.0 s and was killed while searching" in told.decisions["b-0"].reason
    assert len(crew.hired) == 2


def test_what_went_down_with_its_machine_is_run_again_without_blame() -> None:
    def make(name: str) -> Played:
        return Played(name, well) if name == "w3" else Played(name, lambda unit: [None], lost=True)

    crew = Agency(make)
    told = crew.run(units(jobs("a", 5)))
    assert told.errors == []
    assert len(told.decisions) == 5


def test_a_worn_worker_is_replaced_between_units() -> None:
    crew = Agency(lambda name: Played(name, well, worn=True))
    told = crew.run(units(*([job] for job in jobs("a", 4))))
    assert len(told.decisions) == 4
    assert [len(worker.units) for worker in crew.hired] == [1] * 4


def test_no_worker_comes_up() -> None:
    crew = Agency(lambda name: Played(name, well, starts=False))
    with pytest.raises(EngineError, match="no worker comes up; the last one: its worker died"):
        crew.run(units(jobs("a", 1), jobs("b", 1)))
    assert len(crew.hired) <= 4


class Reluctant(Played):
    """Says nothing; killed it is lost, as an actor is for which a cluster has no room."""

    def __post_init__(self) -> None:
        self.script = []

    def kill(self, why: str) -> None:
        super().kill(why)
        self.lost = True


class Frail(Played):
    """Dies as soon as it is ready."""

    def __post_init__(self) -> None:
        self.script = [Ready(), None]


@pytest.mark.parametrize(("kind", "said"), [(Reluctant, "was not ready after"), (Frail, "its worker died")])
def test_workers_that_never_get_to_a_unit_are_not_hired_for_ever(kind: type[Played], said: str) -> None:
    crew = Agency(lambda name: kind(name, well))
    with pytest.raises(EngineError, match=f"no worker comes up; the last one: .*{said}"):
        crew.run(units(jobs("a", 1), jobs("b", 1)))
    assert len(crew.hired) <= 4


@pytest.mark.parametrize("kind", [Reluctant, Frail])
def test_where_no_more_come_up_those_that_work_go_on(kind: type[Played]) -> None:
    def slowly(unit: Unit) -> list[Message | None]:
        return [at("searching", 0), *[Stands(Standing())] * 700, *well(unit)]

    crew = Agency(lambda name: Played(name, slowly) if name == "w1" else kind(name, well))
    told = crew.run(units(*([job] for job in jobs("a", 3))))
    assert len(told.decisions) == 3
    assert not told.errors
    assert len(crew.hired) <= 1 + 3 * 3  # three in vain for each unit that is done at the most
    (line,) = told.lines
    assert line.startswith("no more workers come up, 1 go on; the last one: its worker ")


def test_a_record_that_cannot_be_written_ends_everything() -> None:
    class Full(Told):
        def decide(self, job: Job, decision: Decision, worker: str) -> None:
            raise InputError("the disk is full")

    crew = agency()
    with pytest.raises(InputError, match="disk is full"):
        Crew(crew, 2, Full(), grace=5.0).run(units(jobs("a", 3), jobs("b", 3)))
    assert all(worker.closed for worker in crew.hired)
