"""Pooling in every form: windows of all kinds, both results of MaxPool, and how gradients pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from onnx import helper
from operator_checks import batch, check, check_gradient, check_outputs, gradient, node_model
from operator_graphs import between, check_at, draw, graph_model, lanes, whole

from falsifier.errors import UnsupportedError
from falsifier.network.lowering import lower

SLOW = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
WINDOWS: dict[str, dict[str, Any]] = {
    "side by side": {"kernel_shape": [2, 2], "strides": [2, 2]},
    "overlapping": {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    "with gaps": {"kernel_shape": [2, 2], "strides": [3, 3]},
    "dilated": {"kernel_shape": [3, 2], "strides": [1, 2], "dilations": [2, 1], "pads": [1, 0, 2, 1]},
    "over the end": {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
    "over the end, padded": {"kernel_shape": [2, 2], "strides": [3, 3], "ceil_mode": 1, "pads": [0, 1, 1, 0]},
    "same, begins first": {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
    "same, ends first": {"kernel_shape": [2, 3], "auto_pad": "SAME_UPPER"},
    "valid": {"kernel_shape": [2, 3], "strides": [2, 1], "auto_pad": "VALID"},
    "whole": {"kernel_shape": [5, 6]},
}


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
def test_windows(op: str, kind: str) -> None:
    check(node_model(op, {"x": [2, 2, 5, 6]}, **WINDOWS[kind], opset=19 if op == "AveragePool" else 18))


@pytest.mark.parametrize("kind", WINDOWS)
def test_average_that_counts_padding(kind: str) -> None:
    check(node_model("AveragePool", {"x": [1, 2, 5, 6]}, **WINDOWS[kind], opset=19, count_include_pad=1))


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("rank", [1, 3])
def test_other_ranks(op: str, rank: int) -> None:
    shape = [1, 2, 5, 4, 6][: 2 + rank]
    tiled: dict[str, Any] = {"kernel_shape": [2] * rank, "strides": [2] * rank}
    padded: dict[str, Any] = {"kernel_shape": [3] * rank, "pads": [1] * (2 * rank)}
    for attributes in (tiled, padded):
        check(node_model(op, {"x": shape}, **attributes))


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("kind", ["side by side", "dilated", "over the end, padded"])
def test_indices_count_within_one_sample(kind: str, order: int) -> None:
    nodes = [helper.make_node("MaxPool", ["x"], ["y", "i"], storage_order=order, **WINDOWS[kind])]
    model = graph_model(nodes, {"x": [2, 2, 5, 6]}, outputs=["y", "i"])
    check_outputs(model, batch(model))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_maximum_of_small_integers(dtype: Any) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [whole("x", "i", kind), helper.make_node("MaxPool", ["i"], ["y"], kernel_shape=[2, 2], pads=[1, 0, 0, 1])]
    model = graph_model(nodes, {"x": [1, 1, 3, 4]})
    check_outputs(model, batch(model, low=0, high=100))


def test_maximum_in_float64() -> None:
    """No convolution in this type: the gradient comes by indices."""
    check(node_model("MaxPool", {"x": [1, 2, 4, 5]}, kernel_shape=[2, 3], strides=[2, 1], dtype=np.float64))


def test_every_entry_that_ties_gets_the_gradient() -> None:
    """What the result gains when one of them alone is raised, where windows lie side by side."""
    model = node_model("MaxPool", {"x": [1, 1, 4, 4]}, **WINDOWS["side by side"])
    np.testing.assert_array_equal(gradient(model, np.zeros((1, 16)), np.ones((1, 4))), np.ones((1, 16)))


@pytest.mark.parametrize("kernel", [3, 5])
def test_maxima_of_maxima_pass_on_no_more_than_they_get(kernel: int) -> None:
    """Overlapping windows over the result of others hold its largest entries many times: those share."""
    pool: dict[str, Any] = {"kernel_shape": [kernel] * 2, "strides": [1, 1], "pads": [kernel // 2] * 4}
    nodes = [helper.make_node("MaxPool", [a], [b], **pool) for a, b in ("xa", "ab", "by")]
    model = graph_model(nodes, {"x": [1, 2, 8, 8]})
    taken = gradient(model, draw(1, 128), np.ones((1, 128)))
    assert taken.sum() == pytest.approx(128)
    assert (taken >= 0).all()


@pytest.mark.parametrize(
    "before",
    [
        [helper.make_node("Resize", ["x", "", "scales"], ["a"], mode="nearest")],
        [helper.make_node("MaxPool", ["x"], ["a"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])],
        [
            helper.make_node("MaxPool", ["x"], ["b"], kernel_shape=[2, 2], pads=[0, 0, 1, 1]),
            helper.make_node("Conv", ["b", "w"], ["c"]),
            helper.make_node("Relu", ["c"], ["d"]),
            helper.make_node("Concat", ["x", "d"], ["a"], axis=1),
        ],
        [
            helper.make_node("Unsqueeze", ["x", "at"], ["b"]),
            helper.make_node("Expand", ["b", "shape"], ["c"]),
            helper.make_node("Reshape", ["c", "folded"], ["a"]),
        ],
        [helper.make_node("Pad", ["x", "pads"], ["a"], mode="edge")],
    ],
)
def test_copies_of_an_entry_share_what_flows(before: list[Any]) -> None:
    """They are the largest of their window together wherever the point is."""
    pool = helper.make_node("MaxPool", ["a"], ["y"], kernel_shape=[2, 2], strides=[2, 2])
    constants = {
        "scales": np.array([1, 1, 2, 2], np.float32),
        "w": np.array([[1.0, -0.5], [0.5, 1.0]], np.float32)[:, :, None, None],
        "at": np.array([4]),
        "shape": np.array([1, 2, 4, 6, 2]),
        "folded": np.array([1, 2, 4, 12]),
        "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
    }
    used = {name for node in before for name in node.input}
    model = graph_model([*before, pool], {"x": [1, 2, 4, 6]}, {k: v for k, v in constants.items() if k in used})
    check(model)


def test_an_infinite_neighbour_leaves_gradients_finite() -> None:
    model = node_model("MaxPool", {"x": [1, 1, 1, 4]}, kernel_shape=[1, 3], pads=[0, 1, 0, 1])
    taken = gradient(model, np.array([[-np.inf, 1.0, 2.0, 3.0]]), np.ones((1, 4)))
    np.testing.assert_array_equal(taken, [[0, 1, 1, 2]])


@pytest.mark.parametrize("op", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
def test_global(op: str) -> None:
    check(node_model(op, {"x": [2, 2, 3, 4]}))


@pytest.mark.parametrize("order", [1, 3])
def test_powers(order: int) -> None:
    check(node_model("LpPool", {"x": [1, 2, 4, 5]}, kernel_shape=[2, 2], opset=18, p=order), low=0.2, high=2)
    check(node_model("GlobalLpPool", {"x": [1, 2, 4, 5]}, p=order), low=0.2, high=2)


def test_pooling_of_the_first_opset() -> None:
    for op in ("MaxPool", "AveragePool"):
        check(node_model(op, {"x": [1, 2, 4, 5]}, kernel_shape=[2, 2], pads=[1, 1, 0, 0], opset=7))


def test_unpooling_what_was_pooled() -> None:
    window: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        helper.make_node("MaxPool", ["x"], ["m", "i"], **window),
        helper.make_node("MaxUnpool", ["m", "i"], ["y"], **window),
    ]
    check(graph_model(nodes, {"x": [2, 2, 4, 6]}))


@pytest.mark.parametrize("shape", [None, [1, 1, 5, 5]])
def test_unpooling_to_constant_places(shape: list[int] | None) -> None:
    constants: dict[str, Any] = {"i": np.array([[[[5, 7], [13, 15]]]])}
    if shape is not None:
        constants["s"] = np.array(shape)
    check(node_model("MaxUnpool", {"x": [1, 1, 2, 2]}, constants, kernel_shape=[2, 2], strides=[2, 2]))


def test_unpooling_of_constants_to_given_places() -> None:
    nodes = [whole("i", "j"), helper.make_node("MaxUnpool", ["c", "j"], ["y"], kernel_shape=[2], strides=[2])]
    model = graph_model(nodes, {"i": [1, 1, 2]}, {"c": draw(1, 1, 2)})
    check_outputs(model, lanes(between(np.array([[0, 2], [1, 3], [3, 0]]))))


@SLOW
@given(st.data())
def test_window_counts_are_onnxruntimes(data: Any) -> None:
    kernel, stride, dilation = (data.draw(st.integers(1, most)) for most in (4, 3, 2))
    pads = data.draw(st.tuples(st.integers(0, kernel - 1), st.integers(0, kernel - 1)))
    length = data.draw(st.integers(3, 9))
    assume(dilation * (kernel - 1) < length + sum(pads))
    attributes: dict[str, Any] = {
        "kernel_shape": [kernel],
        "strides": [stride],
        "dilations": [dilation],
        "pads": list(pads),
        "ceil_mode": data.draw(st.integers(0, 1)),
    }
    for op in ("MaxPool", "AveragePool"):
        model = node_model(op, {"x": [1, 2, length]}, **attributes)
        x = batch(model)
        check_outputs(model, x)
        check_gradient(model, x)


def test_automatic_padding_that_would_crop_is_refused() -> None:
    model = node_model("MaxPool", {"x": [1, 1, 12]}, kernel_shape=[2], strides=[4], auto_pad="SAME_UPPER")
    with pytest.raises(UnsupportedError, match="automatic padding"):
        lower(model)


def test_gradient_of_a_quantised_maximum() -> None:
    """Through integers, by the scales of the quantisation around it."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("MaxPool", ["q"], ["m"], kernel_shape=[2], strides=[2]),
        helper.make_node("DequantizeLinear", ["m", "s", "z"], ["y"]),
    ]
    model = graph_model(nodes, {"x": [1, 1, 4]}, {"s": 0.1, "z": np.uint8(128)})
    taken = gradient(model, np.array([[0.5, 1.0, -2.0, -1.0]]), np.array([[3.0, 5.0]]))
    np.testing.assert_allclose(taken, [[0, 3, 0, 5]], rtol=1e-6)


def test_a_large_window() -> None:
    """Compared axis by axis."""
    check_at(node_model("MaxPool", {"x": [1, 1, 7, 7]}, kernel_shape=[5, 5], pads=[2, 2, 2, 2]), draw(2, 49))
