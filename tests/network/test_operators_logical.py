"""Comparisons, logic, Where, casts, and straight-through gradients of steps, in lanes with and without a window."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper
from operator_checks import batch, check, check_gradient, check_outputs, gradient, node_model

from falsifier.errors import UnsupportedError
from falsifier.network.lowering import lower
from falsifier.network.onnxruntime_engine import OnnxruntimeEngine

ORDERS = ["Greater", "GreaterOrEqual", "Less", "LessOrEqual"]


def graph(
    nodes: list[onnx.NodeProto], n: int, constants: list[TensorProto], opset: int = 16, **options: Any
) -> onnx.ModelProto:
    """A model from x `[n]` to y, both float32."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [n])]
    outputs = [helper.make_tensor_value_info("y", options.get("result", TensorProto.FLOAT), None)]
    body = helper.make_graph(nodes, "test", inputs, outputs, constants)
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def floats(name: str, values: Any) -> TensorProto:
    return onnx.numpy_helper.from_array(np.asarray(values, dtype=np.float32), name)


@pytest.mark.parametrize("op", [*ORDERS, "Equal"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.uint8])
def test_comparison(op: str, dtype: Any) -> None:
    opset = 16 if op.endswith("OrEqual") else 13
    model = node_model(op, {"a": [2, 1], "b": [3]}, dtype=dtype, result=np.bool_, opset=opset)
    x = np.random.default_rng(0).integers(0, 3, size=(6, 5)).astype(lower(model).dtype)
    outputs = check_outputs(model, x)
    assert 0 < outputs.mean() < 1


@pytest.mark.parametrize("op", ["And", "Or", "Xor", "Not"])
def test_logic(op: str) -> None:
    inputs = {"a": [2, 2]} if op == "Not" else {"a": [2, 2], "b": [2]}
    model = node_model(op, inputs, dtype=np.bool_, opset=7)
    x = np.random.default_rng(0).integers(0, 2, size=(8, lower(model).n)).astype(np.float32)
    assert 0 < check_outputs(model, x).mean() < 1


@pytest.mark.parametrize("op", ["BitwiseAnd", "BitwiseOr", "BitwiseXor"])
def test_bitwise(op: str) -> None:
    model = node_model(op, {"a": [2, 2], "b": [2]}, dtype=np.int32, opset=18)
    x = np.random.default_rng(0).integers(-9, 9, size=(4, 6)).astype(np.float32)
    check_outputs(model, x)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_bit_shift(direction: str) -> None:
    model = node_model("BitShift", {"a": [4], "b": [4]}, dtype=np.uint8, direction=direction, opset=11)
    x = np.random.default_rng(0).integers(0, 8, size=(4, 8)).astype(np.float32)
    check_outputs(model, x)


def test_not_a_number_and_infinities() -> None:
    x = np.array([[np.nan, np.inf, -np.inf, 1.0]], dtype=np.float32)
    cases: list[tuple[str, dict[str, Any], list[int]]] = [
        ("IsNaN", {}, [1, 0, 0, 0]),
        ("IsInf", {}, [0, 1, 1, 0]),
        ("IsInf", {"detect_negative": 0}, [0, 1, 0, 0]),
        ("IsInf", {"detect_positive": 0}, [0, 0, 1, 0]),
    ]
    for op, attributes, expected in cases:
        model = node_model(op, {"x": [4]}, result=np.bool_, opset=13, **attributes)
        np.testing.assert_array_equal(check_outputs(model, x)[0], expected)


def test_where_on_a_condition_that_depends_on_the_input() -> None:
    nodes = [
        helper.make_node("Greater", ["x", "zero"], ["c"]),
        helper.make_node("Mul", ["x", "two"], ["a"]),
        helper.make_node("Exp", ["x"], ["b"]),
        helper.make_node("Where", ["c", "a", "b"], ["y"]),
    ]
    check(graph(nodes, 6, [floats("zero", 0.0), floats("two", [[2.0], [3.0]])]))


@pytest.mark.parametrize("condition", [[True, False, True], [True, True, True], [False], [[True], [False]]])
def test_where_on_a_constant_condition(condition: Any) -> None:
    check(node_model("Where", {"a": [2, 3], "b": [3]}, {"c": np.array(condition)}, order=["c", "a", "b"], opset=16))


@pytest.mark.parametrize("order", [["c", "x", "k"], ["c", "k", "x"]])
def test_where_with_one_constant_branch(order: list[str]) -> None:
    constants: dict[str, Any] = {"c": np.array([[True], [False]]), "k": [5.0, 6.0, 7.0]}
    check(node_model("Where", {"x": [2, 3]}, constants, order=order, opset=16))


def test_where_between_integers() -> None:
    condition = np.array([True, False, True])
    model = node_model("Where", {"a": [3], "b": [3]}, {"c": condition}, order=["c", "a", "b"], dtype=np.int64)
    check_outputs(model, np.array([[0, 1, 2, 3, 4, 5]], dtype=np.float32))


def test_where_between_bools() -> None:
    """onnxruntime has no kernel for this one, the lowered form needs none."""
    model = node_model("Where", {"c": [2], "a": [2], "b": [2]}, dtype=np.bool_)
    x = np.array([[0, 1, 0, 0, 1, 1], [1, 0, 1, 1, 0, 0]], dtype=np.float32)
    lowered = lower(model)
    np.testing.assert_array_equal(OnnxruntimeEngine(lowered, 1).outputs(x), [[1, 0], [1, 0]])


def test_where_does_not_leak_the_branch_that_was_not_taken() -> None:
    """Where(x > 0, log x, x) has slope 1 for x < 0, although the slope of log x is nothing there."""
    nodes = [
        helper.make_node("Greater", ["x", "zero"], ["c"]),
        helper.make_node("Log", ["x"], ["l"]),
        helper.make_node("Where", ["c", "l", "x"], ["y"]),
    ]
    model = graph(nodes, 3, [floats("zero", 0.0)])
    found = gradient(model, np.array([[-1.0, 0.0, 2.0]]), np.ones((1, 3)))
    np.testing.assert_allclose(found, [[1, 1, 0.5]])


@pytest.mark.parametrize("to", ["FLOAT", "DOUBLE", "INT8", "INT32", "INT64", "UINT8", "BOOL", "FLOAT16"])
def test_cast(to: str) -> None:
    number = TensorProto.DataType.Value(to)
    dtype = helper.tensor_dtype_to_np_dtype(number)
    model = node_model("Cast", {"x": [4]}, to=number, result=dtype, opset=13)
    check_outputs(model, np.array([[0.0, 1.7, 2.5, 3.0], [0.3, 100.6, 1e-3, 65.1]], dtype=np.float32))


@pytest.mark.parametrize("to", ["STRING", "FLOAT8E4M3FN", "INT4"])
def test_cast_to_other_types_is_refused(to: str) -> None:
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.DataType.Value(to))]
    with pytest.raises(UnsupportedError, match=f"Cast.*{to}"):
        lower(graph(nodes, 2, [], opset=21, result=TensorProto.DataType.Value(to)))


def test_cast_like() -> None:
    like = np.array([1], dtype=np.int32)
    model = node_model("CastLike", {"x": [3]}, {"like": like}, result=np.int32, opset=15)
    check_outputs(model, np.array([[1.5, -1.5, 7.0]], dtype=np.float32))


def ones(x: NDArray[Any], m: int | None = None) -> NDArray[Any]:
    return np.ones((len(x), m or x.shape[1]))


@pytest.mark.parametrize("op", ["Sign", "Round", "Floor", "Ceil"])
def test_steps(op: str) -> None:
    model = node_model(op, {"x": [8]}, opset=11)
    x = np.array([[-2.5, -1.5, -0.5, 0.0, 0.4, 0.5, 1.5, 2.6]], dtype=np.float32)
    check_outputs(model, x)
    np.testing.assert_array_equal(gradient(model, x, ones(x)), ones(x))


def test_a_window_passes_the_gradient_of_sign_near_zero() -> None:
    """Mean magnitude 1: a width of 0.5 passes magnitudes up to 0.5, each lane by its own."""
    model = node_model("Sign", {"x": [2, 2]}, opset=13)
    x = np.array([[0.4, -0.5, 0.6, 2.5], [0.4, -0.5, 0.6, 2.5], [4, -5, 6, 25]])
    expected = [[1, 1, 0, 0], [1, 1, 1, 1], [1, 1, 0, 0]]
    window = [0.5, np.inf, 0.5]
    np.testing.assert_array_equal(gradient(model, x, ones(x), window), expected)
    engine = OnnxruntimeEngine(lower(model), 1)
    _, found = engine.vjp(x.astype(np.float32), ones(x).astype(np.float32), np.array(window, dtype=np.float32))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("op", "near", "far"), [("Round", [0.49, 3.52], [0.0, 3.1]), ("Floor", [0.98, 3.01], [0.5, 3.4])]
)
def test_a_window_passes_the_gradient_of_rounding_near_a_jump(op: str, near: list[float], far: list[float]) -> None:
    model = node_model(op, {"x": [4]}, opset=13)
    x = np.array([near + far])
    np.testing.assert_array_equal(gradient(model, x, ones(x), [0.5]), [[1, 1, 0, 0]])


def test_a_sign_behind_a_sign_has_no_window() -> None:
    """Sign -> + 0.1 -> Sign sees few values: its gradient passes in every lane, the first's in its window."""
    nodes = [
        helper.make_node("Sign", ["x"], ["s"]),
        helper.make_node("Add", ["s", "tenth"], ["t"]),
        helper.make_node("Sign", ["t"], ["y"]),
    ]
    model = graph(nodes, 4, [floats("tenth", 0.1)])
    x = np.array([[0.4, -0.5, 0.6, 2.5]])
    np.testing.assert_array_equal(gradient(model, x, ones(x), [0.5]), [[1, 1, 0, 0]])


def cast_of_comparison(op: str, factor: float | None = None) -> onnx.ModelProto:
    nodes = [
        helper.make_node(op, ["x", "half"], ["c"]),
        helper.make_node("Cast", ["c"], ["y" if factor is None else "f"], to=TensorProto.FLOAT),
    ]
    if factor is not None:
        nodes.append(helper.make_node("Mul", ["f", "factor"], ["y"]))
    return graph(nodes, 3, [floats("half", 0.5), floats("factor", factor or 0.0)])


@pytest.mark.parametrize("op", ORDERS)
def test_a_comparison_cast_to_a_number_is_a_step(op: str) -> None:
    """Like (1 + Sign) / 2: half the gradient passes."""
    x = np.array([[0.4, 0.5, 3.0]])
    sign = 1 if op.startswith("Greater") else -1
    np.testing.assert_allclose(gradient(cast_of_comparison(op, 4.0), x, ones(x)), 2.0 * sign * ones(x))


def test_where_between_constants_is_a_step() -> None:
    nodes = [helper.make_node("Less", ["x", "half"], ["c"]), helper.make_node("Where", ["c", "a", "b"], ["y"])]
    model = graph(nodes, 3, [floats("half", 0.5), floats("a", 1.0), floats("b", -1.0)])
    x = np.array([[0.4, 0.6, 3.0]])
    check_outputs(model, x.astype(np.float32))
    np.testing.assert_allclose(gradient(model, x, ones(x)), -ones(x))


@pytest.mark.parametrize("where", [False, True])
def test_a_mask_passes_no_gradient_of_its_own(where: bool) -> None:
    """x * (x > 0.5) has slope 0 or 1: the step inside the mask adds nothing."""
    nodes = [helper.make_node("Greater", ["x", "half"], ["c"])]
    if where:
        nodes.append(helper.make_node("Where", ["c", "one", "zero"], ["m"]))
    else:
        nodes.append(helper.make_node("Cast", ["c"], ["m"], to=TensorProto.FLOAT))
    nodes.append(helper.make_node("Mul", ["m", "x"], ["y"]))
    model = graph(nodes, 3, [floats("half", 0.5), floats("one", 1.0), floats("zero", 0.0)])
    check_gradient(model, np.array([[0.2, 0.7, -3.0]]))


def test_the_gradient_passes_a_cast_to_integers_and_back() -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT64),
        helper.make_node("Cast", ["i"], ["y"], to=TensorProto.FLOAT),
    ]
    x = np.array([[0.4, 1.6, -2.5]])
    model = graph(nodes, 3, [])
    check_outputs(model, x.astype(np.float32))
    np.testing.assert_array_equal(gradient(model, x, ones(x)), ones(x))


def test_a_batch_of_many_lanes_masks_each_alone() -> None:
    model = node_model("Max", {"x": [5]}, {"c": 0.0})
    x = batch(model, lanes=64)
    np.testing.assert_allclose(gradient(model, x, ones(x)), (x >= 0).astype(float), atol=1e-8)
