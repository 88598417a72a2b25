"""Comparisons, logic, Where, tests for NaN and infinity, and bitwise operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Gradients, Node, PrimitiveRule
from falsifier.network.operators.elementwise import (
    elementwise,
    gradient_to,
    masked,
    operand_named,
    present,
    sole_gradient,
    where,
)
from falsifier.network.operators.straight_through import pass_gradient
from falsifier.network.program import Builder, Operand, Primitive, Value

Closure = Callable[[Sequence[Any], dict[str, Any]], tuple[Any, ...]]


def lower_predicate(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """Elementwise with a bool result: comparisons, And, Or, Xor, Not, IsNaN, IsInf."""
    tensors = present(operands)
    if any(v.dtype.kind not in "biuf" for v in tensors):
        raise UnsupportedError(f"{node.op} of {tensors[0].dtype} is not supported")
    return [build.elementwise(node.op, tensors, np.bool_, **node.attributes)]


def lower_bitwise(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    tensors = present(operands)
    if node.op == "BitShift" and tensors[0].dtype.kind != "u":
        raise UnsupportedError(f"BitShift of {tensors[0].dtype}: onnxruntime shifts unsigned integers only")
    return [build.elementwise(node.op, tensors, **node.attributes)]


def lower_where(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """A constant condition that is the same everywhere chooses now; bool branches are logic."""
    condition, a, b = present(operands)
    if isinstance(condition, np.ndarray) and condition.size and (condition.all() or not condition.any()):
        chosen = a if condition.all() else b
        if chosen.shape == np.broadcast_shapes(condition.shape, a.shape, b.shape):
            return [chosen]
    if a.dtype == np.bool_ and isinstance(condition, Value):
        first = build.elementwise("And", [condition, a])
        refused = build.elementwise("Not", [condition])
        return [build.elementwise("Or", [first, build.elementwise("And", [refused, b])])]
    if isinstance(condition, Value) and isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.dtype.kind == "f":
        finite = bool(np.isfinite(a).all() and np.isfinite(b).all())
        step = a - b if finite else a
        if finite and (step + b == a).all():  # a step function: as a cast it has a straight-through gradient
            return [elementwise(build, "Add", elementwise(build, "Mul", build.cast(condition, a.dtype), step), b)]
    return [where(build, condition, a, b, a.dtype)]


def where_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """To the branch that was taken."""
    g = sole_gradient(build, gradients)
    condition, a, b = (operand_named(build, name) for name in primitive.inputs)
    to_a = masked(build, condition, g)
    results: list[Value | None] = [None, None, None]
    if isinstance(a, Value):
        results[1] = gradient_to(build, primitive.inputs[1], to_a)
    if isinstance(b, Value):
        results[2] = gradient_to(build, primitive.inputs[2], elementwise(build, "Sub", g, to_a))
    return results


def order_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """a > b is (1 + Sign(a - b)) / 2: half the gradient passes straight through to a, and back from b."""
    g = sole_gradient(build, gradients)
    a, b = (operand_named(build, name) for name in primitive.inputs)
    difference = elementwise(build, "Sub", a, b)
    passed = pass_gradient(build, Primitive("Sign", (difference.name,), ()), elementwise(build, "Mul", g, 0.5))
    refused = elementwise(build, "Neg", passed)
    rises, falls = (passed, refused) if primitive.op.startswith("Greater") else (refused, passed)
    return [gradient_to(build, name, part) for name, part in zip(primitive.inputs, (rises, falls), strict=True)]


def no_gradient(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    return [None for _ in primitive.inputs]


def torch_function(name: str) -> Closure:
    """The closure that calls `torch.<name>` on the inputs."""

    def closure(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
        import torch

        return (getattr(torch, name)(*inputs),)

    return closure


def torch_where(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    import torch

    return (torch.where(*inputs),)


def torch_is_inf(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    (x,) = inputs
    found = x.isinf()
    if not attributes.get("detect_positive", 1):
        found = found & (x < 0)
    if not attributes.get("detect_negative", 1):
        found = found & (x > 0)
    return (found,)


def torch_shift(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    """Through int64, since torch shifts few unsigned types; the bits beyond the type are dropped on the way back."""
    x, by = (v.to(_int64()) for v in inputs)
    shifted = x << by if attributes["direction"] in ("LEFT", b"LEFT") else x >> by
    return (shifted.to(inputs[0].dtype),)


def _int64() -> Any:
    import torch

    return torch.int64


_PREDICATES = {
    "And": "logical_and",
    "Equal": "eq",
    "IsNaN": "isnan",
    "Not": "logical_not",
    "Or": "logical_or",
    "Xor": "logical_xor",
}
_ORDERS = {"Greater": "gt", "GreaterOrEqual": "ge", "Less": "lt", "LessOrEqual": "le"}
_BITWISE = {
    "BitwiseAnd": "bitwise_and",
    "BitwiseNot": "bitwise_not",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
}

LOWERINGS = {
    **dict.fromkeys([*_PREDICATES, *_ORDERS, "IsInf"], lower_predicate),
    **dict.fromkeys([*_BITWISE, "BitShift"], lower_bitwise),
    "Where": lower_where,
}
PRIMITIVES = {
    **{op: PrimitiveRule(torch_function(name), no_gradient) for op, name in {**_PREDICATES, **_BITWISE}.items()},
    **{op: PrimitiveRule(torch_function(name), order_adjoint) for op, name in _ORDERS.items()},
    "BitShift": PrimitiveRule(torch_shift, no_gradient),
    "IsInf": PrimitiveRule(torch_is_inf, no_gradient),
    "Where": PrimitiveRule(torch_where, where_adjoint),
}
