"""Reductions over axes of the sample. The axes are kept in what is stored, so that gradients broadcast back."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Gradients, Node, PrimitiveRule
from falsifier.network.operators.elementwise import compare, elementwise, sole_gradient, where
from falsifier.network.program import Builder, Operand, Primitive, Shape, Value


def aligned(build: Builder, x: Value) -> tuple[Value, int]:
    """A view in which axis i of the sample is axis i + offset of the array, and that offset.

    Leading axes of length 1 may be missing in what is stored (their array axis would be 0 or less).
    """
    missing = len(x.shape) - len(x.stored)
    if x.lead == 1 and missing >= 0 and x.stored == x.shape[missing:]:
        return x, 1 - missing
    return build.sample(x), 1


def reduced(build: Builder, op: str, x: Value, axes: Sequence[int]) -> Value:
    """The primitive `op` over `axes` (not negative) of the sample, which stay with length 1."""
    shape = tuple(1 if i in axes else d for i, d in enumerate(x.shape))
    view, offset = aligned(build, x)
    chosen = [i + offset for i in sorted(set(axes)) if i + offset > 0]
    if not chosen:
        return x
    stored = tuple(1 if i + 1 in chosen else d for i, d in enumerate(view.stored))
    result = build.emit(op, [view, np.array(chosen, dtype=np.int64)], stored, keepdims=1)
    return build.shaped(result, shape)


def mean_over(build: Builder, x: Value, axes: Sequence[int]) -> Value:
    return reduced(build, "ReduceMean", x, axes)


def sum_over(build: Builder, x: Value, axes: Sequence[int]) -> Value:
    return reduced(build, "ReduceSum", x, axes)


def normalise_axes(axes: Sequence[int], rank: int) -> list[int]:
    """Axes counted from the front. Raises UnsupportedError for one that does not exist."""
    if any(not -rank <= i < rank for i in axes):
        raise UnsupportedError(f"axes {list(axes)} of a tensor with {rank} axes")
    return sorted({i % rank for i in axes})


def _axes(node: Node, operands: Sequence[Operand], x: Value) -> list[int]:
    rank = len(x.shape)
    operand = operands[1] if len(operands) > 1 else None
    if isinstance(operand, Value):
        raise UnsupportedError(f"{node.op} over axes that depend on the input")
    given = node.attributes.get("axes", []) if operand is None else [int(i) for i in operand.reshape(-1)]
    if not given and not node.attributes.get("noop_with_empty_axes", 0):
        return list(range(rank))
    return normalise_axes(given, rank)


def lower_reduce(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """Axes as attribute or as input. Over no axes the elementwise part of a composite reduction is still done."""
    x = operands[0]
    assert isinstance(x, Value)
    if node.op in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp") and not np.issubdtype(x.dtype, np.floating):
        raise UnsupportedError(f"{node.op} of integers is not supported")
    axes = _axes(node, operands, x)
    result = _reduce(build, node.op, x, axes)
    if node.attributes.get("keepdims", 1):
        return [result]
    return [build.shaped(result, tuple(d for i, d in enumerate(x.shape) if i not in axes))]


def _reduce(build: Builder, op: str, x: Value, axes: Sequence[int]) -> Value:
    if op == "ReduceL1":
        return sum_over(build, elementwise(build, "Abs", x), axes)
    if op == "ReduceSumSquare":
        return sum_over(build, squared(build, x), axes)
    if op == "ReduceL2":
        return elementwise(build, "Sqrt", sum_over(build, squared(build, x), axes))
    if op == "ReduceLogSum":
        return elementwise(build, "Log", sum_over(build, x, axes))
    return reduced(build, op, x, axes)


def squared(build: Builder, x: Value) -> Value:
    return elementwise(build, "Pow", x, 2.0)


def repeated(build: Builder, gradient: Value, stored: Shape) -> Value:
    """A gradient repeated over the axes on which `stored` is longer."""
    if gradient.stored == stored:
        return gradient
    shape = np.array([1, *stored], dtype=np.int64)
    return build.emit("Expand", [gradient, shape], stored, lead=gradient.lead)


def mean_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    g = sole_gradient(build, gradients)
    x = build.program.values[primitive.inputs[0]]
    y = build.program.values[primitive.outputs[0]]
    share = elementwise(build, "Mul", g, prod(y.stored) / max(prod(x.stored), 1))
    return [repeated(build, share, x.stored), None]


def extremum_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """In equal parts to the elements that equal the extremum."""
    g = sole_gradient(build, gradients)
    x = build.program.values[primitive.inputs[0]]
    y = build.program.values[primitive.outputs[0]]
    axes = build.program.constants[primitive.inputs[1]]
    found = build.cast(compare(build, "Equal", x, y), g.dtype)
    count = build.emit("ReduceSum", [found, axes], y.stored, keepdims=1)
    return [elementwise(build, "Mul", elementwise(build, "Div", g, count), found), None]


def product_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """The product of the others: y / x; where one element is 0, the product of the rest to it and 0 to the rest."""
    g = sole_gradient(build, gradients)
    x = build.program.values[primitive.inputs[0]]
    y = build.program.values[primitive.outputs[0]]
    axes = build.program.constants[primitive.inputs[1]]
    is_zero = compare(build, "Equal", x, 0.0)
    filled = where(build, is_zero, 1.0, x, x.dtype)
    rest = build.emit("ReduceProd", [filled, axes], y.stored, keepdims=1)
    counted = where(build, is_zero, np.ones((), dtype=x.dtype), 0.0, x.dtype)
    zeros = build.emit("ReduceSum", [counted, axes], y.stored, keepdims=1)
    no_other_zero = compare(build, "Equal", zeros, counted)
    slope = where(build, no_other_zero, elementwise(build, "Div", rest, filled), 0.0, x.dtype)
    return [elementwise(build, "Mul", g, slope), None]


def log_sum_exp_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """exp(x - y)."""
    g = sole_gradient(build, gradients)
    x = build.program.values[primitive.inputs[0]]
    y = build.program.values[primitive.outputs[0]]
    return [elementwise(build, "Mul", g, elementwise(build, "Exp", elementwise(build, "Sub", x, y))), None]


def _axes_of(inputs: Sequence[Any]) -> list[int]:
    axes: list[int] = inputs[1].tolist()
    return axes


def torch_mean(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    x, axes = inputs[0], _axes_of(inputs)
    if x.is_floating_point():
        return (x.mean(axes, keepdim=True),)
    import torch

    count = prod(x.shape[i] for i in axes)
    return (torch.div(x.sum(axes, keepdim=True), count, rounding_mode="trunc").to(x.dtype),)


def torch_max(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    return (inputs[0].amax(_axes_of(inputs), keepdim=True),)


def torch_min(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    return (inputs[0].amin(_axes_of(inputs), keepdim=True),)


def torch_prod(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    x = inputs[0]
    for axis in _axes_of(inputs):
        x = x.prod(axis, keepdim=True)
    return (x.to(inputs[0].dtype),)


def torch_log_sum_exp(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    return (inputs[0].logsumexp(_axes_of(inputs), keepdim=True),)


_OPERATORS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
LOWERINGS = {f"Reduce{name}": lower_reduce for name in _OPERATORS}
PRIMITIVES = {
    "ReduceLogSumExp": PrimitiveRule(torch_log_sum_exp, log_sum_exp_adjoint),
    "ReduceMax": PrimitiveRule(torch_max, extremum_adjoint),
    "ReduceMean": PrimitiveRule(torch_mean, mean_adjoint),
    "ReduceMin": PrimitiveRule(torch_min, extremum_adjoint),
    "ReduceProd": PrimitiveRule(torch_prod, product_adjoint),
}
