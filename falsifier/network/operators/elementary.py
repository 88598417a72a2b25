"""Elementwise functions of one operand with a derivative: the elementary functions and the smooth activations.

Each is one primitive: its torch closure, and its slope as primitives of the operand x and the result y. Slopes stay
finite where the true derivative is not (Sqrt at 0, Asin at 1), so that a gradient of 0 that arrives there stays 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from falsifier.network.operators import Adjoint, Gradients, PrimitiveRule
from falsifier.network.operators.elementwise import clip, compare, elementwise, leak, smallest_divisor, sole_gradient
from falsifier.network.operators.pointwise import lower_unary
from falsifier.network.program import Builder, Primitive, Value

Slope = Callable[[Builder, Primitive, Value, Value], Value]
"""(builder, primitive, x, y) -> dy/dx, stored as x is."""


def adjoint_of(slope: Slope) -> Adjoint:
    """gradient * slope."""

    def adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
        g = sole_gradient(build, gradients)
        x = build.program.values[primitive.inputs[0]]
        y = build.program.values[primitive.outputs[0]]
        return [elementwise(build, "Mul", g, slope(build, primitive, x, y))]

    return adjoint


def _divided(build: Builder, numerator: float, divisor: Value) -> Value:
    """numerator / divisor for a divisor that is not negative, and never less than the smallest divisor."""
    return elementwise(build, "Div", numerator, elementwise(build, "Max", divisor, smallest_divisor(divisor.dtype)))


def _sign(build: Builder, primitive: Primitive, x: Value, y: Value) -> Value:
    """The sign, as a steep line within [-1, 1]: 3 times faster than Sign in onnxruntime."""
    return clip(build, elementwise(build, "Mul", x, np.finfo(x.dtype).max), -1.0, 1.0)


def _sqrt(build: Builder, primitive: Primitive, x: Value, y: Value) -> Value:
    return _divided(build, 0.5, y)


def _exp(build: Builder, primitive: Primitive, x: Value, y: Value) -> Value:
    """y, but finite where it overflowed: 1 / (1 + exp(-x)) has slope 0 there, and not 0 * infinity."""
    return elementwise(build, "Min", y, np.finfo(y.dtype).max)


def _log(build: Builder, primitive: Primitive, x: Value, y: Value) -> Value:
    return _divided(build, 1.0, x)


def _reciprocal(build: Builder, primitive: Primitive, x: Value, y: Value) -> Value:
    return elementwise(build, "Neg", elementwise(build, "Mul", y, y))


def _sin(build: Builder, primitive: Primitive, x: Value, y: Value) -> Value:
    return elementwise(build, "Cos", x)


def _cos(build: Builder, primitive: Primitive, x: Value, y: Value) -> Value:
    return elementwise(build, "Neg", elementwise(build, "Sin", x))


def _tan(build: Builder, primitive: Primitive, x: Value, y: Value) -> Value:
    return elementwise(build, "Add", elementwise(build, "Mul", y, y), 1.0)


def _root_of_complement(build: Builder, x: Value) -> Value:
    """sqrt(1 - x^2), and not NaN where rounding or a value beyond the domain makes it negative."""
    rest = elementwise(build, "Sub", 1.0, elementwise(build, "Mul", x, x))
    return elementwise(build, "Sqrt", elementwise(build, "Max", rest, smallest_divisor(x.dtype)))


def _asin(build: Builder, primitive: Primitive, x: Value, y: Value) -> Value:
    return elementwise(build, "Reciprocal", _root_of_complement(build, x))


def _acos(build: Builder, primitive: Primitive, x: Value, y: Value) -> Value:
    return elementwise(build, "Div", -1.0, _root_of_complement(build, x))


def _atan(build: Builder, primitive: Primitive, x: Value, y: Value) -> Value:
    return elementwise(build, "Reciprocal", elementwise(build, "Add", elementwise(build, "Mul", x, x), 1.0))


def _sinh(build: Builder, primitive: Primitive, x: Value, y: Value) -> Value:
    return elementwise(build, "Cosh", x)


def _cosh(build: Builder, primitive: Primitive, x: Value, y: Value) -> Value:
    return elementwise(build, "Sinh", x)


def _tanh(build: Builder, primitive: Primitive, x: Value, y: Value) -> Value:
    rest = elementwise(build, "Sub", 1.0, elementwise(build, "Mul", y, y))
    return elementwise(build, "Max", rest, leak(y.dtype))


def _asinh(build: Builder, primitive: Primitive, x: Value, y: Value) -> Value:
    squared = elementwise(build, "Add", elementwise(build, "Mul", x, x), 1.0)
    return elementwise(build, "Reciprocal", elementwise(build, "Sqrt", squared))


def _acosh(build: Builder, primitive: Primitive, x: Value, y: Value) -> Value:
    squared = elementwise(build, "Sub", elementwise(build, "Mul", x, x), 1.0)
    positive = elementwise(build, "Max", squared, smallest_divisor(x.dtype))
    return elementwise(build, "Reciprocal", elementwise(build, "Sqrt", positive))


def _atanh(build: Builder, primitive: Primitive, x: Value, y: Value) -> Value:
    return _divided(build, 1.0, elementwise(build, "Sub", 1.0, elementwise(build, "Mul", x, x)))


def _erf(build: Builder, primitive: Primitive, x: Value, y: Value) -> Value:
    bell = elementwise(build, "Exp", elementwise(build, "Neg", elementwise(build, "Mul", x, x)))
    return elementwise(build, "Mul", bell, 2.0 / math.sqrt(math.pi))


def _sigmoid(build: Builder, primitive: Primitive, x: Value, y: Value) -> Value:
    rest = elementwise(build, "Mul", y, elementwise(build, "Sub", 1.0, y))
    return elementwise(build, "Max", rest, leak(y.dtype))


def _softsign(build: Builder, primitive: Primitive, x: Value, y: Value) -> Value:
    """(1 - |y|)^2, which is 1 / (1 + |x|)^2."""
    rest = elementwise(build, "Sub", 1.0, elementwise(build, "Abs", y))
    return elementwise(build, "Mul", rest, rest)


def _elu(build: Builder, primitive: Primitive, x: Value, y: Value) -> Value:
    """1 above 0; alpha * exp(x) = y + alpha below."""
    alpha = float(primitive.attributes.get("alpha", 1.0))
    below = elementwise(build, "Add", elementwise(build, "Min", y, 0.0), alpha)
    if alpha == 1.0:
        return below
    above = build.cast(compare(build, "Greater", x, 0.0), x.dtype)
    return elementwise(build, "Add", below, elementwise(build, "Mul", above, 1.0 - alpha))


def _call(name: str) -> Callable[[Sequence[Any], dict[str, Any]], tuple[Any, ...]]:
    """The torch closure that calls `torch.<name>` on the one input."""

    def closure(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
        import torch

        return (getattr(torch, name)(inputs[0]),)

    return closure


def _torch_softsign(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    (x,) = inputs
    return (x / (1 + x.abs()),)


def _torch_elu(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    import torch

    return (torch.nn.functional.elu(inputs[0], attributes.get("alpha", 1.0)),)


PRIMITIVES = {
    "Abs": PrimitiveRule(_call("abs"), adjoint_of(_sign)),
    "Acos": PrimitiveRule(_call("acos"), adjoint_of(_acos)),
    "Acosh": PrimitiveRule(_call("acosh"), adjoint_of(_acosh)),
    "Asin": PrimitiveRule(_call("asin"), adjoint_of(_asin)),
    "Asinh": PrimitiveRule(_call("asinh"), adjoint_of(_asinh)),
    "Atan": PrimitiveRule(_call("atan"), adjoint_of(_atan)),
    "Atanh": PrimitiveRule(_call("atanh"), adjoint_of(_atanh)),
    "Cos": PrimitiveRule(_call("cos"), adjoint_of(_cos)),
    "Cosh": PrimitiveRule(_call("cosh"), adjoint_of(_cosh)),
    "Elu": PrimitiveRule(_torch_elu, adjoint_of(_elu)),
    "Erf": PrimitiveRule(_call("erf"), adjoint_of(_erf)),
    "Exp": PrimitiveRule(_call("exp"), adjoint_of(_exp)),
    "Log": PrimitiveRule(_call("log"), adjoint_of(_log)),
    "Reciprocal": PrimitiveRule(_call("reciprocal"), adjoint_of(_reciprocal)),
    "Sigmoid": PrimitiveRule(_call("sigmoid"), adjoint_of(_sigmoid)),
    "Sin": PrimitiveRule(_call("sin"), adjoint_of(_sin)),
    "Sinh": PrimitiveRule(_call("sinh"), adjoint_of(_sinh)),
    "Softsign": PrimitiveRule(_torch_softsign, adjoint_of(_softsign)),
    "Sqrt": PrimitiveRule(_call("sqrt"), adjoint_of(_sqrt)),
    "Tan": PrimitiveRule(_call("tan"), adjoint_of(_tan)),
    "Tanh": PrimitiveRule(_call("tanh"), adjoint_of(_tanh)),
}
LOWERINGS = dict.fromkeys(PRIMITIVES, lower_unary)
