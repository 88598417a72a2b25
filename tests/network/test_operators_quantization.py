"""Quantisation: the very numbers of onnxruntime's integer kernels, and gradients that pass inside the range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper
from operator_checks import batch, check_outputs, gradient, node_model
from operator_graphs import draw, graph_model

from falsifier.errors import UnsupportedError
from falsifier.network.lowering import lower
from falsifier.network.onnxruntime_engine import OnnxruntimeEngine

TYPES = [np.uint8, np.int8, np.uint16, np.int16]
EXACT = 0.0


def quantise(scale: str = "s", zero: str = "z", name: str = "x", result: str = "q", **options: Any) -> NodeProto:
    return helper.make_node("QuantizeLinear", [name, scale, zero], [result], **options)


def dequantise(scale: str = "s", zero: str = "z", name: str = "q", result: str = "y", **options: Any) -> NodeProto:
    return helper.make_node("DequantizeLinear", [name, scale, zero], [result], **options)


def whole_numbers(*shape: int, low: int = -60, high: int = 60, dtype: Any = np.int8) -> NDArray[Any]:
    return np.random.default_rng(5).integers(low, high, size=shape).astype(dtype)


def exact(model: Any, engines: str = "onnxruntime torch") -> None:
    check_outputs(model, batch(model), EXACT, engines)


@pytest.mark.parametrize("dtype", TYPES)
def test_there_and_back(dtype: Any) -> None:
    engines = "onnxruntime" if dtype is np.uint16 else "onnxruntime torch"  # torch hardly computes with it
    exact(graph_model([quantise(), dequantise()], {"x": [2, 3, 4]}, {"s": 0.01, "z": dtype(3)}), engines)
    per_axis = {"s": np.array([0.05, 0.01, 0.1]), "z": np.array([1, 2, 3], dtype)}
    exact(graph_model([quantise(axis=1), dequantise(axis=-2)], {"x": [2, 3, 4]}, per_axis), engines)


def test_types_without_a_zero_point() -> None:
    there = helper.make_node("QuantizeLinear", ["x", "s"], ["y"])
    exact(graph_model([there], {"x": [6]}, {"s": 0.05}))
    there = helper.make_node("QuantizeLinear", ["x", "s"], ["y"], output_dtype=TensorProto.INT8)
    exact(graph_model([there], {"x": [6]}, {"s": 0.05}))


def test_blocks() -> None:
    scales = np.random.default_rng(0).uniform(0.01, 0.1, size=(2, 3, 3))
    zeros = whole_numbers(2, 3, 3, low=0, high=9, dtype=np.uint8)
    options: dict[str, Any] = {"axis": 2, "block_size": 4}
    nodes = [quantise(**options), dequantise(**options)]
    exact(graph_model(nodes, {"x": [2, 3, 10]}, {"s": scales, "z": zeros}))


@pytest.mark.parametrize("length", [6, 600])
def test_dynamic(length: int) -> None:
    """600 products of bytes need more than float32's 24 bits."""
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "w", "z", "v"], ["m"]),
        helper.make_node("Cast", ["m"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["f", "s"], ["p"]),
        dequantise(result="d"),
    ]
    model = graph_model(nodes, {"x": [3, length]}, {"w": whole_numbers(length, 4), "v": np.int8(2)}, outputs=["p", "d"])
    exact(model)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("length", [6, 600])
def test_products(length: int, columns: bool, dtype: Any) -> None:
    constants: dict[str, Any] = {
        "s": 0.03,
        "z": dtype(12),
        "w": whole_numbers(length, 4),
        "ws": np.linspace(0.01, 0.1, 4) if columns else 0.02,
        "wz": np.zeros(4, np.int8) if columns else np.int8(2),
        "ys": 0.5,
        "yz": dtype(10),
    }
    node = helper.make_node("QLinearMatMul", ["q", "s", "z", "w", "ws", "wz", "ys", "yz"], ["y"])
    exact(graph_model([quantise(), node], {"x": [3, length]}, constants))
    if dtype is np.uint8:
        whole = helper.make_node("MatMulInteger", ["q", "w", "z", "wz"], ["y"])
        exact(graph_model([quantise(), whole], {"x": [3, length]}, {k: constants[k] for k in ("s", "z", "w", "wz")}))


@pytest.mark.parametrize("channels", [False, True])
def test_convolutions(channels: bool) -> None:
    constants: dict[str, Any] = {
        "s": 0.03,
        "z": np.uint8(12),
        "w": whole_numbers(4, 3, 3, 3),
        "ws": np.linspace(0.01, 0.04, 4) if channels else 0.02,
        "wz": np.zeros(4, np.int8) if channels else np.int8(0),
        "ys": 0.5,
        "yz": np.uint8(10),
        "b": whole_numbers(4, low=-999, high=999, dtype=np.int32),
    }
    operands = ["q", "s", "z", "w", "ws", "wz", "ys", "yz", "b"]
    node = helper.make_node("QLinearConv", operands, ["y"], pads=[1, 1, 1, 1], strides=[2, 1])
    exact(graph_model([quantise(), node], {"x": [1, 3, 5, 4]}, constants))
    whole = helper.make_node("ConvInteger", ["q", "v", "z", "vz"], ["y"], pads=[1, 1, 1, 1])
    bytes_: dict[str, Any] = {"v": whole_numbers(4, 3, 3, 3, low=0, high=255, dtype=np.uint8), "vz": np.uint8(64)}
    exact(graph_model([quantise(), whole], {"x": [1, 3, 5, 4]}, {"s": 0.03, "z": np.uint8(12), **bytes_}))


def test_scales_from_the_input() -> None:
    """What is quantised may be the constant."""
    constants = {"x": whole_numbers(2, 3), "z": np.array([1, 2, 3], np.int8)}
    model = node_model("DequantizeLinear", {"s": [3]}, constants, order=["x", "s", "z"], axis=1)
    check_outputs(model, batch(model, low=0.1))


def test_gradient_passes_inside_the_range_and_no_further() -> None:
    """Steps of 0.1 from -12.8 to 12.7; what saturates gets none."""
    model = graph_model([quantise(), dequantise()], {"x": [5]}, {"s": 0.1, "z": np.int8(0)})
    points = np.array([[-13.0, -12.75, 0.04, 12.65, 12.75]])
    seed = np.array([[1.0, 2.0, 3.0, 4.0, 5.0]])
    np.testing.assert_allclose(gradient(model, points, seed), [[0, 2, 3, 4, 0]], rtol=1e-5)


def test_gradient_of_a_quantised_layer_is_that_of_its_weights() -> None:
    weights = whole_numbers(6, 4)
    constants: dict[str, Any] = {
        "s": 0.03,
        "z": np.int8(0),
        "w": weights,
        "ws": 0.02,
        "wz": np.int8(0),
        "ys": 0.5,
        "yz": np.int8(0),
    }
    nodes = [
        quantise(),
        helper.make_node("QLinearMatMul", ["q", "s", "z", "w", "ws", "wz", "ys", "yz"], ["p"]),
        dequantise("ys", "yz", "p"),
    ]
    model = graph_model(nodes, {"x": [1, 6]}, constants)
    seed = draw(2, 4).astype(np.float64)
    taken = gradient(model, draw(2, 6, rng_seed=1).astype(np.float64), seed)
    np.testing.assert_allclose(taken, seed @ (0.02 * weights.astype(np.float64)).T, rtol=1e-5)


@pytest.mark.parametrize("activations", [np.uint8, np.int8])
@pytest.mark.parametrize("channels", [False, True])
def test_layers_between_quantisations(channels: bool, activations: Any) -> None:
    """onnxruntime computes them with integers, and rounds halves otherwise than with floats: so does the engine."""
    ones = np.ones(4) if channels else np.float64(1)
    convolution: dict[str, Any] = {"w": whole_numbers(4, 3, 3, 3), "ws": 0.02 * ones, "wz": (0 * ones).astype(np.int8)}
    matrix: dict[str, Any] = {"v": whole_numbers(4, 8), "vs": 0.05, "vz": np.int8(0)}
    common: dict[str, Any] = {"s": 0.03, "z": activations(100), "ys": 0.05, "yz": activations(10), "ps": 0.2}
    nodes = [
        quantise(),
        dequantise(result="d"),
        dequantise("ws", "wz", "w", "wf", axis=0),
        helper.make_node("Conv", ["d", "wf"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        quantise("ys", "yz", "r", "rq"),
        dequantise("ys", "yz", "rq", "rf"),
        helper.make_node("GlobalMaxPool", ["rf"], ["m"]),
        helper.make_node("Flatten", ["m"], ["f"]),
        quantise("ys", "yz", "f", "fq"),
        dequantise("ys", "yz", "fq", "ff"),
        dequantise("vs", "vz", "v", "vf"),
        helper.make_node("MatMul", ["ff", "vf"], ["p"]),
        quantise("ps", "yz", "p", "pq"),
        dequantise("ps", "yz", "pq", "y"),
    ]
    model = graph_model(nodes, {"x": [1, 3, 6, 6]}, {**convolution, **matrix, **common})
    x = batch(model, lanes=20)
    check_outputs(model, x, EXACT, "onnxruntime")
    taken = gradient(model, x.astype(np.float64), np.ones((20, 8)))
    assert np.isfinite(taken).all()
    assert (np.abs(taken).max(axis=1) > 0).mean() > 0.5
    runner = OnnxruntimeEngine(lower(model), 1)
    _, narrow = runner.vjp(x, np.ones((20, 8), np.float32))
    agree = np.isclose(narrow, taken, rtol=1e-3, atol=1e-5).mean()
    assert agree > 0.9  # a rounding on the way may differ


@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.FLOAT8E4M3FN])
def test_packed_types_are_refused(kind: int) -> None:
    nodes = [helper.make_node("QuantizeLinear", ["x", "s"], ["y"], output_dtype=kind)]
    with pytest.raises(UnsupportedError, match="quantisation to"):
        lower(graph_model(nodes, {"x": [4]}, {"s": 0.1}))
