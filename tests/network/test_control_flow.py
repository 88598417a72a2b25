"""If, Loop and Scan have batched programs where every lane goes through the same rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import models
import numpy as np
import pytest
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper
from operator_checks import check_gradient, check_outputs

from falsifier.errors import UnsupportedError
from falsifier.network.lowering import lower

node = helper.make_node
WEIGHT = models.constant("W", np.random.default_rng(0).normal(size=(3, 3)))
X = np.random.default_rng(1).uniform(0.3, 1, (4, 6)).astype(np.float32)


def graph(nodes: Sequence[NodeProto], inputs: Sequence[Any], outputs: Sequence[str], *constants: Any) -> GraphProto:
    results = [helper.make_tensor_value_info(o, TensorProto.BOOL if o == "go" else 1, None) for o in outputs]
    return helper.make_graph(nodes, "body", inputs, results, constants)


def net(nodes: Sequence[NodeProto], constants: Sequence[TensorProto] = (), outputs: int = 1) -> ModelProto:
    results = [helper.make_tensor_value_info(f"Y{i}", 1, None) for i in range(outputs)]
    return models.model(nodes, [models.tensor("X", [2, 3])], results, constants)


def looping(*, count: bool = True, until: float | None = None) -> ModelProto:
    """h <- tanh(h W + X), told of each round; ends after 5 rounds, or once the round's number is `until`."""
    steps = [
        node("Cast", ["i"], ["f"], to=1),
        node("Identity", ["yes"], ["go"]) if until is None else node("Less", ["f", "most"], ["go"]),
        node("MatMul", ["h", "W"], ["a"]),
        node("Add", ["a", "X"], ["b"]),
        node("Tanh", ["b"], ["after"]),
        node("Mul", ["after", "f"], ["told"]),
    ]
    inputs = [models.tensor("i", [], np.int64), models.tensor("yes", [], np.bool_), models.tensor("h", [2, 3])]
    body = graph(steps, inputs, ["go", "after", "told"], WEIGHT, models.constant("most", until or 0.0))
    loop = node("Loop", ["M" if count else "", "T", "X"], ["Y0", "Y1"], body=body)
    return net([loop], [models.constant("M", 5, np.int64), models.constant("T", True, np.bool_)], 2)


def scanning(*, backwards: bool, axis: int) -> ModelProto:
    """The state adds up the entries; what it is after each entry is told along `axis`."""
    entry = [3] if axis == 0 else [2]
    steps = [node("Add", ["s", "x"], ["sum"]), node("Tanh", ["sum"], ["told"])]
    body = graph(steps, [models.tensor("s", entry), models.tensor("x", entry)], ["sum", "told"])
    scan = node(
        "Scan",
        ["z", "X"],
        ["Y0", "Y1"],
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_output_axes=[axis],
        scan_input_directions=[int(backwards)],
        scan_output_directions=[int(backwards)],
    )
    return net([scan], [models.constant("z", np.zeros(entry))], 2)


def choosing(else_op: str = "Neg") -> ModelProto:
    """sqrt(X) where X adds up to more than 4, else -X."""
    branches = {
        "then_branch": graph([node("Sqrt", ["X"], ["r"])], [], ["r"]),
        "else_branch": graph([node(else_op, ["X"], ["r"])], [], ["r"]),
    }
    steps = [node("ReduceSum", ["X"], ["s"], keepdims=0), node("Greater", ["s", "four"], ["c"])]
    return net([*steps, node("If", ["c"], ["Y0"], **branches)], [models.constant("four", 4.0)])


@pytest.mark.parametrize(
    "model",
    [
        looping(),
        looping(count=False, until=3.0),
        looping(until=2.0),
        scanning(backwards=False, axis=0),
        scanning(backwards=True, axis=0),
        scanning(backwards=True, axis=1),
        choosing(),
    ],
)
def test_rounds_and_branches_are_those_of_single_samples(model: ModelProto) -> None:
    outputs = check_outputs(model, X)
    assert len({tuple(row) for row in outputs}) == len(X)
    check_gradient(model, X)


def test_both_branches_are_taken_by_some_lane() -> None:
    y = check_outputs(choosing(), X)
    assert (y > 0).any()
    assert (y < 0).any()


def test_weights_of_a_body_are_one_constant() -> None:
    program = lower(looping()).program
    assert sum(c.shape == (3, 3) for c in program.constants.values()) == 1


def counted_by_the_input() -> ModelProto:
    steps = [node("Identity", ["yes"], ["go"]), node("Neg", ["h"], ["after"])]
    inputs = [models.tensor("i", [], np.int64), models.tensor("yes", [], np.bool_), models.tensor("h", [2, 3])]
    loop = node("Loop", ["n", "", "X"], ["Y0"], body=graph(steps, inputs, ["go", "after"]))
    return net([node("ReduceSum", ["X"], ["s"], keepdims=0), node("Cast", ["s"], ["n"], to=TensorProto.INT64), loop])


def long() -> ModelProto:
    model = looping()
    (count,) = [c for c in model.graph.initializer if c.name == "M"]
    count.CopyFrom(models.constant("M", 10**12, np.int64))
    return model


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (counted_by_the_input(), "the number of rounds depends on the input"),
        (long(), "written out, make 6000000000000 nodes"),
        (choosing("Shape"), "of different shapes"),
    ],
)
def test_what_has_no_certain_rounds_or_shapes_is_refused(model: ModelProto, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        lower(model)
