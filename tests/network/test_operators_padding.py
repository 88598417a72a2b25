"""Pad in its modes and forms, and rearrangements between channels and space."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from operator_checks import batch, check, check_outputs, node_model
from operator_graphs import graph_model, whole

from falsifier.errors import UnsupportedError
from falsifier.network.lowering import lower


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize("pads", [[0, 1, 2, 0, 2, 1], [0, -1, 2, 0, 1, -1], [0, 0, -2, 0, 0, 0]])
def test_modes(mode: str, pads: list[int]) -> None:
    check(node_model("Pad", {"x": [2, 4, 5]}, {"p": np.array(pads), "v": 1.5}, opset=19, mode=mode))


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_named_axes(mode: str) -> None:
    constants = {"p": np.array([1, 2, 0, 1]), "a": np.array([-1, 1])}
    check(node_model("Pad", {"x": [2, 4, 5]}, constants, order=["x", "p", "", "a"], opset=19, mode=mode))


def test_as_attributes() -> None:
    check(node_model("Pad", {"x": [2, 3]}, opset=7, pads=[0, 1, 1, 0], value=2.0))


def test_a_value_from_the_input() -> None:
    check(node_model("Pad", {"x": [2, 3], "v": []}, {"p": np.array([1, -1, 0, 2])}, order=["x", "p", "v"], opset=19))


def test_integers_and_truth() -> None:
    for kind in (TensorProto.INT64, TensorProto.BOOL):
        nodes = [whole("x", "i", kind), helper.make_node("Pad", ["i", "p"], ["y"])]
        model = graph_model(nodes, {"x": [2, 3]}, {"p": np.array([1, 0, 0, 2])})
        check_outputs(model, batch(model))


def test_how_far_from_the_input_is_refused() -> None:
    nodes = [whole("p", "q"), helper.make_node("Pad", ["x", "q"], ["y"])]
    with pytest.raises(UnsupportedError, match="how far to pad depends on the input"):
        lower(graph_model(nodes, {"x": [3], "p": [2]}))


@pytest.mark.parametrize("target", [[5, 2], [1, 9], [4, 5]])
def test_about_the_centre(target: list[int]) -> None:
    check(node_model("CenterCropPad", {"x": [2, 4, 5]}, {"s": np.array(target)}, opset=18, axes=[1, 2]))
    check(node_model("CenterCropPad", {"x": [4, 5]}, {"s": np.array(target)}, opset=18))


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space(mode: str) -> None:
    check(node_model("DepthToSpace", {"x": [2, 8, 2, 3]}, opset=13, blocksize=2, mode=mode))


def test_space_to_depth() -> None:
    check(node_model("SpaceToDepth", {"x": [2, 2, 4, 6]}, opset=13, blocksize=2))


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("diagonal", [-1, 0, 2, None])
def test_triangles(upper: int, diagonal: int | None) -> None:
    constants = {} if diagonal is None else {"k": np.array(diagonal)}
    check(node_model("Trilu", {"x": [2, 4, 3]}, constants, upper=upper))


def test_a_triangle_of_infinite_entries() -> None:
    model = node_model("Trilu", {"x": [2, 2]})
    x = np.array([[np.inf, 1, -np.inf, 2]], dtype=np.float32)
    np.testing.assert_array_equal(check_outputs(model, x), [[np.inf, 1, 0, 2]])
