"""The contract of an adapter as a suite of tests.

from falsifier.testing.adapters import AdapterContract

class TestMine(AdapterContract):
    def make(self, settings):
        return MyAdapter({"command": "...", **settings})
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from falsifier.errors import InputError
from falsifier.handoff.adapter import Adapter, Availability, Outcome
from falsifier.handoff.hand_over import hand_over
from falsifier.handoff.handoff import Handoff, NearMiss, OpenDisjunct, from_json
from falsifier.instance import Instance, NamedNetwork
from falsifier.result import Result
from falsifier.verdict import StopReason, Verdict

_BOX = "(declare-const X_0 Real)\n(declare-const Y_0 Real)\n(assert (>= X_0 0.0))\n(assert (<= X_0 2.0))\n"
QUERIES = {
    "violated": f"{_BOX}(assert (>= Y_0 1.5))\n",
    "one point": f"{_BOX}(assert (>= Y_0 2.0))\n",
    "holds": f"{_BOX}(assert (>= Y_0 2.5))\n",
    "holds in parts": f"{_BOX}(assert (or (>= Y_0 3.0) (and (>= X_0 1.0) (<= Y_0 0.5))))\n",
}
"""Queries about y = relu(x): the first two are satisfiable, the others are not."""
_SATISFIABLE = ("violated", "one point")


def small_instance(folder: Path, query: str, timeout: float = 20.0) -> Instance:
    """y = relu(x) with one of QUERIES, as files in `folder`."""
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    network, property_ = folder / "small.onnx", folder / "small.vnnlib"
    network.write_bytes(model.SerializeToString())
    property_.write_text(QUERIES[query])
    return Instance((NamedNetwork(None, network),), property_, timeout)


def open_handoff(instance: Instance, seconds: float = 20.0) -> Handoff:
    """A hand-off of a small instance, as a search of no success leaves it, through its JSON and back."""
    import numpy as np

    near = (NearMiss(0, -1.0, np.array([0.5])),)
    handoff = Handoff(instance, seconds, (OpenDisjunct(0, -1.0),), near, attack="nothing was found")
    return from_json(handoff.to_json())


class AdapterContract:
    """What every adapter must keep. Override `make`, and `seconds` where the verifier is slow to start."""

    seconds = 20.0  # that the verifier has for an instance of one input

    def make(self, settings: dict[str, Any]) -> Adapter:
        """The adapter under test with these settings on top of those it needs."""
        raise NotImplementedError

    def _taken(self, folder: Path, query: str, seconds: float | None = None) -> Outcome:
        seconds = self.seconds if seconds is None else seconds
        handoff = open_handoff(small_instance(folder, query), seconds)
        return self.make({}).take(handoff, time.monotonic() + seconds)

    def test_it_has_a_name_and_a_share(self) -> None:
        """The name is that of the entry point; the share is a part of the time limit."""
        adapter = self.make({})
        assert adapter.name.isidentifier()
        assert 0 < adapter.share <= 1

    def test_it_is_available_or_says_what_would_make_it_so(self) -> None:
        """In one line."""
        availability = self.make({}).availability()
        assert isinstance(availability, Availability)
        assert availability.available or availability.remedy
        assert "\n" not in availability.told() + availability.remedy

    def test_it_refuses_settings_that_it_does_not_know(self) -> None:
        """With InputError, before anything is started."""
        said = ""
        try:
            self.make({"no_such_setting": 1})
        except InputError as error:
            said = str(error)
        assert "no_such_setting" in said, "a setting that nobody knows was taken in silence"

    def test_what_it_answers_is_an_outcome_and_right(self, tmp_path: Path) -> None:
        """Small instances: no `unsat` where an input satisfies the query, a witness with every `sat`."""
        for number, query in enumerate(QUERIES):
            folder = tmp_path / str(number)
            folder.mkdir()
            outcome = self._taken(folder, query)
            assert outcome.verdict is not (Verdict.UNSAT if query in _SATISFIABLE else Verdict.SAT), query
            assert outcome.reason
            assert "\n" not in outcome.reason
            if outcome.verdict is Verdict.SAT:
                assert outcome.inputs is not None
                assert [values.shape for values in outcome.inputs] == [(1,)]
            if outcome.verdict is Verdict.UNSAT:
                assert outcome.engine
                assert outcome.arithmetic

    def test_a_sat_of_its_own_passes_the_door(self, tmp_path: Path) -> None:
        """Through `hand_over`, as the commands call it."""
        instance = small_instance(tmp_path, "violated")
        attack = Result(Verdict.UNKNOWN, StopReason.EXHAUSTED, "nothing was found")
        told: list[str] = []
        result = hand_over(attack, instance, self.make({}), time.monotonic() + self.seconds, tell=told.append)
        assert result.verdict is not Verdict.UNSAT
        assert not [line for line in told if "refuses" in line]
        assert (result.verdict is Verdict.SAT) == (result.witness is not None)

    def test_without_time_it_answers_nothing_false(self, tmp_path: Path) -> None:
        """A deadline that passes at once: whatever it says is still right."""
        outcome = self._taken(tmp_path, "violated", 0.01)
        assert outcome.verdict is not Verdict.UNSAT

    def test_it_prints_nothing_and_leaves_nothing_running(self, tmp_path: Path, capfd: Any) -> None:
        """stdout belongs to the answer."""
        before = _children()
        self._taken(tmp_path, "holds")
        assert capfd.readouterr().out == ""
        assert _children() <= before


def _children() -> set[int]:
    """The live child processes of this one; empty where the system does not tell."""
    found = set()
    for task in Path("/proc/self/task").glob("*/children"):
        for number in task.read_text().split():
            stat = Path(f"/proc/{number}/stat")
            if stat.exists() and stat.read_bytes().rpartition(b")")[2].split()[0] != b"Z":
                found.add(int(number))
    return found - {os.getpid()}
