"""The operators of com.microsoft that stand in models which onnxruntime's tools wrote."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from operator_checks import batch, check, check_outputs
from operator_graphs import draw, graph_model

from falsifier.errors import UnsupportedError
from falsifier.network.lowering import lower

DOMAIN = "com.microsoft"


def contributed(
    op: str,
    inputs: dict[str, Any],
    constants: dict[str, Any] | None = None,
    order: list[str] | None = None,
    before: list[onnx.NodeProto] | None = None,
    outputs: tuple[str, ...] = ("y",),
    domain: str = DOMAIN,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one such node, behind nodes that make its operands."""
    names = order if order is not None else [*inputs, *(constants or {})]
    node = helper.make_node(op, names, list(outputs), domain=domain, **attributes)
    model = graph_model([*(before or []), node], inputs, constants, outputs=[o for o in outputs if o])
    model.opset_import.add(domain=DOMAIN, version=1)
    return model


def quantised(name: str, scale: str = "s", zero: str = "z") -> onnx.NodeProto:
    return helper.make_node("QuantizeLinear", [name, scale, zero], [f"{name}q"])


def test_gelus() -> None:
    check(contributed("Gelu", {"x": [2, 3]}))
    check(contributed("BiasGelu", {"x": [2, 3]}, {"b": draw(3)}))
    check(contributed("FastGelu", {"x": [2, 3]}, {"b": draw(3)}))
    check(contributed("FastGelu", {"x": [2, 3]}))
    check(contributed("QuickGelu", {"x": [2, 3]}, alpha=1.5))


@pytest.mark.parametrize("turned", [0, 1])
def test_products(turned: int) -> None:
    a, b = ([3, 2], [4, 3]) if turned else ([2, 3], [3, 4])
    options: dict[str, Any] = {"transA": turned, "transB": turned, "alpha": 0.5}
    check(contributed("FusedMatMul", {"a": a, "b": b}, **options))
    check(contributed("FusedMatMul", {"a": a}, {"b": draw(*b)}, **options))


def test_turned_batches_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="transposed batches"):
        lower(contributed("FusedMatMul", {"a": [2, 3, 4], "b": [2, 4, 3]}, transBatchA=1))


@pytest.mark.parametrize(
    ("activation", "parameters"),
    [("Relu", []), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.5]), ("HardSigmoid", [0.3, 0.6])],
)
def test_convolutions(activation: str, parameters: list[float]) -> None:
    constants = {"w": 0.3 * draw(3, 2, 2, 2), "b": draw(3)}
    options: dict[str, Any] = {"activation": activation}
    if parameters:
        options["activation_params"] = parameters
    check(contributed("FusedConv", {"x": [1, 2, 3, 3]}, constants, **options))


def test_a_convolution_with_a_term_to_add() -> None:
    constants = {"w": draw(3, 2, 2, 2), "b": draw(3)}
    inputs = {"x": [1, 2, 3, 3], "t": [1, 3, 2, 2]}
    check(contributed("FusedConv", inputs, constants, order=["x", "w", "b", "t"], activation="Relu"))


def test_a_layer_with_activation() -> None:
    constants = {"w": draw(4, 3), "b": draw(4)}
    check(contributed("FusedGemm", {"x": [2, 3]}, constants, transB=1, activation="Relu"))
    options: dict[str, Any] = {"activation": "LeakyRelu", "activation_alpha": 0.3}
    check(contributed("FusedGemm", {"x": [2, 3]}, constants, transB=1, **options))


def test_normalisation_of_a_sum() -> None:
    inputs = {"x": [1, 2, 4], "k": [1, 2, 4]}
    constants = {"g": draw(4), "b": draw(4, rng_seed=1), "c": draw(4, rng_seed=2)}
    outputs = ("y", "", "", "t")
    check(contributed("SkipLayerNormalization", inputs, constants, outputs=outputs, epsilon=1e-5))
    check(contributed("SkipLayerNormalization", inputs, {"g": draw(4)}, epsilon=1e-5))
    simple = {"g": draw(4), "c": draw(4, rng_seed=2)}
    check(contributed("SkipSimplifiedLayerNormalization", inputs, simple, outputs=outputs, epsilon=1e-5))
    check(contributed("SimplifiedLayerNormalization", {"x": [2, 4]}, {"g": draw(4)}, domain="", axis=-1, epsilon=1e-5))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
def test_quantisation(dtype: Any) -> None:
    constants = {"s": 0.01, "z": dtype(3)}
    there = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], domain=DOMAIN)
    model = contributed("DequantizeLinear", {"x": [2, 3]}, constants, order=["q", "s", "z"], before=[there])
    check_outputs(model, batch(model), 0.0, "onnxruntime" if dtype is np.uint16 else "onnxruntime torch")


@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_quantised_arithmetic(op: str) -> None:
    constants = {"s": 0.02, "z": np.uint8(120), "ys": 0.0311, "yz": np.uint8(128)}
    order = ["aq", "s", "z", "bq", "s", "z", "ys", "yz"]
    before = [quantised("a"), quantised("b")]
    model = contributed(op, {"a": [2, 5], "b": [2, 5]}, constants, order, before)
    check_outputs(model, batch(model), 0.0)


@pytest.mark.parametrize(
    "op", ["QLinearSigmoid", "QLinearLeakyRelu", "QLinearGlobalAveragePool", "QLinearAveragePool", "QLinearSoftmax"]
)
def test_quantised_functions(op: str) -> None:
    """onnxruntime rounds an average in integers: one step apart at most."""
    constants = {"s": 0.02, "z": np.uint8(120), "ys": 0.0117, "yz": np.uint8(100)}
    options: dict[str, Any] = {"channels_last": 0} if op.endswith("Pool") else {}
    if op == "QLinearAveragePool":
        options["kernel_shape"] = [2, 2]
    if op == "QLinearSoftmax":
        options = {"axis": 1, "opset": 13}
    model = contributed(op, {"x": [1, 2, 3, 3]}, constants, ["xq", "s", "z", "ys", "yz"], [quantised("x")], **options)
    check_outputs(model, batch(model), 0.01)


@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("quantised_after", [False, True])
def test_quantised_products_with_a_bias(turned: int, quantised_after: bool) -> None:
    """Weights with a scale for each column; one step apart at most."""
    weights = np.random.default_rng(0).integers(-60, 60, size=(4, 3) if turned else (3, 4)).astype(np.int8)
    constants: dict[str, Any] = {
        "s": 0.02,
        "z": np.uint8(120),
        "w": weights,
        "ws": np.array([0.05, 0.02, 0.03, 0.01], np.float32),
        "wz": np.zeros(4, np.int8),
        "c": np.array([100, -2000, 30, 0], np.int32),
    }
    order = ["xq", "s", "z", "w", "ws", "wz", "c"]
    if quantised_after:
        constants |= {"ys": 0.0311, "yz": np.uint8(128)}
        order += ["ys", "yz"]
    model = contributed("QGemm", {"x": [2, 3]}, constants, order, [quantised("x")], transB=turned, alpha=1.0)
    check_outputs(model, batch(model), 0.02)


def test_quantised_parts_side_by_side() -> None:
    constants = {"s": 0.02, "z": np.uint8(120), "ys": 0.0311, "yz": np.uint8(128)}
    order = ["ys", "yz", "aq", "s", "z", "bq", "ys", "yz"]
    before = [quantised("a"), quantised("b", "ys", "yz")]
    model = contributed("QLinearConcat", {"a": [2, 3], "b": [2, 2]}, constants, order, before, axis=1)
    check_outputs(model, batch(model), 0.0)


def test_products_of_integers() -> None:
    weights = np.random.default_rng(0).integers(-60, 60, size=(3, 4)).astype(np.int8)
    constants: dict[str, Any] = {
        "s": 0.02,
        "z": np.uint8(120),
        "w": weights,
        "ws": 0.05,
        "wz": np.int8(3),
        "b": draw(4),
    }
    order = ["xq", "w", "s", "ws", "z", "wz", "b"]
    model = contributed("MatMulIntegerToFloat", {"x": [2, 3]}, constants, order, [quantised("x")])
    check_outputs(model, batch(model))
    order = ["x", "w", "ws", "wz", "b"]
    dynamic = {name: constants[name] for name in order[1:]}
    model = contributed("DynamicQuantizeMatMul", {"x": [2, 3]}, dynamic, order)
    check_outputs(model, batch(model))


@pytest.mark.parametrize(
    "model",
    [
        contributed("Pad", {"x": [2, 3]}, {"p": np.array([0, 1, 1, -1]), "v": 0.5}),
        contributed("ExpandDims", {"x": [2, 3]}, {"a": np.array(1, np.int32)}),
        contributed("Trilu", {"x": [3, 3]}, upper=0),
        contributed("GridSample", {"x": [1, 2, 3, 3]}, {"g": draw(1, 2, 2, 2)}, mode="bilinear"),
    ],
)
def test_what_the_standard_has_taken_over(model: onnx.ModelProto) -> None:
    check_outputs(model, batch(model))
