"""Softmax, LogSoftmax and Hardmax along one axis, or over the flattened trailing axes before opset 13."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Gradients, Node, PrimitiveRule
from falsifier.network.operators.elementwise import elementwise, leak, sole_gradient
from falsifier.network.operators.reduction import aligned
from falsifier.network.program import Builder, Operand, Primitive, Value


def lower_softmax(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x = operands[0]
    assert isinstance(x, Value)
    flattened = node.version < 13
    rank = len(x.shape)
    axis = int(node.attributes.get("axis", 1 if flattened else -1))
    if rank == 0:
        axis = 0
    elif not -rank <= axis <= rank - (not flattened):
        raise UnsupportedError(f"{node.op} over axis {axis} of a tensor with {rank} axes")
    axis += rank if axis < 0 else 0
    length = prod(x.shape[axis:])
    if rank == 0 or (flattened and (length != x.shape[-1] or axis < rank - 1)):
        view, array_axis = build.view(x, (x.size // length if length else 0, length)), -1
    elif axis == rank - 1 and x.stored and x.stored[-1] == x.shape[-1]:
        view, array_axis = x, -1  # any view that keeps the last axis
    else:
        view, offset = aligned(build, x)
        if axis + offset < 1:
            view, offset = build.sample(x), 1
        array_axis = axis + offset
    y = build.emit(node.op, [view], view.stored, lead=view.lead, axis=array_axis)
    return [build.shaped(y, x.shape)]


def _sum_along(build: Builder, x: Value, axis: int) -> Value:
    """Summed along an axis of the array, which stays with length 1."""
    axis = axis % (len(x.stored) + 1)
    stored = tuple(1 if i + 1 == axis else d for i, d in enumerate(x.stored))
    return build.emit("ReduceSum", [x, np.array([axis], dtype=np.int64)], stored, lead=x.lead, keepdims=1)


def _product(build: Builder, op: str, a: Value, b: Value) -> Value:
    """An elementwise primitive of a whole tensor and one that is 1 long along an axis, in the same lanes."""
    return build.emit(op, [a, b], a.stored, lead=a.lead)


def softmax_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """y * (g - sum(g * y)), with a y that never quite vanishes."""
    g = sole_gradient(build, gradients)
    y = build.program.values[primitive.outputs[0]]
    return [through_softmax(build, y, g, primitive.attributes["axis"])]


def through_softmax(build: Builder, y: Value, g: Value, axis: int) -> Value:
    """The gradient of what a softmax y along an axis of the array is of, from that of y."""
    y = elementwise(build, "Add", y, leak(y.dtype))
    mean = _sum_along(build, elementwise(build, "Mul", g, y), axis)
    return elementwise(build, "Mul", y, _product(build, "Sub", g, mean))


def log_softmax_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """g - exp(y) * sum(g)."""
    g = sole_gradient(build, gradients)
    y = build.program.values[primitive.outputs[0]]
    total = _sum_along(build, g, primitive.attributes["axis"])
    return [elementwise(build, "Sub", g, _product(build, "Mul", elementwise(build, "Exp", y), total))]


def hardmax_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """Piecewise constant: the gradient of Softmax stands in, straight through."""
    g = sole_gradient(build, gradients)
    x = build.program.values[primitive.inputs[0]]
    axis = primitive.attributes["axis"]
    soft = build.emit("Softmax", [x], x.stored, lead=x.lead, axis=axis)
    return [through_softmax(build, soft, g, axis)]


def torch_softmax(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    return (inputs[0].softmax(attributes["axis"]),)


def torch_log_softmax(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    return (inputs[0].log_softmax(attributes["axis"]),)


def torch_hardmax(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    """1 at the first largest element."""
    import torch

    (x,) = inputs
    axis = attributes["axis"]
    first = x.argmax(axis, keepdim=True)
    return (torch.zeros_like(x).scatter(axis, first, 1.0),)


LOWERINGS = dict.fromkeys(["Softmax", "LogSoftmax", "Hardmax"], lower_softmax)
PRIMITIVES = {
    "Hardmax": PrimitiveRule(torch_hardmax, hardmax_adjoint),
    "LogSoftmax": PrimitiveRule(torch_log_softmax, log_softmax_adjoint),
    "Softmax": PrimitiveRule(torch_softmax, softmax_adjoint),
}
