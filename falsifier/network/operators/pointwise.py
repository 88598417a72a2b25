"""Relu, the model of an operator file: lowering, adjoint and torch closure side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from falsifier.network.operators import Gradients, Node, PrimitiveRule
from falsifier.network.program import Builder, Operand, Primitive, Value


def lower_unary(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """A pointwise node keeps whatever view its operand is stored in."""
    (x,) = operands
    assert isinstance(x, Value)
    y = build.emit(node.op, [x], x.stored, lead=x.lead)
    return [build.shaped(y, x.shape)]


def relu_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """g * Sign(y): y is never negative, so the sign is the derivative (0 at 0)."""
    (g,) = gradients
    assert g is not None
    y = build.program.values[primitive.outputs[0]]
    mask = build.emit("Sign", [y], y.stored, lead=y.lead)
    return [build.emit("Mul", [g, mask], y.stored, lead=y.lead)]


def relu_torch(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    return (inputs[0].relu(),)


LOWERINGS = {"Relu": lower_unary}
PRIMITIVES = {"Relu": PrimitiveRule(relu_torch, relu_adjoint)}
