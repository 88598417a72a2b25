"""Constant folding: nodes whose operands are all constants, as exporters leave them around shapes and masks.

The frequent ones in numpy (an op-heavy model has a hundred); any other by onnxruntime, as a model of one node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import UnsupportedError
from falsifier.network import model as reading
from falsifier.network import runtime
from falsifier.network.operators import Node
from falsifier.network.operators.slicing import slices_of

Array = NDArray[Any]

_RANDOM = ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli")


def fold(node: Node, operands: Sequence[Array | None], proto: Any) -> list[Array]:
    """The outputs of a node with constant operands. Raises UnsupportedError for what has no constant value."""
    if node.op in _RANDOM and node.domain in ("", "ai.onnx"):
        raise UnsupportedError(f"{node.op} is random")
    rule = _NUMPY.get(node.key)
    if rule is not None:
        try:
            result = rule(node, *operands)
        except (ValueError, IndexError, TypeError) as error:
            raise UnsupportedError(f"node {node.name!r} ({node.op}) cannot be evaluated: {error}") from error
        if result is not None:
            return [reading.widened(np.asarray(result))]
    return [reading.widened(a) for a in _run(node, operands, proto)]


def _run(node: Node, operands: Sequence[Array | None], proto: Any) -> list[Array]:
    """One node as a model of its own in onnxruntime."""
    import onnx
    import onnxruntime
    from onnx import helper

    copy = onnx.NodeProto()
    copy.CopyFrom(proto)
    del copy.input[:], copy.output[:], copy.attribute[:]
    copy.input.extend("" if a is None else f"i{i}" for i, a in enumerate(operands))
    copy.output.extend(f"o{i}" if name else "" for i, name in enumerate(node.outputs))
    copy.attribute.extend(helper.make_attribute(k, _attribute(v)) for k, v in node.attributes.items())
    inputs = [
        helper.make_tensor_value_info(f"i{i}", helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for i, a in enumerate(operands)
        if a is not None
    ]
    wanted = [name for name in copy.output if name]
    outputs = [onnx.ValueInfoProto(name=name) for name in wanted]  # types are inferred
    graph = helper.make_graph([copy], "fold", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, node.version)], ir_version=10)
    try:
        options = runtime.session_options(threads=1)
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        results = session.run(wanted, {f"i{i}": a for i, a in enumerate(operands) if a is not None})
    except runtime.errors() as error:
        raise UnsupportedError(f"node {node.name!r} ({node.op}): {runtime.one_line(error)}") from error
    if not all(isinstance(r, np.ndarray) for r in results):
        raise UnsupportedError(f"node {node.name!r} ({node.op}) makes a sequence")
    found = dict(zip(wanted, results, strict=True))
    return [found.get(name, np.empty(0)) for name in copy.output]


def _attribute(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        from onnx import numpy_helper

        return numpy_helper.from_array(value)
    return value


def _axes(node: Node, given: Array | None) -> list[int] | None:
    """`axes` as an input (newer opsets) or as an attribute."""
    axes = node.attributes.get("axes") if given is None else given.ravel().tolist()
    return None if axes is None else [int(a) for a in axes]


def _constant(node: Node) -> Array:
    attributes = node.attributes
    for name in ("value", "sparse_value"):
        if name in attributes:
            return np.asarray(attributes[name])
    for name, dtype in (("value_float", np.float32), ("value_floats", np.float32), ("value_int", np.int64)):
        if name in attributes:
            return np.array(attributes[name], dtype=dtype)
    if "value_ints" in attributes:
        return np.array(attributes["value_ints"], dtype=np.int64)
    raise UnsupportedError(f"Constant {node.name!r} holds text")


def _constant_of_shape(node: Node, shape: Array) -> Array:
    value = np.asarray(node.attributes.get("value", np.zeros(1, dtype=np.float32)))
    return np.full(tuple(shape.tolist()), value.ravel()[0], dtype=value.dtype)


def _shape(node: Node, x: Array) -> Array:
    start, end = node.attributes.get("start", 0), node.attributes.get("end")
    return np.array(x.shape[start:end], dtype=np.int64)


def _unsqueeze(node: Node, x: Array, axes: Array | None = None) -> Array:
    positions = _axes(node, axes)
    assert positions is not None
    return np.expand_dims(x, tuple(positions))


def _squeeze(node: Node, x: Array, axes: Array | None = None) -> Array:
    positions = _axes(node, axes)
    return np.squeeze(x, None if positions is None else tuple(positions))


def _slice(node: Node, x: Array, *rest: Array | None) -> Array:
    return x[slices_of(node, x.shape, rest)]


def _reshape(node: Node, x: Array, shape: Array | None = None) -> Array:
    target = [int(d) for d in (node.attributes["shape"] if shape is None else shape.tolist())]
    if not node.attributes.get("allowzero"):
        target = [x.shape[i] if d == 0 else d for i, d in enumerate(target)]
    return x.reshape(target)


def _div(node: Node, a: Array, b: Array) -> Array | None:
    """Integers truncate; division by zero is left to onnxruntime."""
    if np.issubdtype(a.dtype, np.integer):
        if not b.all():
            return None
        quotient = np.abs(a) // np.abs(b)
        return np.asarray(quotient * np.sign(a) * np.sign(b), dtype=a.dtype)
    with np.errstate(all="ignore"):
        return np.asarray(a / b)


def _cast(node: Node, x: Array) -> Array | None:
    from onnx import helper

    to = np.dtype(helper.tensor_dtype_to_np_dtype(node.attributes["to"]))
    plain = "biuf"
    if _is_packed(x):
        x = x.astype(np.float32)  # holds each of their numbers
    if x.dtype.kind not in plain or to.kind not in plain:
        return None
    if x.dtype.kind == "f" and to.kind in "iu" and not (np.abs(x) < 2**31).all():
        return None  # what becomes of a number that does not fit is onnxruntime's to say
    with np.errstate(all="ignore"):
        return x.astype(to)


def _is_packed(x: Array) -> bool:
    """Whether the type is one of less than 8 bits, or of floats of 8, which onnxruntime does not take from numpy."""
    return x.dtype.isbuiltin != 1 and x.dtype.name.startswith(("int", "uint", "float"))


def _dequantize(node: Node, x: Array, scale: Array, zero: Array | None = None) -> Array | None:
    """Of types that only numpy holds; the others are left to onnxruntime."""
    if not _is_packed(x):
        return None
    axis, block = node.attributes.get("axis", 1), node.attributes.get("block_size", 0)

    def along(numbers: Array) -> Array:
        numbers = numbers.astype(np.float32)
        if block:
            return np.repeat(numbers, block, axis).take(range(x.shape[axis]), axis)
        return numbers.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)]) if numbers.ndim else numbers

    return (x.astype(np.float32) - (0 if zero is None else along(zero))) * along(scale)


def _range(node: Node, start: Array, limit: Array, delta: Array) -> Array:
    count = max(math.ceil((limit.item() - start.item()) / delta.item()), 0)
    return np.asarray(start.item() + np.arange(count) * delta.item(), dtype=start.dtype)


def _expand(node: Node, x: Array, shape: Array) -> Array:
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape.tolist())))


def _quiet(function: Callable[..., Any]) -> Callable[..., Array]:
    def rule(node: Node, *operands: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(*operands))

    return rule


_NUMPY: dict[str, Callable[..., Array | None]] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Shape": _shape,
    "Size": lambda node, x: np.array(x.size, dtype=np.int64),
    "Gather": lambda node, x, i: np.take(x, i, axis=node.attributes.get("axis", 0)),
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Concat": lambda node, *xs: np.concatenate(xs, axis=node.attributes["axis"]),
    "Slice": _slice,
    "Reshape": _reshape,
    "Transpose": lambda node, x: np.transpose(x, node.attributes.get("perm")),
    "Cast": _cast,
    "DequantizeLinear": _dequantize,
    "Range": _range,
    "Expand": _expand,
    "Div": _div,
    "Identity": _quiet(lambda x: x),
    "Add": _quiet(np.add),
    "Sub": _quiet(np.subtract),
    "Mul": _quiet(np.multiply),
    "Neg": _quiet(np.negative),
    "Equal": _quiet(np.equal),
    "Where": _quiet(np.where),
    "Not": _quiet(np.logical_not),
}

FOLDED = tuple(_NUMPY)
"""Operators that are evaluated in numpy where their operands are constants; of others, onnxruntime says the value."""
