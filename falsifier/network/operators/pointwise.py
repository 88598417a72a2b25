"""Relu, LeakyRelu, the four arithmetic operations, Neg and Identity: the model of an operator file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Gradients, Node, PrimitiveRule
from falsifier.network.operators.elementwise import leak
from falsifier.network.program import Builder, Operand, Primitive, Value

_NARROW = 64  # units


def lower_unary(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """A pointwise node of one operand keeps whatever view its operand is stored in."""
    x = operands[0]
    assert isinstance(x, Value)
    y = build.emit(node.op, [x], x.stored, lead=x.lead, **node.attributes)
    return [build.shaped(y, x.shape)]


def lower_identity(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    return [operands[0]]


def lower_dropout(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """Identity at inference, and where nothing is dropped; with a mask, which before opset 12 is one of zeros."""
    x = operands[0]
    assert isinstance(x, Value)
    ratio, training = (*operands[1:], None, None)[:2]
    none_dropped = isinstance(ratio, np.ndarray) and not ratio.any()
    if training is not None and not none_dropped and not (isinstance(training, np.ndarray) and not training.any()):
        raise UnsupportedError("Dropout in training mode is random")
    mask = np.full(x.shape, node.version >= 12, dtype=bool if node.version >= 10 else x.dtype)
    results: list[Operand] = [x, mask]
    return results[: len(node.outputs)]


def lower_binary(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    a, b = operands
    assert a is not None
    assert b is not None
    if _is_neutral(node.op, b, a):
        return [a]
    if node.op in ("Add", "Mul") and _is_neutral(node.op, a, b):
        return [b]
    return [build.elementwise(node.op, [a, b])]


def _is_neutral(op: str, constant: Operand, other: Operand) -> bool:
    """Whether a scalar constant leaves the other operand as it is: + 0, * 1 (what exporters leave behind)."""
    if not isinstance(constant, np.ndarray) or constant.size != 1 or other is None or constant.ndim > len(other.shape):
        return False
    return bool(constant.item() == (0 if op in ("Add", "Sub") else 1))


def relu_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """g where y > 0. The comparison and the cast are 4 times faster than Sign in onnxruntime.

    Of a layer so narrow that all of it may be off at once, next to nothing of g passes elsewhere: its mask is a steep
    line, which takes no longer.
    """
    (g,) = gradients
    assert g is not None
    y = build.program.values[primitive.outputs[0]]
    if y.size > _NARROW or y.lead > 1:
        mask = _positive(build, y)
    else:
        steep = build.emit("Mul", [y, np.array(np.finfo(y.dtype).max, y.dtype)], y.stored)
        mask = build.emit("Clip", [steep, leak(y.dtype), np.ones((), y.dtype)], y.stored)
    return [build.emit("Mul", [g, mask], mask.stored, lead=mask.lead)]


def leaky_relu_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """g where x > 0, alpha * g elsewhere."""
    (g,) = gradients
    assert g is not None
    mask = _positive(build, build.program.values[primitive.inputs[0]])
    alpha = np.array(primitive.attributes.get("alpha", 0.01), dtype=mask.dtype)
    rise = build.emit("Mul", [mask, 1 - alpha], mask.stored, lead=mask.lead)
    slope = build.emit("Add", [rise, alpha], mask.stored, lead=mask.lead)
    return [build.emit("Mul", [g, slope], mask.stored, lead=mask.lead)]


def _positive(build: Builder, x: Value) -> Value:
    """1 where x > 0, else 0."""
    above = build.emit("Greater", [x, np.zeros((), x.dtype)], x.stored, np.bool_, lead=x.lead)
    return build.cast(above, x.dtype)


def neg_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    (g,) = gradients
    assert g is not None
    return [build.emit("Neg", [g], g.stored, lead=g.lead)]


def identity_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    return gradients


def add_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    (g,) = gradients
    assert g is not None
    return [_to(build, name, g) for name in primitive.inputs]


def sub_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    (g,) = gradients
    assert g is not None
    a, b = primitive.inputs
    if b not in build.program.values:
        return [_to(build, a, g), None]
    return [_to(build, a, g), _to(build, b, build.emit("Neg", [g], g.stored, lead=g.lead))]


def mul_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    (g,) = gradients
    assert g is not None
    results: list[Value | None] = []
    for name, other in (primitive.inputs, primitive.inputs[::-1]):
        partial = None
        if name in build.program.values:
            partial = _to(build, name, build.emit("Mul", [g, _operand(build, other)], g.stored, lead=g.lead))
        results.append(partial)
    return results


def div_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """a / b: g / b for a, -(g / b) * y for b."""
    (g,) = gradients
    assert g is not None
    a, b = primitive.inputs
    part = build.emit("Div", [g, _operand(build, b)], g.stored, lead=g.lead)
    if b not in build.program.values:
        return [_to(build, a, part), None]
    y = build.program.values[primitive.outputs[0]]
    slope = build.emit("Neg", [build.emit("Mul", [part, y], g.stored, lead=g.lead)], g.stored, lead=g.lead)
    return [_to(build, a, part), _to(build, b, slope)]


def _operand(build: Builder, name: str) -> Operand:
    return build.program.values.get(name, build.program.constants.get(name))


def _to(build: Builder, name: str, gradient: Value) -> Value | None:
    """The gradient summed to the shape of the operand called `name`; None for a constant."""
    value = build.program.values.get(name)
    return None if value is None else build.sum_to(gradient, value.stored)


def torch_div(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    """Integers divide towards zero, as in ONNX."""
    a, b = inputs
    if not a.is_floating_point():
        import torch

        return (torch.div(a, b, rounding_mode="trunc"),)
    return (a / b,)


def torch_leaky_relu(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    import torch

    return (torch.nn.functional.leaky_relu(inputs[0], attributes.get("alpha", 0.01)),)


LOWERINGS = {
    "Relu": lower_unary,
    "LeakyRelu": lower_unary,
    "Neg": lower_unary,
    "Identity": lower_identity,
    "Dropout": lower_dropout,
    "Add": lower_binary,
    "Sub": lower_binary,
    "Mul": lower_binary,
    "Div": lower_binary,
}
PRIMITIVES = {
    "Relu": PrimitiveRule(lambda inputs, attributes: (inputs[0].relu(),), relu_adjoint),
    "LeakyRelu": PrimitiveRule(torch_leaky_relu, leaky_relu_adjoint),
    "Neg": PrimitiveRule(lambda inputs, attributes: (-inputs[0],), neg_adjoint),
    "Identity": PrimitiveRule(lambda inputs, attributes: (inputs[0],), identity_adjoint),
    "Add": PrimitiveRule(lambda inputs, attributes: (inputs[0] + inputs[1],), add_adjoint),
    "Sub": PrimitiveRule(lambda inputs, attributes: (inputs[0] - inputs[1],), sub_adjoint),
    "Mul": PrimitiveRule(lambda inputs, attributes: (inputs[0] * inputs[1],), mul_adjoint),
    "Div": PrimitiveRule(torch_div, div_adjoint),
}
