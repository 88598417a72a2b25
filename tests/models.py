"""Tiny ONNX models and queries for tests: answers are worked out by hand, files are written where a test says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike, NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET = 13
IR_VERSION = 8
Shape = Sequence[int | str]
Step = tuple[str, Sequence[TensorProto], dict[str, Any]]  # of a chain: operator, further operands, attributes


def tensor(name: str, shape: Shape, dtype: Any = np.float32) -> onnx.ValueInfoProto:
    """The declaration of an input or output."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), list(shape))


def constant(name: str, values: ArrayLike, dtype: Any = np.float32) -> TensorProto:
    """An initializer."""
    return numpy_helper.from_array(np.asarray(values, dtype=dtype), name)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    constants: Sequence[TensorProto] = (),
    *,
    opset: int = OPSET,
    domains: Sequence[tuple[str, int]] = (),
) -> onnx.ModelProto:
    """A model from its parts."""
    graph = helper.make_graph(list(nodes), "test", list(inputs), list(outputs), list(constants))
    imports = [helper.make_opsetid(domain, version) for domain, version in (("", opset), *domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)


def chain(
    ops: Sequence[Step],
    input_shape: Shape,
    output_shape: Shape,
    dtype: Any = np.float32,
    **options: Any,
) -> onnx.ModelProto:
    """A model that applies operators one after the other: each is (type, further operands, attributes), from X to Y."""
    nodes: list[onnx.NodeProto] = []
    constants: list[TensorProto] = []
    at = "X"
    for i, (op, operands, attributes) in enumerate(ops):
        result = "Y" if i == len(ops) - 1 else f"t{i}"
        nodes.append(helper.make_node(op, [at, *(operand.name for operand in operands)], [result], **attributes))
        constants.extend(operands)
        at = result
    return model(nodes, [tensor("X", input_shape, dtype)], [tensor("Y", output_shape, dtype)], constants, **options)


def gemm(
    weight: ArrayLike, bias: ArrayLike | None = None, *, name: str = ""
) -> tuple[str, list[TensorProto], dict[str, Any]]:
    """A step of `chain`: y = x W^T + b, with `weight` `[outputs, inputs]`."""
    w = np.asarray(weight, dtype=np.float32)
    b = np.zeros(len(w)) if bias is None else bias
    return "Gemm", [constant(f"W{name}", w), constant(f"b{name}", b)], {"transB": 1}


def affine(weight: ArrayLike, bias: ArrayLike | None = None) -> onnx.ModelProto:
    """X[1, n] -> Gemm -> Y[1, m]."""
    w = np.asarray(weight)
    return chain([gemm(w, bias)], [1, w.shape[1]], [1, w.shape[0]])


def identity(n: int = 1, dtype: Any = np.float32) -> onnx.ModelProto:
    """X[1, n] -> Y[1, n], the same values."""
    return chain([("Identity", [], {})], [1, n], [1, n], dtype)


def two_outputs() -> onnx.ModelProto:
    """X[1, 1] -> A = -X, B = X / 2."""
    nodes = [helper.make_node("Neg", ["X"], ["A"]), helper.make_node("Mul", ["X", "half"], ["B"])]
    return model(nodes, [tensor("X", [1, 1])], [tensor("A", [1, 1]), tensor("B", [1, 1])], [constant("half", 0.5)])


def save(onnx_model: onnx.ModelProto, path: Path) -> Path:
    """Write a model and return where."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(onnx_model.SerializeToString())
    return path


def declare(n: int, m: int) -> str:
    """The declarations of a 1.0 query."""
    names = [f"X_{i}" for i in range(n)] + [f"Y_{i}" for i in range(m)]
    return "".join(f"(declare-const {name} Real)\n" for name in names)


def box(lower: Sequence[float | str], upper: Sequence[float | str]) -> str:
    """Bounds on X_0 .. as 1.0 assertions."""
    pairs = enumerate(zip(lower, upper, strict=True))
    return "".join(f"(assert (>= X_{i} {a}))\n(assert (<= X_{i} {b}))\n" for i, (a, b) in pairs)


def floats(values: ArrayLike) -> NDArray[np.float32]:
    """Values in the type of most networks."""
    return np.asarray(values, dtype=np.float32)
