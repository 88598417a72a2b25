"""Gather and Scatter: every mixture of constants and operands with lanes, every reduction, and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper
from operator_checks import check, check_outputs, gradient, node_model
from operator_graphs import between, check_at, draw, graph_model, lanes, whole

from falsifier.errors import UnsupportedError
from falsifier.network.lowering import lower
from falsifier.network.onnxruntime_engine import OnnxruntimeEngine

Array = NDArray[Any]
SHAPE = (3, 4, 3)
REDUCTIONS = ["none", "add", "mul", "max", "min"]


def integers(*shape: int, low: int = -3, high: int = 3) -> Array:
    """Indices that are in range for every axis of `SHAPE`."""
    return np.random.default_rng(7).integers(low, high, size=shape)


def distinct(count: int, shape: tuple[int, ...], axis: int) -> Array:
    """`[count, *shape]`: indices below the length of `axis`, none twice along it."""
    rng = np.random.default_rng(8)
    wide = (*shape[:axis], SHAPE[axis], *shape[axis + 1 :])
    order = np.argsort(rng.random((count, *wide)), axis=axis + 1)
    return np.take(order, np.arange(shape[axis]), axis=axis + 1)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("op", ["Gather", "GatherElements"])
def test_gather(op: str, axis: int) -> None:
    where = (2, 2) if op == "Gather" else (2, 3, 2)
    nodes = [whole("i", "j"), helper.make_node(op, ["x", "j"], ["y"], axis=axis)]
    at = between(integers(3, *where))
    check_at(graph_model(nodes, {"i": where, "x": SHAPE}), lanes(at, draw(3, *SHAPE)))
    check_outputs(graph_model(nodes, {"i": where}, {"x": draw(*SHAPE)}), lanes(at))
    check(node_model(op, {"x": SHAPE}, {"j": integers(*where)}, axis=axis))


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("shared", [0, 1])
def test_gather_nd(depth: int, shared: int) -> None:
    if depth + shared > len(SHAPE):
        return
    where = (3, 2, depth) if shared else (2, 3, depth)
    nodes = [whole("i", "j"), helper.make_node("GatherND", ["x", "j"], ["y"], batch_dims=shared)]
    at = between(integers(3, *where))
    check_at(graph_model(nodes, {"i": where, "x": SHAPE}), lanes(at, draw(3, *SHAPE)))
    check_outputs(graph_model(nodes, {"i": where}, {"x": draw(*SHAPE)}), lanes(at))
    check(node_model("GatherND", {"x": SHAPE}, {"j": integers(*where)}, batch_dims=shared))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_scatter_elements(axis: int, reduction: str) -> None:
    where = (2, 3, 2)
    node = helper.make_node("ScatterElements", ["x", "j", "u"], ["y"], axis=axis, reduction=reduction)
    at = distinct(3, where, axis) if reduction == "none" else integers(3, *where)
    data, updates = draw(3, *SHAPE), draw(3, *where, rng_seed=1)
    both: dict[str, Any] = {"x": SHAPE, "u": where}
    moving = [whole("i", "j"), node]
    check_at(graph_model(moving, {"i": where, **both}), lanes(between(at), data, updates))
    check_at(graph_model(moving, {"i": where, "u": where}, {"x": data[0]}), lanes(between(at), updates))
    check_at(graph_model([node], both, {"j": at[0]}), lanes(data, updates))
    check_at(graph_model([node], {"u": where}, {"j": at[0], "x": data[0]}), lanes(updates))
    check_at(graph_model([node], {"x": SHAPE}, {"j": at[0], "u": updates[0]}), lanes(data))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_scatter_nd(depth: int, reduction: str) -> None:
    rng = np.random.default_rng(3)
    lengths = SHAPE[:depth]
    if reduction == "none":
        at = np.stack([np.stack([rng.permutation(n)[:2] for n in lengths], axis=-1) for _ in range(3)])
    else:
        at = integers(3, 2, depth)
    node = helper.make_node("ScatterND", ["x", "j", "u"], ["y"], reduction=reduction)
    tail = (2, *SHAPE[depth:])
    data, updates = draw(3, *SHAPE), draw(3, *tail, rng_seed=1)
    both: dict[str, Any] = {"x": SHAPE, "u": tail}
    moving = [whole("i", "j"), node]
    check_at(graph_model(moving, {"i": (2, depth), **both}), lanes(between(at), data, updates))
    check_at(graph_model(moving, {"i": (2, depth), "u": tail}, {"x": data[0]}), lanes(between(at), updates))
    check_at(graph_model([node], both, {"j": at[0]}), lanes(data, updates))


def test_scatter_of_the_first_opset() -> None:
    constants = {"j": np.array([[1, 3]])}
    check(node_model("Scatter", {"x": [1, 5], "u": [1, 2]}, constants, order=["x", "j", "u"], opset=9, axis=1))


def test_of_constant_updates_to_one_place_the_last_wins() -> None:
    constants = {"j": np.array([1, 1, 3])}
    check(node_model("ScatterElements", {"x": [5], "u": [3]}, constants, order=["x", "j", "u"]))


def test_many_updates_of_one_place() -> None:
    """More than the rounds of gathers that a few of them take."""
    constants = {"j": np.array([2] * 12 + [0])}
    check(node_model("ScatterElements", {"x": [3], "u": [13]}, constants, order=["x", "j", "u"], reduction="add"))


def test_an_overwritten_update_has_no_gradient() -> None:
    nodes = [whole("i", "j"), helper.make_node("ScatterElements", ["x", "j", "u"], ["y"])]
    model = graph_model(nodes, {"i": (2,), "x": (3,), "u": (2,)})
    points = lanes(between(np.array([[1, 1]])), draw(1, 3), draw(1, 2))
    taken = gradient(model, points, np.array([[1.0, 2.0, 4.0]]))
    np.testing.assert_array_equal(taken, [[0, 0, 1, 0, 4, 0, 2]])


def test_products_with_zeros() -> None:
    """Each factor's gradient is the product of the others, whether it is zero or they are."""
    nodes = [whole("i", "j"), helper.make_node("ScatterElements", ["x", "j", "u"], ["y"], reduction="mul")]
    model = graph_model(nodes, {"i": (3,), "x": (2,), "u": (3,)})
    points = lanes(between(np.array([[0, 0, 1]])), np.array([[2.0, 0.0]]), np.array([[0.0, 3.0, 5.0]]))
    check_at(model, points)


def test_an_index_out_of_range_spoils_its_own_lane_alone() -> None:
    nodes = [whole("i", "j"), helper.make_node("Gather", ["x", "j"], ["y"])]
    model = graph_model(nodes, {"i": (1,)}, {"x": draw(4)})
    engine = OnnxruntimeEngine(lower(model), 1)
    points = np.array([[1.4], [77.4], [3.4]], dtype=np.float32)
    np.testing.assert_array_equal(engine.outputs(points)[[0, 2]], check_outputs(model, points[[0, 2]]))


def test_constant_indices_out_of_range_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="out of range"):
        lower(node_model("GatherElements", {"x": [3]}, {"j": np.array([3])}))


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("on", [2.0, np.int64(2)])
def test_one_hot(axis: int, on: Any) -> None:
    """Indices from the end, and some that are out of range and so nowhere on."""
    nodes = [whole("i", "j"), helper.make_node("OneHot", ["j", "d", "v"], ["y"], axis=axis)]
    values = np.array([-1, on]) if isinstance(on, np.integer) else np.array([-1, on], dtype=np.float32)
    model = graph_model(nodes, {"i": (2, 3)}, {"d": np.array([4]), "v": values})
    check_outputs(model, lanes(between(integers(4, 2, 3, low=-6, high=6))))


def test_one_hot_with_values_from_the_input() -> None:
    constants = {"i": np.array([1, -1, 7]), "d": np.array(4)}
    check(node_model("OneHot", {"v": [2]}, constants, order=["i", "d", "v"]))


def test_compress() -> None:
    check(node_model("Compress", {"x": [2, 4]}, {"c": np.array([True, False, True])}, axis=1))
    check(node_model("Compress", {"x": [2, 4]}, {"c": np.array([True, False, True, False, False, True])}))


def test_compress_by_the_input_is_refused() -> None:
    nodes = [whole("i", "c", TensorProto.BOOL), helper.make_node("Compress", ["x", "c"], ["y"])]
    with pytest.raises(UnsupportedError, match="which entries Compress keeps depends on the input"):
        lower(graph_model(nodes, {"x": (3,), "i": (3,)}))


def test_eye_like() -> None:
    nodes = [helper.make_node("EyeLike", ["x"], ["e"], k=1), helper.make_node("MatMul", ["x", "e"], ["y"])]
    check(graph_model(nodes, {"x": [3, 3]}))


@pytest.mark.parametrize("time", [0, 1])
def test_reverse_sequence(time: int) -> None:
    options: dict[str, Any] = {"time_axis": time, "batch_axis": 1 - time}
    check(node_model("ReverseSequence", {"x": [4, 4, 2]}, {"n": np.array([4, 3, 1, 2])}, **options))
    nodes = [whole("i", "n"), helper.make_node("ReverseSequence", ["x", "n"], ["y"], **options)]
    lengths = between(integers(3, 4, low=1, high=5))
    check_at(graph_model(nodes, {"i": [4], "x": [4, 4, 2]}), lanes(lengths, draw(3, 4, 4, 2)))


@pytest.mark.parametrize("op", ["NonZero", "Unique"])
def test_results_without_a_shape_are_refused(op: str) -> None:
    with pytest.raises(UnsupportedError, match="how many results there are depends on the input"):
        lower(node_model(op, {"x": [3]}, result=np.int64 if op == "NonZero" else None))
