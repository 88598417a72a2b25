"""What every operator test asks: batches equal single samples in both engines, and the adjoint equals the derivative.

The judges are onnxruntime on the original model, one sample at a time; central differences in float64; torch's autograd
through the closures; and the two engines against each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import ArrayLike, NDArray
from onnx import helper, numpy_helper

from falsifier.network.lowering import lower
from falsifier.network.onnxruntime_engine import OnnxruntimeEngine
from falsifier.network.reference import Reference
from falsifier.network.torch_engine import TorchEngine

Array = NDArray[Any]


def node_model(
    op: str,
    inputs: Mapping[str, Sequence[int]],
    constants: Mapping[str, ArrayLike] | None = None,
    *,
    order: Sequence[str] | None = None,
    opset: int = 21,
    outputs: int = 1,
    dtype: Any = np.float32,
    result: Any = None,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node. `inputs`: shapes of what varies; `order`: operand names in the node ('' is omitted)."""
    constants = {} if constants is None else constants
    names = [*inputs, *constants] if order is None else list(order)
    results = [f"y{i}" for i in range(outputs)]
    arrays = {k: np.asarray(v) for k, v in constants.items()}
    arrays = {k: v.astype(dtype) if v.dtype.kind == "f" else v for k, v in arrays.items()}
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    produced = helper.np_dtype_to_tensor_dtype(np.dtype(dtype if result is None else result))
    graph = helper.make_graph(
        [helper.make_node(op, names, results, **attributes)],
        op,
        [helper.make_tensor_value_info(name, kind, list(shape)) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, produced, None) for name in results],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


def batch(model: onnx.ModelProto, lanes: int = 3, low: float = -2.0, high: float = 2.0, rng_seed: int = 0) -> Array:
    """Uniform points `[lanes, n]`, in the type of the network."""
    lowered = lower(model)
    drawn = np.random.default_rng(rng_seed).uniform(low, high, size=(lanes, lowered.n))
    return drawn.astype(lowered.dtype)


def check_outputs(model: onnx.ModelProto, x: Array, rtol: float = 2e-5, engines: str = "onnxruntime torch") -> Array:
    """Every lane of a batch is what onnxruntime makes of that sample alone. Returns those outputs `[b, m]`."""
    lowered = lower(model)
    reference = Reference(model.SerializeToString())
    expected = np.stack([reference.run_flat(row) for row in x])
    got = {}
    if "onnxruntime" in engines:
        got["onnxruntime"] = OnnxruntimeEngine(lowered, 1).outputs(x)
    if "torch" in engines:
        engine = TorchEngine(lowered, "cpu", threads=1)
        got["torch"] = engine.outputs(engine.asarray(x)).numpy()
    spread = np.abs(expected[np.isfinite(expected)]).max(initial=0)
    for name, outputs in got.items():
        assert outputs.shape == expected.shape, name
        np.testing.assert_allclose(outputs, expected, rtol=rtol, atol=rtol * spread + 1e-12, err_msg=name)
    return expected


def gradient(model: onnx.ModelProto, x: Array, seed: Array, window: ArrayLike | None = None) -> Array:
    """The adjoint in float64: the gradient `[b, n]` of sum(seed * outputs)."""
    engine = TorchEngine(lower(model), "cpu", np.float64, threads=1)
    assert engine.gradient == "adjoint", engine.why_no_adjoint
    widths = None if window is None else engine.asarray(np.asarray(window))
    _, found = engine.vjp(engine.asarray(x), engine.asarray(seed), widths)
    return np.asarray(found.numpy())


def check_gradient(model: onnx.ModelProto, x: Array, rtol: float = 1e-5) -> Array:
    """The adjoint is the derivative, in float64 by central differences and by autograd; both engines agree on it.

    The points must keep clear of kinks. Returns the gradient `[b, n]`.
    """
    lowered = lower(model)
    x = x.astype(np.float64)
    seed = np.random.default_rng(1).normal(size=(len(x), lowered.m))
    found = gradient(model, x, seed)
    assert found.shape == x.shape
    engine = TorchEngine(lowered, "cpu", np.float64, threads=1)

    scale = max(np.abs(found).max(initial=0), 1e-3)
    step = 1e-6
    for i in range(x.shape[1]):
        shift = np.zeros_like(x)
        shift[:, i] = step
        above, below = (engine.outputs(engine.asarray(x + s)).numpy() for s in (shift, -shift))
        difference = ((above - below) * seed).sum(axis=1) / (2 * step)
        np.testing.assert_allclose(found[:, i], difference, rtol=1e-4, atol=1e-6 * scale + 1e-7, err_msg=f"input {i}")

    np.testing.assert_allclose(found, autograd(model, x, seed), rtol=rtol, atol=rtol * scale, err_msg="autograd")

    runner = OnnxruntimeEngine(lowered, 1)
    assert runner.differentiable, runner.why_no_gradient
    _, narrow = runner.vjp(x.astype(runner.dtype), seed.astype(runner.dtype))
    np.testing.assert_allclose(narrow, found, rtol=1e-3, atol=1e-4 * scale, err_msg="onnxruntime")
    return found


def autograd(model: onnx.ModelProto, x: Array, seed: Array) -> Array:
    """The gradient that torch's autograd finds through the closures, in float64."""
    from falsifier.network.torch_plan import Constants, Plan

    lowered = lower(model)
    constants = Constants(dict(lowered.program.constants), torch.device("cpu"), widen=True)
    plan = Plan(lowered.program, [lowered.x.name], [lowered.y.name], constants)
    point = torch.from_numpy(x.copy()).requires_grad_()
    (outputs,) = plan.run([point])
    (found,) = torch.autograd.grad((outputs * torch.from_numpy(seed)).sum(), [point])
    return np.asarray(found.numpy())


def check(model: onnx.ModelProto, low: float = -2.0, high: float = 2.0, rtol: float = 2e-5) -> None:
    """Outputs and gradient at random points."""
    x = batch(model, low=low, high=high)
    check_outputs(model, x, rtol)
    check_gradient(model, x)
