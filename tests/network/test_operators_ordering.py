"""ArgMax, ArgMin, TopK, CumSum: along every axis, with ties, and TopK's and CumSum's gradients."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from onnx import helper
from operator_checks import batch, check, check_outputs, node_model
from operator_graphs import graph_model

from falsifier.errors import UnsupportedError
from falsifier.network.lowering import lower


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize(("last", "keep", "axis"), list(product([0, 1], [0, 1], [0, 1, -1])))
def test_place_of_the_extreme(op: str, last: int, keep: int, axis: int) -> None:
    """Rounded entries tie."""
    options: dict[str, Any] = {"axis": axis, "keepdims": keep, "select_last_index": last}
    nodes = [helper.make_node("Round", ["x"], ["r"]), helper.make_node(op, ["r"], ["y"], **options)]
    model = graph_model(nodes, {"x": [3, 5, 2]})
    check_outputs(model, batch(model, lanes=5))


@pytest.mark.parametrize(("largest", "axis", "count"), list(product([0, 1], [0, 1, -1], [1, 3])))
def test_top_k(largest: int, axis: int, count: int) -> None:
    model = graph_model(
        [helper.make_node("TopK", ["x", "k"], ["y", "i"], axis=axis, largest=largest)],
        {"x": [3, 4, 3]},
        {"k": np.array([count])},
        outputs=["y", "i"],
    )
    check(model)


def test_top_k_as_an_attribute() -> None:
    check(graph_model([helper.make_node("TopK", ["x"], ["y", "i"], k=2)], {"x": [3, 5]}, opset=9, outputs=["y", "i"]))


def test_top_k_of_equal_entries() -> None:
    nodes = [helper.make_node("Round", ["x"], ["r"]), helper.make_node("TopK", ["r", "k"], ["y", "i"])]
    model = graph_model(nodes, {"x": [2, 6]}, {"k": np.array([4])}, outputs=["y", "i"])
    check_outputs(model, batch(model, lanes=5))


def test_how_many_from_the_input_is_refused() -> None:
    nodes = [helper.make_node("Cast", ["n"], ["k"], to=7), helper.make_node("TopK", ["x", "k"], ["y", "i"])]
    with pytest.raises(UnsupportedError, match="how many entries TopK finds depends on the input"):
        lower(graph_model(nodes, {"x": [3], "n": [1]}))


@pytest.mark.parametrize(("exclusive", "reverse", "axis"), list(product([0, 1], [0, 1], [0, -1])))
def test_running_sum(exclusive: int, reverse: int, axis: int) -> None:
    model = node_model("CumSum", {"x": [3, 4]}, {"a": np.array(axis)}, exclusive=exclusive, reverse=reverse)
    check(model)
