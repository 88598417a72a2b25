"""Normalisations, over statistics that are constant or of the sample itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from operator_checks import check, check_outputs, gradient, node_model

from falsifier.network.lowering import lower

STATISTICS: dict[str, Any] = {"s": [0.5, 2.0, -1.0], "b": [0.1, 0.2, 0.3], "m": [0.3, -0.4, 0.5], "v": [1.0, 0.5, 2.0]}


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
@pytest.mark.parametrize("shape", [[1, 3], [2, 3], [1, 3, 2, 2], [2, 3, 4]])
def test_batch_normalization(opset: int, shape: list[int]) -> None:
    check(node_model("BatchNormalization", {"x": shape}, STATISTICS, opset=opset, epsilon=0.01))


def test_batch_normalization_of_constant_statistics_is_one_product_and_one_sum() -> None:
    model = node_model("BatchNormalization", {"x": [1, 3, 2, 2]}, STATISTICS, opset=15)
    assert [p.op for p in lower(model).program.primitives if p.op != "Reshape"] == ["Mul", "Add"]


@pytest.mark.parametrize("varying", ["s", "b", "m", "v"])
def test_batch_normalization_by_statistics_that_depend_on_the_input(varying: str) -> None:
    constants = {k: v for k, v in STATISTICS.items() if k != varying}
    inputs = {"x": [2, 3, 2], varying: [3]}
    model = node_model("BatchNormalization", inputs, constants, order=["x", "s", "b", "m", "v"], opset=15)
    check(model, 0.3, 2)


@pytest.mark.parametrize("opset", [14, 15])
def test_batch_normalization_in_training_mode(opset: int) -> None:
    """Its batch is that of the sample, never the lanes."""
    model = node_model(
        "BatchNormalization", {"x": [2, 3, 2]}, STATISTICS, opset=opset, training_mode=1, momentum=0.7, outputs=3
    )
    check(model, rtol=1e-4)


@pytest.mark.parametrize("opset", [7, 9, 13])
def test_batch_normalization_that_asks_for_training_by_its_outputs(opset: int) -> None:
    """What exports in training mode, or without running statistics, have before opset 14."""
    model = node_model("BatchNormalization", {"x": [2, 3, 2]}, STATISTICS, opset=opset, momentum=0.7, outputs=5)
    check(model, rtol=1e-4)


PAIR: dict[str, Any] = {"s": [0.5, 2.0], "b": [0.1, 0.2]}


@pytest.mark.parametrize("shape", [[1, 2, 4], [2, 2, 2, 3]])
def test_instance_normalization(shape: list[int]) -> None:
    check(node_model("InstanceNormalization", {"x": shape}, PAIR, opset=7), rtol=1e-4)


@pytest.mark.parametrize("opset", [18, 21])
def test_group_normalization(opset: int) -> None:
    """One scale per group before opset 21, one per channel since."""
    count = 2 if opset == 18 else 4
    constants = {"s": np.linspace(0.5, 2, count), "b": np.linspace(-1, 1, count)}
    model = node_model("GroupNormalization", {"x": [2, 4, 3]}, constants, opset=opset, num_groups=2)
    check(model, rtol=1e-4)


@pytest.mark.parametrize("axis", [-1, 1, 0])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("op", ["LayerNormalization", "RMSNormalization"])
def test_layer_normalization(op: str, axis: int, bias: bool) -> None:
    shape = [2, 3, 4]
    rng = np.random.default_rng(4)
    constants = {"s": rng.uniform(0.5, 2, shape[axis:])}
    if bias and op == "LayerNormalization":
        constants["b"] = rng.uniform(-1, 1, shape[axis:])
    opset = 17 if op == "LayerNormalization" else 23
    check(node_model(op, {"x": shape}, constants, opset=opset, axis=axis, epsilon=0.01), rtol=1e-4)


def test_layer_normalization_with_its_statistics_or_a_scale_that_varies() -> None:
    scale = np.array([0.5, 1.0, 2.0])
    check(node_model("LayerNormalization", {"x": [2, 3]}, {"s": scale}, opset=17, outputs=3), rtol=1e-4)
    check(node_model("LayerNormalization", {"x": [2, 3], "s": [3]}, opset=17), rtol=1e-4)


def test_layer_normalization_of_a_constant_row_has_a_finite_gradient() -> None:
    model = node_model("LayerNormalization", {"x": [3]}, {"s": [1.0, 1.0, 1.0]}, opset=17)
    assert np.isfinite(gradient(model, np.ones((1, 3)), np.ones((1, 3)))).all()


@pytest.mark.parametrize(("p", "axis"), [(1, 0), (1, -1), (2, 1), (2, -1)])
def test_lp_normalization(p: int, axis: int) -> None:
    check(node_model("LpNormalization", {"x": [2, 3]}, opset=7, p=p, axis=axis), rtol=1e-4)


def test_lp_normalization_of_zero_is_zero() -> None:
    model = node_model("LpNormalization", {"x": [3]}, opset=22)
    assert not check_outputs(model, np.zeros((2, 3), dtype=np.float32)).any()


@pytest.mark.parametrize("axes", [None, [1], [0, 2], [-1]])
def test_mean_variance_normalization(axes: list[int] | None) -> None:
    attributes: dict[str, Any] = {} if axes is None else {"axes": axes}
    opset = 13 if axes and axes[0] < 0 else 9
    check(node_model("MeanVarianceNormalization", {"x": [2, 3, 2, 4]}, opset=opset, **attributes), rtol=1e-4)


@pytest.mark.parametrize("size", [1, 3, 5])
def test_lrn(size: int) -> None:
    check(node_model("LRN", {"x": [2, 4, 2, 2]}, opset=13, size=size, alpha=0.5, beta=0.6, bias=1.3), rtol=1e-4)


def test_shapes_that_were_folded_into_lanes() -> None:
    """A convolution of several images folds them into the lane axis; what follows asks for other views."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Sigmoid", ["c"], ["s"]),
        helper.make_node("Softmax", ["s"], ["t"], axis=0),
        helper.make_node("PRelu", ["c", "p"], ["r"]),
        helper.make_node("Add", ["t", "r"], ["a"]),
        helper.make_node("ReduceMean", ["a"], ["y"], axes=[0, 2]),
    ]
    weights = np.random.default_rng(5).normal(size=(2, 1, 2, 2)).astype(np.float32)
    slopes = np.array([[[0.2]], [[0.6]]], dtype=np.float32)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 1, 3, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(weights, "w"), onnx.numpy_helper.from_array(slopes, "p")],
    )
    check(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), rtol=1e-4)
