"""An actor as the crew sees it, on a cluster that is played: what it is asked, and in which order."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from campaigns import family

from falsifier.campaign.executors.messages import Done, Message, Ready
from falsifier.campaign.executors.ray import _Hired, _Hiring, _Store
from falsifier.campaign.executors.ray_host import Heard
from falsifier.campaign.plan import arranged, read_instances
from falsifier.campaign.units import Unit, units_of


@dataclass(eq=False)
class Asked:
    """A call of an actor, and its answer once there is one."""

    name: str
    answer: Any = None
    done: bool = False


@dataclass
class Actor:
    """Answers its calls in order, when it is told to."""

    calls: list[Asked] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        def remote(*_: Any) -> Asked:
            self.calls.append(Asked(name))
            return self.calls[-1]

        return SimpleNamespace(remote=remote)

    @property
    def open(self) -> list[str]:
        return [call.name for call in self.calls if not call.done]

    def answer(self, name: str, value: Any) -> None:
        call = next(call for call in self.calls if not call.done)
        assert call.name == name
        call.answer, call.done = value, True


class Cluster:
    """What of Ray the driver's side needs."""

    exceptions = SimpleNamespace(RayActorError=OSError, RayError=RuntimeError)

    def __init__(self) -> None:
        self.waited: list[list[Asked]] = []

    def wait(self, calls: list[Asked], timeout: float) -> tuple[list[Asked], list[Asked]]:
        self.waited.append(calls)
        return [call for call in calls if call.done], [call for call in calls if not call.done]

    def get(self, call: Asked) -> Any:
        return call.answer

    def put(self, held: Any) -> Any:
        return held


def hired(folder: Path) -> tuple[_Hired, Actor, Cluster, Unit]:
    """One that has just been started."""
    (unit,) = units_of(arranged(read_instances(family(folder, 2))))
    cluster, actor = Cluster(), Actor()
    return _Hired(cluster, _Store(cluster), "worker 1", actor), actor, cluster, unit


def heard(*messages: Message, ended: str | None = None) -> Heard:
    return Heard(list(messages), ended, False)


def test_a_unit_waits_for_nobody_who_listens(tmp_path: Path) -> None:
    """An actor does one thing at a time: while it listened for news of a worker at rest, a unit had to wait."""
    worker, actor, cluster, unit = hired(tmp_path)
    actor.answer("hear", heard())
    assert worker.hear() == []
    assert actor.open == ["hear"]  # it is not ready yet
    for last in (Ready(), Done(), Done()):
        actor.answer("hear", heard(last))
        assert worker.hear() == [last]
        assert actor.open == []
        _Hiring.wait(SimpleNamespace(_ray=cluster), [worker], 9.0)  # type: ignore[arg-type]
        assert worker.hear() == []
        worker.give(unit)
        assert actor.open == ["give", "hear"]
        actor.answer("give", True)
    assert all(cluster.waited)
    assert not worker.lost


def test_who_ended_at_rest_is_no_fault_of_the_unit_that_comes_next(tmp_path: Path) -> None:
    worker, actor, _, unit = hired(tmp_path)
    actor.answer("hear", heard(Ready()))
    worker.hear()
    worker.give(unit)
    actor.answer("give", False)
    actor.answer("hear", heard(ended="its worker was ended by SIGKILL"))
    assert worker.hear() == []
    assert worker.lost
    assert worker.ended() == "its worker was ended by SIGKILL"
