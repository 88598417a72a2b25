"""Slices at places that the input decides: right for every lane, also where they reach over an end or are empty."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper
from operator_checks import check_outputs
from operator_graphs import graph_model, whole

from falsifier.errors import UnsupportedError
from falsifier.network.lowering import lower

WIDTH, PATCH = 5, 2
EVERYWHERE = np.arange(-8.0, 9.0)[:, None] + 0.3  # cut towards zero


def patch(reverse: bool = False) -> list[onnx.NodeProto]:
    """`places` `[k, 1]`: the numbers p, p + 1, ... of `line` `[5]` that a patch covers."""
    end = ["width", "q"] if reverse else ["q", "width"]
    return [
        whole("p", "cut"),
        helper.make_node("Add", ["cut", "shift"], ["q"]),
        helper.make_node("Add", end, ["r"]),
        helper.make_node("Slice", ["line", "q", "r", "axis", "step"], ["covered"]),
        helper.make_node("Unsqueeze", ["covered", "last"], ["places"]),
    ]


CONSTANTS: dict[str, Any] = {
    "shift": np.array([1]),
    "width": np.array([PATCH]),
    "axis": np.array([0]),
    "step": np.array([1]),
    "last": np.array([-1]),
    "line": np.arange(WIDTH),
}


def points(count: int) -> NDArray[Any]:
    """Every place of the patch, with `count` further inputs of fixed draw."""
    rest = np.random.default_rng(0).normal(size=(len(EVERYWHERE), count))
    return np.concatenate([EVERYWHERE, rest], axis=1).astype(np.float32)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_patch_of_one_value(reverse: bool) -> None:
    nodes = [
        *patch(reverse=reverse),
        helper.make_node("Shape", ["covered"], ["count"]),
        helper.make_node("ConstantOfShape", ["count"], ["zeros"]),
        helper.make_node("ScatterND", ["x", "places", "zeros"], ["y"]),
    ]
    model = graph_model(nodes, {"p": [1], "x": [WIDTH]}, CONSTANTS)
    found = check_outputs(model, points(WIDTH), 0.0)
    written = (found == 0).sum(axis=1)
    assert set(written.tolist()) == {0, 1, PATCH}  # beyond an end, over an end, inside


def test_a_patch_of_other_entries() -> None:
    """Entries of the tensor itself, sliced at the same place, are scaled and written back."""
    nodes = [
        *patch(),
        helper.make_node("Slice", ["x", "q", "r", "axis"], ["old"]),
        helper.make_node("Mul", ["old", "ten"], ["new"]),
        helper.make_node("ScatterND", ["x", "places", "new"], ["y"]),
    ]
    model = graph_model(nodes, {"p": [1], "x": [WIDTH]}, {**CONSTANTS, "ten": 10.0})
    check_outputs(model, points(WIDTH), 0.0)


def test_a_patch_of_an_image() -> None:
    """Two slices, one after the other, and places built as exporters build them."""
    nodes = [
        whole("p", "a"),
        helper.make_node("Add", ["a", "width"], ["b"]),
        helper.make_node("Slice", ["ones", "a", "b", "rows"], ["some_rows"]),
        helper.make_node("Slice", ["some_rows", "a", "b", "columns"], ["covered"]),
        helper.make_node("Shape", ["covered"], ["size"]),
        helper.make_node("Expand", ["zero", "size"], ["zeros"]),
        helper.make_node("Slice", ["line", "a", "b", "rows"], ["at"]),
        helper.make_node("Reshape", ["at", "column"], ["at_rows"]),
        helper.make_node("Expand", ["at_rows", "size"], ["all_rows"]),
        helper.make_node("Expand", ["at", "size"], ["all_columns"]),
        helper.make_node("Unsqueeze", ["all_rows", "last"], ["first"]),
        helper.make_node("Unsqueeze", ["all_columns", "last"], ["second"]),
        helper.make_node("Concat", ["first", "second"], ["places"], axis=-1),
        helper.make_node("ScatterND", ["ones", "places", "zeros"], ["mask"]),
        helper.make_node("Mul", ["mask", "x"], ["y"]),
    ]
    constants = {
        **CONSTANTS,
        "ones": np.ones((WIDTH, WIDTH)),
        "zero": np.zeros((1, 1)),
        "rows": np.array([0]),
        "columns": np.array([1]),
        "column": np.array([-1, 1]),
    }
    model = graph_model(nodes, {"p": [1], "x": [WIDTH, WIDTH]}, constants)
    check_outputs(model, points(WIDTH * WIDTH), 0.0)


REFUSED: dict[str, tuple[list[onnx.NodeProto], str]] = {
    "sum": (
        [helper.make_node("ReduceSum", ["covered"], ["y"], keepdims=0)],
        "ReduceSum of a tensor whose length depends on the input",
    ),
    "output": ([helper.make_node("Identity", ["covered"], ["y"])], "the length of tensor 'y' depends on the input"),
    "count": (
        [helper.make_node("Size", ["covered"], ["y"])],
        "Size of a tensor whose length depends on the input",
    ),
    "shape as a number": (
        [
            helper.make_node("Shape", ["covered"], ["count"]),
            helper.make_node("Cast", ["count"], ["number"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["number", "x"], ["y"]),
        ],
        "Mul of a tensor whose length depends on the input",
    ),
    "other updates": (
        [helper.make_node("ScatterND", ["x", "places", "two"], ["y"])],
        "a scatter of entries whose number depends on the input",
    ),
    "added up": (
        [
            helper.make_node("Cast", ["covered"], ["new"], to=TensorProto.FLOAT),
            helper.make_node("ScatterND", ["x", "places", "new"], ["y"], reduction="add"),
        ],
        "a scatter of entries whose number depends on the input",
    ),
    "twice along one axis": (
        [helper.make_node("Slice", ["covered", "q", "r", "axis"], ["y"])],
        "a slice of what has a length that depends on the input",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_repeated_entries_would_falsify_is_refused(name: str) -> None:
    nodes, reason = REFUSED[name]
    constants = {**CONSTANTS, "two": np.array([1.0, 2.0])}
    with pytest.raises(UnsupportedError, match=reason):
        lower(graph_model([*patch(), *nodes], {"p": [1], "x": [WIDTH]}, constants))


@pytest.mark.parametrize("bounds", [["q", "fixed"], ["fixed", "q"], ["r", "q"], ["q", "twice"]])
def test_a_slice_of_uncertain_length_is_refused(bounds: list[str]) -> None:
    nodes = [
        *patch(),
        helper.make_node("Mul", ["q", "width"], ["twice"]),
        helper.make_node("Slice", ["x", *bounds], ["y"]),
    ]
    with pytest.raises(UnsupportedError, match="a slice whose length depends on the input"):
        lower(graph_model(nodes, {"p": [1], "x": [WIDTH]}, {**CONSTANTS, "fixed": np.array([3])}))
