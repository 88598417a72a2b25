"""The self-check, and the choice of engine that rests on it."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import pytest
from models import affine, identity
from numpy.typing import NDArray
from small_networks import AFFINE, read

from falsifier.errors import EngineError, InputError
from falsifier.network import load, selection
from falsifier.network.lowering import lower
from falsifier.network.onnxruntime_engine import OnnxruntimeEngine
from falsifier.network.reference import Reference
from falsifier.network.selfcheck import GradientState, check_points, relative_deviation, self_check
from falsifier.network.single import SingleSampleEngine

Array = NDArray[Any]
NET = affine([[1.0, -1.0], [2.0, 0.5]])


def reference_of(model: Any) -> Reference:
    return load(model).reference


class Altered(SingleSampleEngine):
    """The reference's outputs, then changed: `how(outputs, batch size)`."""

    def __init__(self, reference: Reference, how: Any) -> None:
        super().__init__(reference)
        self.how = how

    def outputs(self, x: Array) -> Array:
        changed: Array = self.how(super().outputs(x))
        return changed


def test_an_engine_that_computes_the_original_passes() -> None:
    outcome = self_check(OnnxruntimeEngine(lower(NET)), reference_of(NET))
    assert outcome.passed
    assert outcome.points == 16
    assert outcome.worst < 1
    assert outcome.gradient is GradientState.UNCHECKED


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (lambda y: y + 0.1, "deviates"),
        (lambda y: y * 1.01, "deviates"),
        (lambda y: y[:, ::-1], "deviates"),
        (lambda y: y - y.mean(axis=0) if len(y) > 1 else y, "deviates"),  # mixes the lanes of a batch
        (lambda y: y if len(y) > 1 else y + 1, "deviates"),  # wrong for one lane alone
        (lambda y: np.where(np.arange(len(y))[:, None] == 7, np.nan, y), "1 of 16"),
        (lambda y: y[:, :1], "shape"),
        (lambda y: y[:1], "shape"),
    ],
)
def test_engines_that_compute_something_else_fail(how: Any, words: str) -> None:
    reference = reference_of(NET)
    outcome = self_check(Altered(reference, how), reference)
    assert not outcome.passed
    assert words in outcome.reason


def test_rounding_is_no_deviation() -> None:
    reference = reference_of(NET)
    rng = np.random.default_rng(0)
    outcome = self_check(Altered(reference, lambda y: y * (1 + 1e-6 * rng.normal(size=y.shape))), reference)
    assert outcome.passed


def test_a_narrow_box_is_judged_by_rounding_and_not_by_its_spread() -> None:
    """Outputs near 1000 that spread over 1e-3: a deviation of one part in 10^6 is rounding."""
    reference = reference_of(affine([[1.0, 1.0]], [1000.0]))
    box = (np.zeros(2), np.full(2, 5e-4))
    assert self_check(Altered(reference, lambda y: y * (1 + 1e-6)), reference, box).passed
    assert not self_check(Altered(reference, lambda y: y + 1), reference, box).passed


def test_half_precision_is_judged_by_its_own_rounding() -> None:
    """Outputs that spread over less than the original rounds them by."""
    rng = np.random.default_rng(0)
    first, second = (", ".join(f"{w:.4f}" for w in rng.uniform(0.1, 0.9, count)) for count in (64, 16))
    model = read(
        f"""net (float16[1,8] x) => (float16[1,2] y) <float[8,8] w = {{{first}}}, float[8,2] v = {{{second}}}> {{
        a = Cast <to = 10> (w)
        b = Cast <to = 10> (v)
        h = MatMul (x, a)
        g = Tanh (h)
        y = MatMul (g, b)
        }}"""
    )
    lowered, reference = lower(model), reference_of(model)
    box = (np.full(8, 0.7003), np.full(8, 0.7004))
    engine = OnnxruntimeEngine(lowered)
    assert lowered.grain == np.finfo(np.float16).eps
    assert not self_check(engine, reference, box).passed
    assert self_check(engine, reference, box, grain=lowered.grain).passed
    assert not self_check(Altered(reference, lambda y: y * 1.05), reference, box, grain=lowered.grain).passed


def test_a_network_that_rounds_may_miss_a_quarter_of_the_points() -> None:
    reference = reference_of(NET)
    few, many = (Altered(reference, lambda y, k=k: y + (np.arange(len(y)) >= 16 - k)[:, None]) for k in (4, 5))
    assert self_check(few, reference, discrete=True).passed
    assert not self_check(few, reference).passed
    assert not self_check(many, reference, discrete=True).passed


def test_nan_agrees_with_nan_alone() -> None:
    model = read("net (float[1,1] x) => (float[1,1] y) { y = Sqrt (x) }")
    box = (np.array([-1.0]), np.array([1.0]))
    reference = reference_of(model)
    assert self_check(OnnxruntimeEngine(lower(model)), reference, box).passed
    assert not self_check(Altered(reference, np.nan_to_num), reference, box).passed


def test_equal_infinities_agree() -> None:
    inf, zero = np.array([[np.inf], [1.0]]), np.zeros(1)
    np.testing.assert_array_equal(relative_deviation(inf, inf, zero, discrete=False), [0, 0])
    np.testing.assert_array_equal(relative_deviation(-inf, inf, zero, discrete=False) > 1, [True, True])


def test_points_are_the_same_every_time_inside_the_box_and_begin_at_its_centre() -> None:
    reference = reference_of(identity(3))
    lower_end, upper = np.array([-1.0, 0.1, 5.0]), np.array([1.0, 0.1, 6.0])
    x = check_points(reference, (lower_end, upper), 16)
    assert x.shape == (16, 3)
    np.testing.assert_allclose(x[0], [0, 0.1, 5.5], rtol=1e-6)
    np.testing.assert_array_equal(x[1], lower_end.astype(np.float32))
    np.testing.assert_array_equal(x[2], upper.astype(np.float32))
    assert (x >= lower_end.astype(np.float32)).all()
    assert (x <= upper.astype(np.float32)).all()
    np.testing.assert_array_equal(x, check_points(reference, (lower_end, upper), 16))


def test_points_of_the_widest_box_are_finite() -> None:
    largest = np.finfo(np.float32).max
    x = check_points(reference_of(identity(2)), (np.full(2, -largest), np.full(2, largest)), 16)
    assert np.isfinite(x).all()


def test_integer_inputs_get_whole_points() -> None:
    model = read("net (int64[1,4] i) => (float[1,4] y) { y = Cast <to = 1> (i) }")
    x = check_points(reference_of(model), (np.zeros(4), np.full(4, 9.0)), 16)
    np.testing.assert_array_equal(x, np.rint(x))


@pytest.mark.parametrize(
    ("body", "box", "state"),
    [
        ("y = Neg (x)", (0, 1), GradientState.FINE),
        ("z = Relu (x) y = Mul (z, z)", (-2, -1), GradientState.ZERO),
        ("z = Sub (x, x) y = Div (x, z)", (1, 2), GradientState.NON_FINITE),
    ],
)
def test_what_gradients_look_like_is_told(body: str, box: tuple[float, float], state: GradientState) -> None:
    model = read(f"net (float[1,2] x) => (float[1,2] y) {{ {body} }}")
    ends = np.full(2, box[0], np.float32), np.full(2, box[1], np.float32)
    outcome = self_check(OnnxruntimeEngine(lower(model)), reference_of(model), ends, gradient=True)
    assert outcome.passed
    assert outcome.gradient is state


def test_an_engine_without_gradients_says_so() -> None:
    reference = reference_of(NET)
    assert self_check(SingleSampleEngine(reference), reference, gradient=True).gradient is GradientState.ABSENT


def test_slow_networks_are_checked_on_fewer_points(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(seconds)))
    outcome = self_check(OnnxruntimeEngine(lower(NET)), reference_of(NET))
    assert outcome.passed
    assert outcome.points == 3


@pytest.mark.parametrize(("lane_bytes", "points"), [(1 << 30, 3), (1 << 23, 8), (1, 16)])
def test_networks_with_large_tensors_are_checked_on_fewer_points(lane_bytes: int, points: int) -> None:
    engine = OnnxruntimeEngine(lower(NET))
    engine.lane_bytes = lane_bytes
    assert self_check(engine, reference_of(NET)).points == points


def test_the_first_engine_that_passes_is_chosen() -> None:
    network = load(NET)
    engine = network.engine()
    assert engine.name == "onnxruntime"
    assert [(a.engine, a.accepted) for a in network.report] == [("onnxruntime", True)]
    assert network.report[0].check is not None


def test_the_reasons_of_engines_that_were_passed_over_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    network = load(NET)

    def broken(lowered: Any, device: str) -> Any:
        return Altered(network.reference, lambda y: y + 1)

    def absent(lowered: Any, device: str) -> Any:
        raise EngineError("torch cannot be imported")

    monkeypatch.setattr(selection, "_onnxruntime", broken)
    monkeypatch.setattr(selection, "_torch", absent)
    assert network.engine().name == "single-sample"
    assert [(a.engine, a.accepted) for a in network.report] == [
        ("onnxruntime", False),
        ("torch", False),
        ("single-sample", True),
    ]
    assert "deviates from the original on 16 of 16 points" in network.report[0].reason
    assert network.report[1].reason == "torch cannot be imported"


@pytest.mark.parametrize("where", ["lower", "engine"])
def test_a_network_that_memory_holds_only_once_runs_one_sample_at_a_time(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Without torch, which takes more."""

    def starved(*_: Any, **__: Any) -> Any:
        raise MemoryError("no room")

    if where == "lower":
        monkeypatch.setattr("falsifier.network.lowering.lower", starved)
    else:
        monkeypatch.setattr(selection, "_onnxruntime", starved)
    monkeypatch.setattr(selection, "_torch", lambda lowered, device: pytest.fail("torch was asked"))
    network = load(NET)
    assert network.engine().name == "single-sample"
    assert "no room" in network.report[0].reason


def test_rounding_is_measured_only_where_it_may_explain_something() -> None:
    reference = reference_of(NET)
    runs = []

    class Counted:
        inputs, n, m, dtype = reference.inputs, reference.n, reference.m, reference.dtype

        def run_flat(self, x: Array) -> Array:
            runs.append(x)
            return reference.run_flat(x)

    assert self_check(OnnxruntimeEngine(lower(NET)), Counted()).passed
    assert len(runs) == 16


def test_a_network_that_is_not_lowered_runs_one_sample_at_a_time() -> None:
    network = load(read("net (float[1,4] x, int64[1] s) => (float[A] y) { y = Reshape (x, s) }"))
    engine = network.engine(check=True, box=(np.full(5, 4.0), np.full(5, 4.0)))
    assert engine.name == "single-sample"
    assert all("depends on the input" in a.reason for a in network.report[:2])
    np.testing.assert_array_equal(engine.outputs(np.array([[1, 2, 3, 4, 4]], np.float32)), [[1, 2, 3, 4]])


@pytest.mark.parametrize("torch_has_gradients", [True, False])
def test_without_an_adjoint_torch_is_asked_for_gradients(
    monkeypatch: pytest.MonkeyPatch, torch_has_gradients: bool
) -> None:
    network = load(NET)

    class Torch(SingleSampleEngine):
        name = "torch"
        differentiable = torch_has_gradients

    monkeypatch.setattr(selection, "_onnxruntime", lambda lowered, device: SingleSampleEngine(network.reference))
    monkeypatch.setattr(selection, "_torch", lambda lowered, device: Torch(network.reference))
    engine = network.engine()
    assert (engine.name == "torch") is torch_has_gradients
    assert sum(a.accepted for a in network.report) == 1


def test_a_device_that_cannot_be_had_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(lowered: Any, device: str) -> Any:
        raise InputError(f"device {device!r} cannot be had")

    monkeypatch.setattr(selection, "_torch", refuse)
    with pytest.raises(InputError, match="cuda"):
        load(NET).engine("cuda")


def test_batch_traps_are_served_by_the_batched_engine() -> None:
    for name in ("reshape to a fixed leading one", "flatten at axis 0", "mean over the batch axis"):
        assert load(AFFINE[name]).engine().name == "onnxruntime"


def test_the_grain_of_one_is_rounding_however_small_the_values() -> None:
    # a sigmoid far below 0: onnxruntime gives multiples of the last bit of 1
    expected = np.array([[0.0], [8.94e-8], [1.79e-7]], dtype=np.float32)
    none = np.zeros(1)
    assert relative_deviation(expected + np.float32(1.5e-7), expected, none, False).max() < 1
    assert relative_deviation(expected + np.float32(1.5e-6), expected, none, False).max() > 1
    # in float64 the same values are numbers
    wide = expected.astype(np.float64)
    assert relative_deviation(wide + 1.5e-7, wide, none, False).max() > 1


def test_points_that_the_original_refuses_are_left_out() -> None:
    model = read(
        """net (float[1] x) => (float[1] y) <float[3] w = {1.0, 2.0, 4.0}> {
        i = Cast <to = 7> (x)
        y = Gather <axis = 0> (w, i)
        }"""
    )
    network = load(model)
    engine = OnnxruntimeEngine(lower(model))
    some = self_check(engine, network.reference, (np.array([0.0]), np.array([6.0])))
    assert some.passed
    assert 0 < some.points < len(check_points(network.reference, None, 16))
    none = self_check(engine, network.reference, (np.array([6.0]), np.array([9.0])))
    assert not none.passed
    assert "every point" in none.reason


def test_where_the_original_refuses_everything_no_second_engine_is_made() -> None:
    model = read(
        """net (float[1] x) => (float[1] y) <float[3] w = {1.0, 2.0, 4.0}> {
        i = Cast <to = 7> (x)
        y = Gather <axis = 0> (w, i)
        }"""
    )
    network = load(model)
    engine = network.engine(box=(np.array([6.0], np.float32), np.array([9.0], np.float32)))
    assert engine.name == "single-sample"
    assert [attempt.engine for attempt in network.report] == ["onnxruntime", "single-sample"]
