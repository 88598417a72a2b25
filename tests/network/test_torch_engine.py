"""The torch engine: against the original one sample at a time, against differences, and in how it treats its device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from onnx import ModelProto, parser

from falsifier.errors import EngineError, InputError, UnsupportedError
from falsifier.machine import free_cores
from falsifier.network import torch_engine
from falsifier.network.lowering import Lowered, lower
from falsifier.network.reference import Reference
from falsifier.network.torch_device import prepare_torch, resolve_device
from falsifier.network.torch_engine import TorchEngine
from falsifier.objective import ObjectiveForm, Reduction

HEAD = '<ir_version: 8, opset_import: ["" : 13]>\n'

TWO_INPUTS = (
    HEAD
    + """
net (float[2,3] u, double[4] v) => (double[1,4] p, float[2,3] q)
  <int64[2] shape = {1, 4}, double[1] half = {0.5}> {
    q = Tanh (u)
    d = Cast <to = 11> (u)
    m = ReduceMean <keepdims = 0> (d)
    a = Add (v, m)
    e = Mul (a, half)
    p = Reshape (e, shape)
  }
"""
)

STEPS = (
    HEAD
    + """
net (float[1,4] x) => (float[1,4] y) <float[1] two = {2.0}> {
    s = Sign (x)
    y = Mul (s, two)
}
"""
)


MIXED = HEAD + "net (double[1,2] x) => (double[1,2] y) { f = Cast <to = 1> (x) y = Cast <to = 11> (f) }"


def convolution() -> ModelProto:
    """A small convolutional network with random weights of fixed draw."""
    from onnx import helper, numpy_helper

    rng = np.random.default_rng(3)
    weights = {
        "w": rng.normal(size=(3, 2, 3, 3)),
        "v": rng.normal(size=(3, 18)),
        "b": rng.normal(size=3),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 0, 1, 0]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2], pads=[1, 0, 0, 1]),
        helper.make_node("Sigmoid", ["p"], ["s"]),
        helper.make_node("Flatten", ["s"], ["f"]),
        helper.make_node("Gemm", ["f", "v", "b"], ["y"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", 1, [1, 2, 5, 5])],
        [helper.make_tensor_value_info("y", 1, [1, 3])],
        [numpy_helper.from_array(a.astype(np.float32), name) for name, a in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def model(name: str) -> ModelProto:
    return (
        convolution()
        if name == "convolution"
        else parser.parse_model({"two": TWO_INPUTS, "steps": STEPS, "mixed": MIXED}[name])
    )


def engine_for(name: str, **options: Any) -> tuple[TorchEngine, Lowered, Reference]:
    proto = model(name)
    lowered = lower(proto)
    return TorchEngine(lowered, "cpu", threads=1, **options), lowered, Reference(proto.SerializeToString())


def points(n: int, lanes: int, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=(lanes, n))


@pytest.mark.parametrize("name", ["convolution", "two", "steps"])
@pytest.mark.parametrize("lanes", [1, 5])
def test_outputs_are_those_of_single_samples(name: str, lanes: int) -> None:
    engine, _, reference = engine_for(name)
    x = points(engine.n, lanes).astype(engine.dtype)
    expected = np.stack([reference.run_flat(row) for row in x])
    got = engine.outputs(engine.asarray(x)).numpy()
    assert got.dtype == engine.dtype
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["convolution", "two"])
def test_vjp_is_the_derivative(name: str) -> None:
    engine, _, _ = engine_for(name, dtype=np.float64)
    assert engine.gradient == "adjoint"
    x, seed, direction = points(engine.n, 3), points(engine.m, 3, 1), points(engine.n, 3, 2)
    _, gradient = engine.vjp(engine.asarray(x), engine.asarray(seed))
    ahead, behind = (engine.outputs(engine.asarray(x + h * direction)).numpy() for h in (1e-6, -1e-6))
    slope = ((ahead - behind) * seed).sum(axis=1) / 2e-6
    np.testing.assert_allclose((gradient.numpy() * direction).sum(axis=1), slope, rtol=1e-6, atol=1e-8)


def test_float32_network_in_float64_loses_nothing_to_rounding() -> None:
    single, _, _ = engine_for("convolution")
    double, _, _ = engine_for("convolution", dtype=np.float64)
    x = points(single.n, 2).astype(np.float32)
    rough, fine = (e.outputs(e.asarray(x)).numpy() for e in (single, double))
    assert fine.dtype == np.float64
    assert 0 < np.abs(rough - fine).max() < 1e-5


def test_a_float64_network_keeps_what_it_computes_in_float32() -> None:
    engine, _, reference = engine_for("mixed")
    assert engine.dtype == np.float64
    x = np.array([[0.1, 1.0 + 1e-12]])
    assert engine.outputs(engine.asarray(x)).tolist() == [[float(np.float32(0.1)), 1.0]]
    np.testing.assert_array_equal(engine.outputs(engine.asarray(x)).numpy()[0], reference.run_flat(x[0]))
    with pytest.raises(ValueError, match="a float64 network is not run in float32"):
        engine_for("mixed", dtype=np.float32)


def test_autograd_takes_over_without_an_adjoint(monkeypatch: pytest.MonkeyPatch) -> None:
    with_adjoint, lowered, _ = engine_for("convolution")

    def missing(*_: Any) -> Any:
        raise UnsupportedError("the primitive Conv has no adjoint")

    monkeypatch.setattr(torch_engine, "add_adjoint", missing)
    without = TorchEngine(lowered, "cpu", threads=1)
    assert (without.gradient, without.differentiable) == ("autograd", True)
    assert without.why_no_adjoint == "the primitive Conv has no adjoint"
    x, seed = with_adjoint.asarray(points(50, 4)), with_adjoint.asarray(points(3, 4, 1))
    for a, b in zip(with_adjoint.vjp(x, seed), without.vjp(x, seed), strict=True):
        assert not b.requires_grad
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)


def test_windows_choose_where_the_gradient_passes() -> None:
    engine, _, _ = engine_for("steps")
    x = engine.asarray(np.array([[0.1, -3.0, 0.2, 3.0]] * 3))
    seed = torch.ones_like(x)
    window = engine.asarray(np.array([np.inf, 0.5, 1e-6]))
    _, gradient = engine.vjp(x, seed, window)
    assert gradient.tolist() == [[2, 2, 2, 2], [2, 0, 2, 0], [0, 0, 0, 0]]
    assert torch.equal(engine.vjp(x, seed)[1], torch.full_like(x, 2.0))


def test_nothing_waits_for_the_device() -> None:
    # a meta tensor has no numbers: reading one on the way, or mixing devices, raises
    for name in ("convolution", "two", "steps"):
        engine = TorchEngine(lower(model(name)), "meta")
        x = engine.asarray(np.zeros((4, engine.n)))
        rows, offset, scale = (engine.asarray(np.ones(s)) for s in ((1, 2, engine.m), (4, 2), (4, 2)))
        assert engine.outputs(x).shape == (4, engine.m)
        for reduction in Reduction:
            form = ObjectiveForm(rows, offset, scale, reduction)
            assert engine.ascend(x, form, engine.asarray(np.ones(4))).gradient.shape == (4, engine.n)


@pytest.mark.parametrize("reduction", list(Reduction))
@pytest.mark.parametrize("shared_rows", [True, False])
def test_ascend_is_the_derivative_of_its_score(reduction: Reduction, shared_rows: bool) -> None:
    engine, _, _ = engine_for("convolution", dtype=np.float64)
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(1 if shared_rows else 6, 4, 3))
    scale = rng.uniform(0.5, 2, size=(6, 4))
    scale[0, 2:] = 0  # a lane with two atoms
    offset = engine.asarray(rng.normal(size=(6, 4)))
    form = ObjectiveForm(engine.asarray(rows), offset, engine.asarray(scale), reduction)
    x, direction = points(engine.n, 6), points(engine.n, 6, 9)
    here = engine.ascend(engine.asarray(x), form)
    y = here.outputs.numpy()
    slack = np.einsum("bkm,bm->bk", np.broadcast_to(rows, (6, 4, 3)), y) + form.offset.numpy()
    np.testing.assert_allclose(here.slack.numpy(), slack, rtol=1e-12)
    np.testing.assert_allclose(here.score.numpy(), _score(scale * slack, scale > 0, reduction), rtol=1e-12, atol=1e-12)
    ahead, behind = (engine.ascend(engine.asarray(x + h * direction), form).score.numpy() for h in (1e-6, -1e-6))
    slope = (ahead - behind) / 2e-6
    np.testing.assert_allclose((here.gradient.numpy() * direction).sum(axis=1), slope, rtol=1e-5, atol=1e-7)
    assert (here.weight.numpy()[0, 2:] == 0).all()


def _score(scaled: NDArray[Any], real: NDArray[Any], reduction: Reduction) -> NDArray[Any]:
    """The definition of the reductions, lane by lane."""
    lanes = [row[mask] for row, mask in zip(scaled, real, strict=True)]
    if reduction is Reduction.HINGE:
        return np.array([np.minimum(row, 0).sum() for row in lanes])
    if reduction is Reduction.HARD:
        return np.array([row.min() for row in lanes])
    return np.array([-np.log(np.exp(-row).sum()) for row in lanes])


@pytest.mark.parametrize("reduction", list(Reduction))
def test_a_nan_lane_spoils_no_score_or_gradient(reduction: Reduction) -> None:
    engine, _, _ = engine_for("convolution")
    x = points(engine.n, 2)
    x[1] = np.nan
    rows, zeros, ones = (engine.asarray(a) for a in (np.eye(3)[None], np.zeros((2, 3)), np.ones((2, 3))))
    form = ObjectiveForm(rows, zeros, ones, reduction)
    found = engine.ascend(engine.asarray(x), form)
    assert found.slack[1].isnan().all()
    assert found.score.isfinite().all()
    assert found.score[1] < found.score[0]
    assert (found.weight[1] == 0).all()
    assert (found.gradient[1] == 0).all()


def test_activations_come_by_the_model_s_names() -> None:
    engine, _, _ = engine_for("convolution")
    x = engine.asarray(points(engine.n, 3))
    found = engine.activations(x, ["c", "r", "y", "x", "b"])
    assert torch.equal(found["r"], found["c"].relu())
    assert torch.equal(found["y"], engine.outputs(x))
    assert torch.equal(found["x"], x)
    assert found["b"].shape == (3, 3)
    with pytest.raises(EngineError, match="no tensor 'nowhere'"):
        engine.activations(x, ["nowhere"])


def test_tensors_are_freed_after_their_last_use() -> None:
    engine, _, _ = engine_for("convolution")
    plan = engine._forward
    made = [slot for step in plan._steps for slot in step.outputs]
    freed = [slot for step in plan._steps for slot in step.dead]
    assert len(freed) == len(set(freed))
    assert set(made) - set(freed) == set(plan._wanted)


def test_running_out_of_memory_is_a_memory_error(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _, _ = engine_for("convolution")

    def run(*_: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB")

    x = engine.asarray(points(engine.n, 2))
    for step in engine._forward._steps:
        object.__setattr__(step, "run", run)
    with pytest.raises(MemoryError, match="ran out of memory"):
        engine.outputs(x)


def test_a_failing_primitive_is_named() -> None:
    engine, _, _ = engine_for("convolution")
    with pytest.raises(EngineError, match="torch cannot run"):
        engine.outputs(torch.zeros(2, 49))


@pytest.mark.parametrize("device", ["tpu", "cuda:x", "cuda:", "CPU", "cpu:0", ""])
def test_an_unknown_device_is_an_input_error(device: str) -> None:
    with pytest.raises(InputError, match="unknown device"):
        resolve_device(device)


def test_cuda_that_cannot_be_had_is_an_input_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve_device("auto").type == "cpu"
    with pytest.raises(InputError, match="sees 0 CUDA devices"):
        resolve_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert str(resolve_device("cuda:1")) == "cuda:1"
    assert str(resolve_device("auto")) == "cuda:0"
    with pytest.raises(InputError, match="sees 2 CUDA devices"):
        resolve_device("cuda:2")


def test_tf32_is_switched_off_on_cuda() -> None:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    prepare_torch(torch.device("cuda"))
    assert not torch.backends.cuda.matmul.allow_tf32
    assert not torch.backends.cudnn.allow_tf32


def test_threads_follow_the_affinity_unless_said() -> None:
    before = torch.get_num_threads()
    try:
        prepare_torch(torch.device("cpu"))
        assert torch.get_num_threads() == free_cores()
        prepare_torch(torch.device("cpu"), threads=1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", ["convolution", "two", "steps"])
def test_pulling_is_a_gradient_of_the_outputs_seed(name: str) -> None:
    engine, _, _ = engine_for(name)
    x = engine.asarray(points(engine.n, 5))
    y, gradient = engine.pull(x, lambda y: y * y)
    for mine, theirs in zip((y, gradient), engine.vjp(x, engine.outputs(x) ** 2), strict=True):
        np.testing.assert_array_equal(mine.numpy(), theirs.numpy())
