"""Sequences and optional values: the tensors in them are those that single samples have, and so are gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import models
import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper
from operator_checks import check_gradient, check_outputs

from falsifier.errors import UnsupportedError
from falsifier.network.lowering import lower

node = helper.make_node
X = np.random.default_rng(0).uniform(0.3, 1, (4, 6)).astype(np.float32)


def net(nodes: Sequence[NodeProto], **places: Any) -> ModelProto:
    """X `[2, 3]` to Y; `places` are integer constants."""
    constants = [models.constant(name, value, np.int64) for name, value in places.items()]
    results = [helper.make_tensor_value_info("Y", 1, None)]
    return models.model(nodes, [models.tensor("X", [2, 3])], results, constants, opset=18)


def split(sizes: Any = None, axis: int = 1, keepdims: int = 1) -> ModelProto:
    """The first part times the last one (broadcast), as `split`, `chunk` and `unbind` are exported."""
    steps = [
        node("SplitToSequence", ["X"] if sizes is None else ["X", "s"], ["q"], axis=axis, keepdims=keepdims),
        node("SequenceAt", ["q", "zero"], ["a"]),
        node("SequenceAt", ["q", "last"], ["b"]),
        node("Mul", ["a", "b"], ["Y"]),
    ]
    return net(steps, zero=0, last=-1, **({} if sizes is None else {"s": sizes}))


def stacked(*, new_axis: int) -> ModelProto:
    """X, -X and a constant in the order -X, X side by side, after one of them was put in and another taken out."""
    steps = [
        node("SequenceEmpty", [], ["e"], dtype=TensorProto.FLOAT),
        node("Neg", ["X"], ["m"]),
        node("SequenceInsert", ["e", "X"], ["q"]),
        node("SequenceInsert", ["q", "m", "zero"], ["r"]),
        node("SequenceInsert", ["r", "m"], ["s"]),
        node("SequenceErase", ["s"], ["t"]),
        node("Identity", ["t"], ["u"]),
        node("ConcatFromSequence", ["u"], ["v"], axis=-1, new_axis=new_axis),
        node("SequenceLength", ["u"], ["n"]),
        node("Cast", ["n"], ["f"], to=TensorProto.FLOAT),
        node("Mul", ["v", "f"], ["Y"]),
    ]
    return net(steps, zero=0)


def looping() -> ModelProto:
    """Each round adds a tensor to the list, as scripted Python does."""
    kinds = [models.tensor("i", [], np.int64), models.tensor("yes", [], np.bool_)]
    listed = helper.make_tensor_sequence_value_info
    body = helper.make_graph(
        [
            node("Tanh", ["x"], ["y"]),
            node("SequenceInsert", ["q", "y"], ["r"]),
            node("Identity", ["yes"], ["go"]),
        ],
        "body",
        [*kinds, listed("q", 1, None), models.tensor("x", [2, 3])],
        [models.tensor("go", [], np.bool_), listed("r", 1, None), models.tensor("y", [2, 3])],
    )
    steps = [
        node("SequenceConstruct", ["X"], ["first"]),
        node("Loop", ["M", "", "first", "X"], ["all", "end"], body=body),
        node("ConcatFromSequence", ["all"], ["Y"], axis=0),
    ]
    return net(steps, M=3)


def optional() -> ModelProto:
    steps = [
        node("Optional", ["X"], ["o"]),
        node("OptionalHasElement", ["o"], ["h"]),
        node("OptionalGetElement", ["o"], ["x"]),
        node("Cast", ["h"], ["f"], to=TensorProto.FLOAT),
        node("Mul", ["x", "f"], ["Y"]),
    ]
    return net(steps)


@pytest.mark.parametrize(
    "model",
    [
        split(),
        split(keepdims=0),
        split(axis=-2, keepdims=0),
        split(2),
        split([1, 1, 1]),
        split([2, 1], keepdims=0),
        stacked(new_axis=0),
        stacked(new_axis=1),
        looping(),
        optional(),
    ],
)
def test_what_is_in_a_list_is_what_single_samples_have(model: ModelProto) -> None:
    check_outputs(model, X)
    check_gradient(model, X)


def test_constants_are_split_and_joined_as_well() -> None:
    steps = [
        node("SplitToSequence", ["k", "s"], ["q"], axis=0),
        node("SequenceAt", ["q", "one"], ["a"]),
        node("SequenceConstruct", ["a", "a"], ["r"]),
        node("ConcatFromSequence", ["r"], ["t"], axis=0),
        node("Cast", ["t"], ["f"], to=TensorProto.FLOAT),
        node("MatMul", ["f", "X"], ["Y"]),
    ]
    check_outputs(net(steps, k=[[1, 2], [3, 4], [5, 6]], s=[2, 1], one=1), X)


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ([node("SequenceConstruct", ["X"], ["q"]), node("SequenceAt", ["q", "five"], ["Y"])], "position 5 of .* 1 pla"),
        ([node("SplitToSequence", ["X", "zero"], ["q"]), node("SequenceAt", ["q", "zero"], ["Y"])], "cannot be eval"),
        ([node("SequenceConstruct", ["X"], ["q"]), node("Relu", ["q"], ["Y"])], "sequences are not lowered here"),
        ([node("SequenceConstruct", ["X"], ["Y"])], "'Y' is a sequence"),
        (
            [
                node("ReduceSum", ["X"], ["c"], keepdims=0),
                node("Cast", ["c"], ["i"], to=TensorProto.INT64),
                node("SplitToSequence", ["X"], ["q"]),
                node("SequenceAt", ["q", "i"], ["Y"]),
            ],
            "a position in a sequence depends on the input",
        ),
    ],
)
def test_lists_that_are_not_certain_are_refused_in_one_line(steps: Sequence[NodeProto], why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        lower(net(steps, five=5, zero=0))
