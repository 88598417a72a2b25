"""Models that are broken, boastful or odd: what is refused, and in which words; what is run all the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import models
import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper

HUGE = 10**12
node, X, Y = helper.make_node, models.tensor("X", [1, 2]), helper.make_tensor_value_info("Y", 1, None)


def net(
    nodes: Sequence[NodeProto],
    constants: Sequence[TensorProto] = (),
    x: Any = (X,),
    y: Any = (Y,),
    **more: Any,
) -> onnx.ModelProto:
    return models.model(nodes, x, y, constants, **more)


def integers(name: str, *values: int) -> TensorProto:
    return models.constant(name, values, np.int64)


def claim(dims: Sequence[int], data: bytes = b"", dtype: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """Y = X + the sum of a tensor that says so much of itself."""
    held = TensorProto(name="c", data_type=dtype, dims=dims, raw_data=data)
    return net([node("ReduceSum", ["c"], ["u"]), node("Add", ["X", "u"], ["Y"])], [held])


def _sparse() -> onnx.ModelProto:
    made = net([node("ReduceSum", ["c"], ["u"]), node("Add", ["X", "u"], ["Y"])])
    sparse = made.graph.sparse_initializer.add(dims=[HUGE])
    sparse.values.CopyFrom(models.constant("c", [1.0]))
    sparse.indices.CopyFrom(integers("", 5))
    return made


def _functions(bodies: Sequence[Sequence[str]]) -> onnx.ModelProto:
    """A model that calls F0; body i calls the functions that it lists, one after the other."""
    made = net([node("F0", ["X"], ["Y"], domain="d")], domains=[("d", 1)])
    imports = [helper.make_opsetid("", 13), helper.make_opsetid("d", 1)]
    for i, called in enumerate(bodies):
        names = [*(f"t{k}" for k in range(len(called))), "y"]
        steps = [
            node(op, ["x" if k == 0 else names[k - 1]], [names[k]], domain="d" if op.startswith("F") else "")
            for k, op in enumerate(called)
        ]
        steps.append(node("Identity", [names[len(called) - 1] if called else "x"], ["y"]))
        made.functions.append(helper.make_function("d", f"F{i}", ["x"], ["y"], steps, imports))
    return made


def _opset(version: int | None) -> onnx.ModelProto:
    made = net([node("Relu", ["X"], ["Y"])])
    del made.opset_import[:]
    if version is not None:
        made.opset_import.add(domain="", version=version)
    return made


def loop(count: int) -> onnx.ModelProto:
    body = helper.make_graph(
        [node("Identity", ["go"], ["on"]), node("Add", ["v", "v"], ["w"])],
        "body",
        [
            models.tensor("i", [], np.int64),
            models.tensor("go", [], np.bool_),
            helper.make_tensor_value_info("v", 1, None),
        ],
        [models.tensor("on", [], np.bool_), helper.make_tensor_value_info("w", 1, None)],
    )
    constants = [models.constant("M", count, np.int64), models.constant("yes", True, np.bool_)]
    return net([node("Loop", ["M", "yes", "X"], ["Y"], body=body)], constants)


def branches() -> onnx.ModelProto:
    then, other = (
        helper.make_graph([node(op, ["X"], [op])], op, [], [helper.make_tensor_value_info(op, 1, None)])
        for op in ("Relu", "Neg")
    )
    steps = [node("ReduceSum", ["X"], ["s"], keepdims=0), node("Cast", ["s"], ["c"], to=TensorProto.BOOL)]
    return net([*steps, node("If", ["c"], ["Y"], then_branch=then, else_branch=other)])


def scan() -> onnx.ModelProto:
    pair = [models.tensor("so", [2]), models.tensor("yo", [2])]
    body = helper.make_graph(
        [node("Add", ["st", "x"], ["so"]), node("Identity", ["so"], ["yo"])],
        "body",
        [models.tensor("st", [2]), models.tensor("x", [2])],
        pair,
    )
    return net(
        [node("Scan", ["z", "X"], ["last", "Y"], body=body, num_scan_inputs=1)], [models.constant("z", [0.0, 0.0])]
    )


_RELU = [node("Relu", ["X"], ["Y"])]

REFUSED: dict[str, tuple[onnx.ModelProto, str]] = {
    "no graph": (onnx.ModelProto(ir_version=8), "not an ONNX protobuf|cannot load"),
    "empty graph": (onnx.ModelProto(ir_version=8, graph=onnx.GraphProto(name="g")), "Missing opset"),
    "no opset": (_opset(None), "Missing opset"),
    "opset 0": (_opset(0), "No Op registered for Relu"),
    "opset 99": (_opset(99), "99"),
    "later IR": (models.identity(), "Unsupported model IR version: 99"),
    "cycle": (net([node("Add", ["X", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Relu", ["a"], ["Y"])]), "acyclic"),
    "node that reads itself": (net([node("Add", ["X", "Y"], ["Y"])]), "acyclic"),
    "undeclared tensor": (net([node("Add", ["X", "nowhere"], ["Y"])]), "'nowhere' is not a graph input"),
    "output twice": (net([*_RELU, node("Neg", ["X"], ["Y"])]), r"Duplicate definition of name \(Y\)"),
    "input twice": (net(_RELU, x=[X, X]), r"Duplicate definition-site for \(X\)"),
    "unknown operator": (net([node("Mystery", ["X"], ["Y"])]), "No Op registered for Mystery"),
    "unknown domain": (net([node("M", ["X"], ["Y"], domain="com.x")], domains=[("com.x", 1)]), "com.x:M"),
    "attribute of another type": (net([node("Flatten", ["X"], ["Y"], axis=1.0)]), "Mismatched attribute type"),
    "complex numbers": (net(_RELU, x=[helper.make_tensor_value_info("X", 14, [1, 2])]), "complex64"),
    "unknown element type": (claim([1], b"1234", 77), "does not have valid data type|77"),
    "initializer that claims": (claim([HUGE], b"1234"), rf"'c' of shape \[{HUGE}\] claims {HUGE} elements, .* 5 bytes"),
    "initializer without data": (claim([4 * 10**8]), "claims 400000000 elements, its data has (0 bytes|1 byte)"),
    "texts that are not there": (claim([10**9], dtype=TensorProto.STRING), "claims 1000000000 elements"),
    "shape that overflows": (claim([2**62, 8]), "claims 36893488147419103232 elements"),
    "axes without end": (claim([2**62] * 300), "'c' has 300 axes, which no tensor has"),
    "negative dimension of data": (claim([-2], b"12345678"), r"'c' has the shape \[-2\]"),
    "sparse initializer": (_sparse(), rf"sparse initializer 'c' of shape \[{HUGE}\]"),
    "constant that claims": (
        net(
            [
                node("Constant", [], ["c"], value=claim([HUGE], b"12").graph.initializer[0]),
                node("Add", ["X", "c"], ["Y"]),
            ]
        ),
        "4000000000000|cannot load",
    ),
    "function that calls itself": (_functions([["F0"]]), "function 'F0' calls itself"),
    "functions in a circle": (_functions([["F1"], ["Relu", "F0"]]), "function 'F[01]' calls itself"),
    "functions that double": (
        _functions([*([f"F{i + 1}"] * 2 for i in range(40)), ["Relu"]]),
        "make .* nodes, at most",
    ),
}
REFUSED["later IR"][0].ir_version = 99

UNSUPPORTED: dict[str, tuple[onnx.ModelProto, str]] = {
    "texts": (
        net(
            [node("Identity", ["S"], ["Y"])],
            x=[helper.make_tensor_value_info("S", TensorProto.STRING, [1, 2])],
            y=[helper.make_tensor_value_info("Y", TensorProto.STRING, [1, 2])],
        ),
        r"tensor\(string\)",
    ),
    "sequence as output": (
        net([node("SequenceConstruct", ["X"], ["Y"])], y=[helper.make_tensor_sequence_value_info("Y", 1, None)]),
        r"'Y' is a seq\(tensor\(float\)\)",
    ),
    "sequence as input": (
        net(
            [node("ConcatFromSequence", ["Q"], ["Y"], axis=0)],
            x=[helper.make_tensor_sequence_value_info("Q", 1, None)],
        ),
        r"'Q' has element type seq\(tensor\(float\)\)",
    ),
}

BOMBS: dict[str, onnx.ModelProto] = {
    "Tile": net([node("Tile", ["X", "r"], ["t"]), node("ReduceSum", ["t"], ["Y"])], [integers("r", 1, HUGE)]),
    "Expand": net([node("Expand", ["X", "s"], ["t"]), node("ReduceSum", ["t"], ["Y"])], [integers("s", HUGE, 2)]),
    "ConstantOfShape": net(
        [node("ConstantOfShape", ["n"], ["t"]), node("ReduceSum", ["t"], ["u"]), node("Add", ["X", "u"], ["Y"])],
        [integers("n", HUGE)],
    ),
    "Range": net(
        [
            node("Range", ["z", "n", "o"], ["t"]),
            node("ReduceSum", ["t"], ["i"]),
            node("Cast", ["i"], ["u"], to=TensorProto.FLOAT),
            node("Add", ["X", "u"], ["Y"]),
        ],
        [models.constant(name, value, np.int64) for name, value in (("z", 0), ("n", HUGE), ("o", 1))],
    ),
    "Pad": net([node("Pad", ["X", "p"], ["t"]), node("ReduceSum", ["t"], ["Y"])], [integers("p", 0, HUGE, 0, 0)]),
    "MatMul": net(
        [
            node("Reshape", ["X", "a"], ["r"]),
            node("Tile", ["r", "k"], ["t"]),
            node("MatMul", ["t", "v"], ["u"]),
            node("ReduceMax", ["u"], ["w"]),
            node("Add", ["X", "w"], ["Y"]),
        ],
        [integers("a", 2, 1), integers("k", 10**5, 1), models.constant("v", np.ones((1, 10**5)))],
    ),
    "input": net([node("ReduceSum", ["X"], ["Y"])], x=[models.tensor("X", [10**6, 10**6])]),
    "declared output": net([node("Identity", ["X"], ["Y"])], y=[models.tensor("Y", [10**6, 10**6])]),
    "endless Loop": loop(10**15),
}
"""Those that a library loads, and that want more memory or time than there is when they run."""

RUN: dict[str, tuple[onnx.ModelProto, list[float]]] = {
    "If": (branches(), [1.0, 2.0]),
    "Loop": (loop(3), [8.0, 16.0]),
    "Scan": (scan(), [1.0, 2.0]),
    "output that is the input": (net([], y=[X]), [1.0, 2.0]),
    "weights that are NaN": (
        net([node("Mul", ["X", "w"], ["Y"])], [models.constant("w", [np.nan, 1.0])]),
        [np.nan, 2.0],
    ),
    "infinite weights": (net([node("Mul", ["X", "w"], ["Y"])], [models.constant("w", [np.inf, 1.0])]), [np.inf, 2.0]),
    "negative dimension": (net(_RELU, x=[models.tensor("X", [-1, 2])]), [1.0, 2.0]),
    "sequence inside": (
        net([node("SplitToSequence", ["X"], ["q"], axis=1), node("ConcatFromSequence", ["q"], ["Y"], axis=1)]),
        [1.0, 2.0],
    ),
}
