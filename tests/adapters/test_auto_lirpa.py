"""auto_LiRPA behind the hand-off: the contract, and what an `unsat` of it rests on. With the real library."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from falsifier_adapters.auto_lirpa import AutoLirpa
from falsifier_adapters.lirpa_library import place
from models import chain, constant, model, tensor

from falsifier.falsify import Prepared
from falsifier.handoff.adapter import Outcome
from falsifier.handoff.hand_over import hand_over
from falsifier.handoff.handoff import Handoff, NearMiss
from falsifier.instance import Instance, NamedNetwork
from falsifier.result import Result
from falsifier.testing.adapters import AdapterContract, open_handoff, small_instance
from falsifier.verdict import StopReason, Verdict

if place() is None:
    pytest.skip("auto_LiRPA is not installed (make installs it)", allow_module_level=True)

OPEN = Result(Verdict.UNKNOWN, StopReason.EXHAUSTED, "nothing was found")


class TestContract(AdapterContract):
    """The adapter as it comes."""

    seconds = 30.0

    def make(self, settings: dict[str, Any]) -> AutoLirpa:
        return AutoLirpa(settings)


def taken(folder: Path, proto: Any, query: str, seconds: float = 60.0, **changes: Any) -> Outcome:
    """The outcome for a model and the text of a query."""
    (folder / "net.onnx").write_bytes(proto.SerializeToString())
    (folder / "prop.vnnlib").write_text(query)
    instance = Instance((NamedNetwork(None, folder / "net.onnx"),), folder / "prop.vnnlib", seconds)
    handoff = Handoff(instance, seconds, **changes)
    return AutoLirpa({}).take(handoff, time.monotonic() + seconds)


def declared(inputs: int, outputs: int, *asserts: str) -> str:
    names = [*(f"X_{i}" for i in range(inputs)), *(f"Y_{i}" for i in range(outputs))]
    return "\n".join([*(f"(declare-const {name} Real)" for name in names), *(f"(assert {a})" for a in asserts)])


def box(inputs: int, lower: str = "-1.0", upper: str = "1.0") -> list[str]:
    return [f"(<= X_{i} {upper})" for i in range(inputs)] + [f"(>= X_{i} {lower})" for i in range(inputs)]


def two_layers() -> Any:
    """y = relu(a) + relu(-a) with a = x_0 + x_1: the absolute value of the sum, at most 2 on the box."""
    first = constant("first", [[1.0, -1.0], [1.0, -1.0]])
    return chain(
        [("MatMul", [first], {}), ("Relu", [], {}), ("MatMul", [constant("second", [[1.0], [1.0]])], {})],
        (1, 2),
        (1, 1),
    )


def test_what_needs_splitting_is_split(tmp_path: Path) -> None:
    """|x_0 + x_1| <= -0.1 holds nowhere; without splitting the bound from below is no better than 0 minus the gap."""
    outcome = taken(tmp_path, two_layers(), declared(2, 1, *box(2), "(<= Y_0 -0.1)"))
    assert outcome.verdict is Verdict.UNSAT
    assert "float64 bounds" in outcome.arithmetic
    assert outcome.details["gap"] > outcome.details["allowance"] > 0


def test_a_bound_that_is_reached_is_never_refuted(tmp_path: Path) -> None:
    """y >= 2 is met by two corners alone, y > 2 by none; neither is bounded away."""
    for number, atom in enumerate(("(>= Y_0 2.0)", "(> Y_0 2.0)")):
        folder = tmp_path / str(number)
        folder.mkdir()
        outcome = taken(folder, two_layers(), declared(2, 1, *box(2), atom), 3.0)
        assert outcome.verdict is not Verdict.UNSAT


def test_a_gap_below_the_rounding_of_the_network_proves_nothing(tmp_path: Path) -> None:
    query = declared(2, 1, *box(2), "(>= Y_0 2.0000005)")
    assert taken(tmp_path, two_layers(), query, 3.0).verdict is not Verdict.UNSAT


def test_every_disjunct_counts(tmp_path: Path) -> None:
    parts = "(or (>= Y_0 3.0) (and (<= X_0 -2.0) (>= Y_0 0.0)) (>= Y_0 {}))"
    for number, (last, proved) in enumerate((("2.5", True), ("1.99", False))):
        folder = tmp_path / str(number)
        folder.mkdir()
        outcome = taken(folder, two_layers(), declared(2, 1, *box(2), parts.format(last)), 20.0)
        assert (outcome.verdict is Verdict.UNSAT) == proved


def test_boxes_of_their_own_and_inputs_in_atoms(tmp_path: Path) -> None:
    """y - x_0 = |x_0 + x_1| - x_0 is at most 1 where x_0 >= 0, and reaches 3 at (-1, -1)."""
    for number, (ends, proved) in enumerate(((("0.0", "1.0"), True), (("-1.0", "1.0"), False))):
        folder = tmp_path / str(number)
        folder.mkdir()
        parts = f"(or (and (>= X_0 {ends[0]}) (<= X_0 {ends[1]}) (>= (- Y_0 X_0) 1.5)))"
        query = declared(2, 1, "(<= X_1 1.0)", "(>= X_1 -1.0)", parts)
        assert (taken(folder, two_layers(), query, 20.0).verdict is Verdict.UNSAT) == proved


def test_pinned_inputs_and_bounds_between_two_numbers_of_the_network(tmp_path: Path) -> None:
    """0.1 is no float32: what is proved holds at both neighbours. y = |0.1 + x_1| on [0.1, 0.3]."""
    pins = ["(<= X_0 0.1)", "(>= X_0 0.1)", "(<= X_1 0.3)", "(>= X_1 0.1)"]
    assert taken(tmp_path, two_layers(), declared(2, 1, *pins, "(>= Y_0 0.41)")).verdict is Verdict.UNSAT


def test_the_search_beside_it_finds_what_is_there(tmp_path: Path) -> None:
    """From the point handed over or without it: a narrow peak is found, and the door's class is kept."""
    query = declared(2, 1, *box(2), "(>= Y_0 1.999)")
    outcome = taken(tmp_path, two_layers(), query, near=(NearMiss(0, -0.1, np.array([1.0, 1.0])),))
    assert outcome.verdict is Verdict.SAT
    assert outcome.inputs is not None
    assert abs(float(outcome.inputs[0].sum())) >= 1.999


def test_an_operator_without_a_relaxation_is_unknown_with_the_reason(tmp_path: Path) -> None:
    proto = chain([("Round", [], {})], (1, 2), (1, 2))
    outcome = taken(tmp_path, proto, declared(2, 2, *box(2), "(>= Y_0 5.0)"), 2.0)
    assert outcome.verdict is Verdict.UNKNOWN
    assert outcome.reason == "auto_LiRPA is not asked to bound Round"


def test_an_input_without_bounds_is_not_proved(tmp_path: Path) -> None:
    """What is searched then is a range that the query does not state: y = |x_0 + x_1| >= 1e30 holds outside of it."""
    query = """(vnnlib-version <2.0>)
(declare-network f (declare-input X real [1,2]) (declare-output Y real [1,1]))
(assert (>= X[0,0] 0.0))
(assert (<= X[0,0] 1.0))
(assert (>= Y[0,0] 1000000000000000000000000000000.0))
"""
    outcome = taken(tmp_path, two_layers(), query, 2.0)
    assert outcome.verdict is Verdict.SAT or outcome.reason.startswith("an input without bounds")


def test_a_polynomial_query_is_unknown_with_the_reason(tmp_path: Path) -> None:
    query = declared(2, 1, *box(2), "(>= (* Y_0 X_0) 5.0)")
    outcome = taken(tmp_path, two_layers(), query, 2.0)
    assert outcome.verdict is Verdict.UNKNOWN
    assert outcome.reason == "polynomial comparisons are not bounded"


def test_memory_that_runs_out_is_unknown_and_the_attack_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from falsifier_adapters.lirpa_network import BoundedNetwork

    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(BoundedNetwork, "upper", full)
    outcome = taken(tmp_path, two_layers(), declared(2, 1, *box(2), "(>= Y_0 5.0)"), 2.0)
    assert (outcome.verdict, outcome.reason) == (Verdict.UNKNOWN, "ran out of memory")


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_bound_that_is_no_number_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: float) -> None:
    from falsifier_adapters import lirpa_library

    loaded = lirpa_library.library()

    class Broken(loaded.bounded_module):  # type: ignore[misc, name-defined]
        def compute_bounds(self, *arguments: Any, **options: Any) -> Any:
            lower, upper = super().compute_bounds(*arguments, **options)
            return lower, upper * 0 + wrong

    broken = lirpa_library.Library(loaded.version, Broken, loaded.bounded_tensor, loaded.perturbation)
    monkeypatch.setattr("falsifier_adapters.auto_lirpa.library", lambda: broken)
    assert taken(tmp_path, two_layers(), declared(2, 1, *box(2), "(>= Y_0 5.0)"), 2.0).verdict is not Verdict.UNSAT


def test_bounds_that_exclude_a_value_of_the_network_are_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from falsifier_adapters.lirpa_network import BoundedNetwork

    true = BoundedNetwork.upper

    def low(self: BoundedNetwork, *arguments: Any) -> Any:
        return true(self, *arguments) - 2.0

    monkeypatch.setattr(BoundedNetwork, "upper", low)
    outcome = taken(tmp_path, two_layers(), declared(2, 1, *box(2, "0.9"), "(<= Y_0 1.5)"), 2.0)
    assert outcome.verdict is Verdict.UNKNOWN
    assert outcome.reason == "auto_LiRPA's bounds exclude a value that the network has"


def test_several_convolutions_and_a_pool(tmp_path: Path) -> None:
    """A convolution of ones over [0, 1]^(4 x 4), a pool, a sum: at most 9 each."""
    nodes = chain(
        [
            ("Conv", [constant("kernel", np.ones((1, 1, 3, 3)))], {"kernel_shape": [3, 3]}),
            ("Relu", [], {}),
            ("AveragePool", [], {"kernel_shape": [2, 2]}),
            ("Flatten", [], {}),
        ],
        (1, 1, 4, 4),
        (1, 1),
    )
    query = declared(16, 1, *box(16, "0.0"), "(>= Y_0 9.5)")
    assert taken(tmp_path, nodes, query).verdict is Verdict.UNSAT


def test_integers_are_not_bounded(tmp_path: Path) -> None:
    import onnx

    nodes = [onnx.helper.make_node("Cast", ["X"], ["Y"], to=onnx.TensorProto.FLOAT)]
    proto = model(nodes, [tensor("X", (1, 2), np.int64)], [tensor("Y", (1, 2))])
    outcome = taken(tmp_path, proto, declared(2, 2, *box(2, "-5.0", "5.0"), "(>= Y_0 6.0)"), 2.0)
    assert outcome.verdict is Verdict.UNKNOWN
    assert "Cast" in outcome.reason


def test_the_search_s_instance_is_taken_over(tmp_path: Path) -> None:
    """In one process nothing is read again, and the result says who decided."""
    instance = small_instance(tmp_path, "holds in parts")
    prepared = Prepared([(None, instance.networks[0].path)], instance.query)
    found = prepared.search(time.monotonic() + 30, max_evaluations=500)
    instance.query.unlink()
    result = hand_over(found, instance, AutoLirpa({}), time.monotonic() + 30, tell=print, prepared=prepared)
    assert (result.verdict, result.reason) == (Verdict.UNSAT, StopReason.VERIFIER)
    assert "auto_LiRPA" in result.reason_text
    assert "floating point" in result.reason_text
    assert result.margins == found.margins


def test_budgets_are_the_search_s_alone(tmp_path: Path) -> None:
    """A proof about the part of the box that they leave would say nothing about the query."""
    instance = small_instance(tmp_path, "violated")  # y >= 1.5 with x in [0, 2], of which the search sees [0.9, 1.1]
    prepared = Prepared([(None, instance.networks[0].path)], instance.query, budgets=[0.1])
    found = prepared.search(time.monotonic() + 30, max_evaluations=200)
    assert found.verdict is Verdict.UNKNOWN
    result = hand_over(found, instance, AutoLirpa({}), time.monotonic() + 30, tell=print, prepared=prepared)
    assert result.verdict is Verdict.SAT
    assert result.witness is not None
    assert result.witness.inputs[0].item() >= 1.5


def test_from_json_alone(tmp_path: Path) -> None:
    handoff = open_handoff(small_instance(tmp_path, "holds"))
    assert AutoLirpa({}).take(handoff, time.monotonic() + 30).verdict is Verdict.UNSAT


@pytest.mark.parametrize(("operator", "optimised"), [("Relu", True), ("Tanh", True), ("LeakyRelu", False)])
def test_optimised_bounds_only_where_they_hold(operator: str, optimised: bool) -> None:
    """The library optimises the slopes of a LeakyRelu over a range in which they do not bound it."""
    from falsifier_adapters.lirpa_library import library
    from falsifier_adapters.lirpa_network import BoundedNetwork

    proto = chain(
        [("MatMul", [constant("w", np.array([[1.0, 1], [1, -1]]))], {}), (operator, [], {})],
        [1, 2],
        [1, 2],
    )
    problems = Prepared(proto, declared(2, 2, *box(2), "(>= Y_0 9.0)")).problems
    assert BoundedNetwork(problems.lowered, np.arange(2), library()).optimised is optimised
