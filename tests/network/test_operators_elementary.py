"""Elementary functions and activations: batches, derivatives, and slopes where the formula alone would give NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operator_checks import batch, check, check_outputs, gradient, node_model

UNARY = {
    "Abs": (-2, 2),
    "Acos": (-0.9, 0.9),
    "Acosh": (1.1, 3),
    "Asin": (-0.9, 0.9),
    "Asinh": (-3, 3),
    "Atan": (-3, 3),
    "Atanh": (-0.9, 0.9),
    "Cos": (-4, 4),
    "Cosh": (-2, 2),
    "Erf": (-2, 2),
    "Exp": (-3, 3),
    "Log": (0.1, 5),
    "Reciprocal": (0.2, 3),
    "Sigmoid": (-6, 6),
    "Sin": (-4, 4),
    "Sinh": (-2, 2),
    "Softplus": (-12, 12),
    "Softsign": (-3, 3),
    "Sqrt": (0.1, 4),
    "Tan": (-1.2, 1.2),
    "Tanh": (-3, 3),
}


@pytest.mark.parametrize("op", UNARY)
def test_elementary(op: str) -> None:
    low, high = UNARY[op]
    check(node_model(op, {"x": [2, 1, 3]}), low, high)


ACTIVATIONS: list[tuple[str, int, dict[str, Any]]] = [
    ("Celu", 12, {}),
    ("Celu", 12, {"alpha": 2.5}),
    ("Elu", 7, {}),
    ("Elu", 7, {"alpha": 0.4}),
    ("Gelu", 20, {}),
    ("Gelu", 20, {"approximate": "tanh"}),
    ("HardSigmoid", 7, {}),
    ("HardSigmoid", 7, {"alpha": 0.7, "beta": 0.1}),
    ("HardSwish", 14, {}),
    ("Mish", 18, {}),
    ("Selu", 7, {}),
    ("Selu", 7, {"alpha": 0.5, "gamma": 2.0}),
    ("Shrink", 9, {"lambd": 0.7, "bias": 0.2}),
    ("Shrink", 9, {"lambd": 0.7, "bias": 0.7}),
    ("Softsign", 7, {}),
    ("Swish", 24, {}),
    ("Swish", 24, {"alpha": 1.7}),
    ("ThresholdedRelu", 10, {"alpha": 0.6}),
    ("ThresholdedRelu", 10, {}),
]


@pytest.mark.parametrize(("op", "opset", "attributes"), ACTIVATIONS)
def test_activation(op: str, opset: int, attributes: dict[str, Any]) -> None:
    check(node_model(op, {"x": [3, 4]}, opset=opset, **attributes), -4, 4)


@pytest.mark.parametrize("slope", [0.3, 1.0, -0.5, 1.5, [[[0.1]], [[0.9]]], [[[0.1]], [[-2.0]]]])
def test_prelu_by_constant(slope: Any) -> None:
    check(node_model("PRelu", {"x": [1, 2, 2, 2]}, {"slope": slope}))


def test_prelu_by_a_slope_that_depends_on_the_input() -> None:
    check(node_model("PRelu", {"x": [2, 3], "slope": [3]}))


def test_softplus_and_mish_of_large_arguments() -> None:
    for op in ("Softplus", "Mish"):
        model = node_model(op, {"x": [6]})
        x = np.array([[-200, -60, -1, 19, 41, 1000]], dtype=np.float32)
        check_outputs(model, x)
        slopes = gradient(model, x, np.ones((1, 6)))[0]
        np.testing.assert_allclose(slopes[[0, 3, 4, 5]], [0, 1, 1, 1], atol=1e-6)


@pytest.mark.parametrize("op", ["Abs", "Sqrt", "Asin", "Acos", "Acosh", "Atanh"])
def test_slopes_are_finite_at_the_edge_of_the_domain(op: str) -> None:
    """A gradient of 0 that arrives where the true slope is infinite must stay 0."""
    edge = {"Abs": 0.0, "Sqrt": 0.0}.get(op, 1.0)
    model = node_model(op, {"x": [2]})
    x = np.full((1, 2), edge, dtype=np.float32)
    found = gradient(model, x, np.array([[0.0, 1.0]]))
    assert found[0, 0] == 0
    assert np.isfinite(found).all()


def test_sigmoid_written_with_exp_has_the_least_slope_where_exp_overflows() -> None:
    from onnx import helper
    from operator_checks import check_gradient

    model = node_model("Exp", {"x": [3]})
    graph = model.graph
    graph.node[0].output[0] = "e"
    graph.node.append(helper.make_node("Add", ["e", "one"], ["d"]))
    graph.node.append(helper.make_node("Reciprocal", ["d"], ["y0"]))
    graph.initializer.append(helper.make_tensor("one", 1, [], [1.0]))
    check_gradient(model, np.array([[-1.0, 0.5, 20.0]]))
    from falsifier.network.lowering import lower
    from falsifier.network.onnxruntime_engine import OnnxruntimeEngine

    x = np.array([[-1.0, 0.5, 800.0]], dtype=np.float32)
    _, found = OnnxruntimeEngine(lower(model), 1).vjp(x, np.ones((1, 3), dtype=np.float32))
    assert found[0, 2] == -(2.0**-30)
    assert (found[0, :2] < found[0, 2]).all()


def test_views_are_kept() -> None:
    """Elementwise rules run on whatever shape is stored, so that no Reshape appears."""
    from falsifier.network.lowering import lower

    lowered = lower(node_model("Tanh", {"x": [1, 2, 3]}))
    assert [p.op for p in lowered.program.primitives] == ["Tanh"]


def test_float64() -> None:
    for op in ("Exp", "Sqrt", "Sigmoid", "Softplus", "HardSigmoid", "Mish"):
        model = node_model(op, {"x": [4]}, dtype=np.float64)
        x = batch(model, low=0.1, high=3)
        assert x.dtype == np.float64
        if op in ("Exp", "Sqrt", "Sigmoid"):  # of the others onnxruntime has no float64 form, the engines have
            check_outputs(model, x, rtol=1e-13)
        assert np.isfinite(gradient(model, x, np.ones((3, 4)))).all()
