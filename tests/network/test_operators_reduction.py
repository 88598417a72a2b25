"""Reductions and Softmax: every form of their axes, and gradients at ties and zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from operator_checks import batch, check, check_gradient, check_outputs, gradient, node_model

from falsifier.errors import UnsupportedError
from falsifier.network.lowering import lower

SLOW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
REDUCTIONS = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]


@st.composite
def shape_and_axes(draw: Any) -> tuple[list[int], list[int]]:
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    axes = draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    return shape, [i - len(shape) if draw(st.booleans()) else i for i in axes]


@SLOW
@given(shape_and_axes(), st.sampled_from(REDUCTIONS), st.booleans(), st.booleans())
def test_axes(case: tuple[list[int], list[int]], name: str, keepdims: bool, as_operand: bool) -> None:
    shape, axes = case
    keep: dict[str, Any] = {"keepdims": int(keepdims)}
    if as_operand:
        model = node_model(f"Reduce{name}", {"x": shape}, {"axes": np.array(axes)}, opset=18, **keep)
    else:
        opset = 12 if name == "Sum" or any(i < 0 for i in axes) else 11
        model = node_model(f"Reduce{name}", {"x": shape}, opset=opset, axes=axes, **keep)
    x = batch(model, low=0.3, high=2)
    check_outputs(model, x)
    if x.shape[1] > 1 or name != "Sum":
        check_gradient(model, x)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axes", [None, []])
@pytest.mark.parametrize("noop", [0, 1])
def test_no_axes(name: str, axes: list[int] | None, noop: int) -> None:
    """All of them, or with `noop_with_empty_axes` none, where the elementwise part is still done."""
    constants = {} if axes is None else {"axes": np.array(axes, dtype=np.int64)}
    model = node_model(f"Reduce{name}", {"x": [2, 3]}, constants, opset=18, keepdims=0, noop_with_empty_axes=noop)
    check(model, 0.3, 2)


@pytest.mark.parametrize("name", ["Sum", "Max", "Min", "Prod", "SumSquare", "L1", "Mean"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integers(name: str, dtype: Any) -> None:
    model = node_model(f"Reduce{name}", {"x": [2, 3]}, dtype=dtype, opset=13, keepdims=0)
    x = np.random.default_rng(0).integers(-4, 4, size=(5, 6)).astype(np.float32)
    check_outputs(model, x)


def test_a_scalar() -> None:
    for name in REDUCTIONS:
        model = node_model(f"Reduce{name}", {"x": []}, opset=13)
        check_outputs(model, batch(model, low=0.5, high=2))


def test_elements_that_equal_the_extremum_share_the_gradient() -> None:
    model = node_model("ReduceMax", {"x": [4]}, opset=13)
    found = gradient(model, np.array([[1.0, 3.0, 3.0, 2.0]]), np.ones((1, 1)))
    np.testing.assert_array_equal(found, [[0, 0.5, 0.5, 0]])


def test_the_gradient_of_a_product_with_zeros() -> None:
    model = node_model("ReduceProd", {"x": [3]}, opset=13)
    x = np.array([[2.0, 3.0, 5.0], [2.0, 0.0, 5.0], [0.0, 0.0, 5.0]])
    found = gradient(model, x, np.ones((3, 1)))
    np.testing.assert_allclose(found, [[15, 10, 6], [0, 10, 0], [0, 0, 0]])


def test_the_gradient_of_a_norm_at_zero_is_zero() -> None:
    for op, opset in (("ReduceL1", 13), ("ReduceL2", 13), ("LpNormalization", 1)):
        model = node_model(op, {"x": [3]}, opset=max(opset, 7))
        found = gradient(model, np.zeros((1, 3)), np.zeros((1, lower(model).m)))
        np.testing.assert_array_equal(found, np.zeros((1, 3)))


def test_axes_that_do_not_exist_or_depend_on_the_input_are_refused() -> None:
    model = node_model("ReduceMax", {"x": [2, 3]}, opset=11, axes=[0])
    model.graph.node[0].attribute[0].ints[0] = 5
    with pytest.raises(UnsupportedError, match="axes"):
        lower(model)
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]),
        helper.make_tensor_value_info("axes", TensorProto.INT64, [1]),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([helper.make_node("ReduceMax", ["x", "axes"], ["y"])], "g", inputs, outputs)
    with pytest.raises(UnsupportedError, match="depend on the input"):
        lower(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8))


@SLOW
@given(shape_and_axes(), st.sampled_from(["Softmax", "LogSoftmax"]), st.sampled_from([9, 11, 13]))
def test_softmax(case: tuple[list[int], list[int]], op: str, opset: int) -> None:
    shape, axes = case
    axis = axes[0] if opset >= 11 else axes[0] % len(shape)
    check(node_model(op, {"x": shape}, opset=opset, axis=axis))


@pytest.mark.parametrize("opset", [7, 11, 13])
def test_softmax_by_default(opset: int) -> None:
    """Everything behind the first axis is one row before opset 13, the last axis alone since."""
    model = node_model("Softmax", {"x": [2, 3, 2]}, opset=opset)
    outputs = check_outputs(model, batch(model))
    np.testing.assert_allclose(outputs.sum(axis=1), 2 if opset < 13 else 6, rtol=1e-5)


@pytest.mark.parametrize("opset", [7, 13])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_hardmax(opset: int, axis: int) -> None:
    """The gradient is Softmax's."""
    model = node_model("Hardmax", {"x": [2, 3, 2]}, opset=opset, axis=axis)
    soft = node_model("Softmax", {"x": [2, 3, 2]}, opset=opset, axis=axis)
    x = batch(model)
    check_outputs(model, x)
    seed = np.random.default_rng(3).normal(size=x.shape)
    np.testing.assert_allclose(gradient(model, x, seed), gradient(soft, x, seed), atol=1e-12)


def test_softmax_of_large_arguments_has_a_finite_gradient() -> None:
    for op in ("Softmax", "LogSoftmax"):
        model = node_model(op, {"x": [3]}, opset=13)
        found = gradient(model, np.array([[1000.0, -1000.0, 0.0]]), np.ones((1, 3)))
        assert np.isfinite(found).all()
