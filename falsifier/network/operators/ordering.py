"""ArgMax, ArgMin, TopK, CumSum, CumProd: what follows an order along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Gradients, Node, PrimitiveRule
from falsifier.network.operators.composition import integers
from falsifier.network.program import Builder, Operand, Primitive, Value


def lower_arg(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """ArgMax, ArgMin: no gradient."""
    x = operands[0]
    assert isinstance(x, Value)
    axis = node.attributes.get("axis", 0) % len(x.shape)
    last = int(node.attributes.get("select_last_index", 0))
    kept = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    y = build.emit(node.op, [build.sample(x)], kept, np.int64, axis=axis + 1, keepdims=1, select_last_index=last)
    return [y if node.attributes.get("keepdims", 1) else build.shaped(y, (*x.shape[:axis], *x.shape[axis + 1 :]))]


def _arg_torch(inputs: Sequence[Any], attributes: dict[str, Any], largest: bool) -> tuple[Any, ...]:
    """torch promises no order among equal entries: the place is found by comparing."""
    import torch

    (x,) = inputs
    axis = attributes["axis"]
    best = x.amax(axis, keepdim=True) if largest else x.amin(axis, keepdim=True)
    number = torch.arange(x.shape[axis], device=x.device).reshape(-1, *[1] * (x.ndim - axis - 1))
    if attributes.get("select_last_index"):
        return (number.where(x == best, -1).amax(axis, keepdim=True).clamp(min=0),)
    return (number.where(x == best, x.shape[axis]).amin(axis, keepdim=True).clamp(max=x.shape[axis] - 1),)


def lower_top_k(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x = operands[0]
    if not isinstance(x, Value):
        raise UnsupportedError("how many entries TopK finds depends on the input")
    (k,) = [node.attributes["k"]] if len(operands) < 2 else integers(operands[1], "how many entries TopK finds")
    if x.dtype == np.uint64:
        raise UnsupportedError("onnxruntime cannot sort uint64")
    if k < 1:
        raise UnsupportedError("an empty tensor")
    axis = node.attributes.get("axis", -1) % len(x.shape)
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return build.emit_many(
        "TopK",
        [build.sample(x), np.array([k])],
        [(shape, x.dtype), (shape, np.dtype(np.int64))],
        axis=axis + 1,
        largest=int(node.attributes.get("largest", 1)),
        sorted=int(node.attributes.get("sorted", 1)),
    )


def top_k_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """Each value's gradient goes back to where it came from."""
    g = gradients[0]
    if g is None:
        return [None, None]
    x = build.program.values[primitive.inputs[0]]
    indices = build.program.values[primitive.outputs[1]]
    nothing = build.spread(np.zeros(x.stored, g.dtype))
    axis = primitive.attributes["axis"]
    return [build.emit("ScatterElements", [nothing, indices, g], x.stored, g.dtype, axis=axis, reduction="add"), None]


def top_k_torch(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    """A stable sort: of equal entries the first comes first, as in onnxruntime."""
    x, k = inputs
    axis = attributes["axis"]
    values, indices = x.sort(dim=axis, descending=bool(attributes["largest"]), stable=True)
    count = int(k.item())
    return values.narrow(axis, 0, count), indices.narrow(axis, 0, count)


def lower_cumulative(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x = operands[0]
    if not isinstance(x, Value):
        raise UnsupportedError("the axis depends on the input")
    (axis,) = integers(operands[1], "the axis")
    y = build.emit(
        "CumSum",
        [build.sample(x), np.array(axis % len(x.shape) + 1)],
        x.shape,
        exclusive=int(node.attributes.get("exclusive", 0)),
        reverse=int(node.attributes.get("reverse", 0)),
    )
    return [y]


def cumulative_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """The sum from the other end."""
    (g,) = gradients
    assert g is not None
    attributes = {**primitive.attributes, "reverse": 1 - primitive.attributes["reverse"]}
    axis = build.program.constants[primitive.inputs[1]]
    return [build.emit("CumSum", [g, axis], g.stored, lead=g.lead, **attributes), None]


def cumulative_torch(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    x, axis = inputs[0], int(inputs[1].item())
    turned = x.flip(axis) if attributes["reverse"] else x
    total = turned.cumsum(axis, dtype=x.dtype)
    if attributes["exclusive"]:
        total = total - turned
    return (total.flip(axis) if attributes["reverse"] else total,)


LOWERINGS = {
    "ArgMax": lower_arg,
    "ArgMin": lower_arg,
    "TopK": lower_top_k,
    "CumSum": lower_cumulative,
}
PRIMITIVES = {
    "ArgMax": PrimitiveRule(lambda inputs, attributes: _arg_torch(inputs, attributes, True), lambda *_: [None]),
    "ArgMin": PrimitiveRule(lambda inputs, attributes: _arg_torch(inputs, attributes, False), lambda *_: [None]),
    "TopK": PrimitiveRule(top_k_torch, top_k_adjoint),
    "CumSum": PrimitiveRule(cumulative_torch, cumulative_adjoint),
}
