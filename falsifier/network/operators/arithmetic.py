"""Pow, Mod, Min, Max, Sum, Mean and Clip."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Gradients, Node, PrimitiveRule
from falsifier.network.operators.elementwise import (
    Tensor,
    clip,
    combine,
    compare,
    elementwise,
    gradient_to,
    masked,
    operand_named,
    present,
    smallest_divisor,
    sole_gradient,
)
from falsifier.network.program import Builder, Operand, Primitive, Value


def fold(build: Builder, op: str, operands: Sequence[Tensor]) -> Value:
    """`op` over the operands from the left, two at a time."""
    result = reduce(lambda a, b: combine(build, op, a, b), operands)
    assert isinstance(result, Value)
    return result


def lower_fold(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """Min, Max, Sum of any number of operands."""
    tensors = present(operands)
    if len(tensors) == 1:
        return [tensors[0]]
    op, dtype = "Add" if node.op == "Sum" else node.op, tensors[0].dtype
    if op != "Add" and dtype.name in ("int16", "uint16"):  # onnxruntime has no kernel for these
        wide = [build.cast(v, np.int32) if isinstance(v, Value) else v.astype(np.int32) for v in tensors]
        return [build.cast(fold(build, op, wide), dtype)]
    return [fold(build, op, tensors)]


def lower_mean(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    tensors = present(operands)
    if len(tensors) == 1:
        return [tensors[0]]
    return [elementwise(build, "Div", fold(build, "Add", tensors), float(len(tensors)))]


def lower_clip(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """Constant bounds stay one primitive; bounds that depend on the inputs become Max, then Min."""
    x = operands[0]
    if node.version < 11:
        assert isinstance(x, Value)
        return [clip(build, x, node.attributes.get("min"), node.attributes.get("max"))]
    low, high = ([*operands[1:], None, None])[:2]
    if isinstance(x, Value) and not isinstance(low, Value) and not isinstance(high, Value):
        return [clip(build, x, low, high)]
    for op, bound in (("Max", low), ("Min", high)):
        if bound is not None:
            assert x is not None
            x = combine(build, op, x, bound)
    return [x]


def lower_pow(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    base, exponent = operands
    assert base is not None
    assert exponent is not None
    if not np.issubdtype(base.dtype, np.floating):
        return [build.elementwise("Pow", [base, exponent], base.dtype)]
    if isinstance(exponent, Value):
        return [build.elementwise("Pow", [base, build.cast(exponent, base.dtype)])]
    assert isinstance(base, Value)
    exponent = exponent.astype(base.dtype)
    if exponent.size == 1 and exponent.ndim <= len(base.shape):
        if exponent.item() == 1.0:
            return [base]
        cheaper = {0.5: "Sqrt", -1.0: "Reciprocal"}.get(exponent.item())
        if cheaper is not None:
            return [elementwise(build, cheaper, base)]
    return [build.elementwise("Pow", [base, exponent])]


def lower_mod(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    a, b = present(operands)
    fmod = int(node.attributes.get("fmod", 0))
    if not fmod and np.issubdtype(a.dtype, np.floating):
        raise UnsupportedError("Mod of floating point numbers without fmod=1 is not defined by ONNX")
    return [build.elementwise("Mod", [a, b], fmod=fmod)]


def extremum_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """To the operand that won; to the first Value where both are equal, so that a clipped one can move back."""
    g = sole_gradient(build, gradients)
    a, b = primitive.inputs
    if a == b:
        return [g, None]
    first, second = (a, b) if a in build.program.values else (b, a)
    order = "GreaterOrEqual" if primitive.op == "Max" else "LessOrEqual"
    wins = compare(build, order, operand_named(build, first), operand_named(build, second))
    won = masked(build, wins, g)
    parts = {first: gradient_to(build, first, won)}
    if second in build.program.values:
        parts[second] = gradient_to(build, second, elementwise(build, "Sub", g, won))
    return [parts.get(a), parts.get(b)]


def clip_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """To operands that the bounds left as they are."""
    g = sole_gradient(build, gradients)
    x = build.program.values[primitive.inputs[0]]
    y = build.program.values[primitive.outputs[0]]
    return [masked(build, compare(build, "Equal", x, y), g), None, None][: len(primitive.inputs)]


def pow_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """e * x^(e - 1) to the base, y * log x to the exponent; finite at x = 0."""
    g = sole_gradient(build, gradients)
    x, e = (operand_named(build, name) for name in primitive.inputs)
    to_base = to_exponent = None
    if not np.issubdtype(x.dtype, np.floating):  # an integer base makes an integer result
        return [None, None]
    if isinstance(x, Value):
        slope = elementwise(build, "Mul", _power_below(build, x, e), e)
        to_base = gradient_to(build, primitive.inputs[0], elementwise(build, "Mul", g, slope))
    if isinstance(e, Value):
        y = build.program.values[primitive.outputs[0]]
        least = smallest_divisor(x.dtype)
        log: Tensor
        if isinstance(x, Value):
            log = elementwise(build, "Log", elementwise(build, "Max", x, least))
        else:
            log = np.log(np.maximum(x, least))
        slope = elementwise(build, "Mul", y, log)
        to_exponent = gradient_to(build, primitive.inputs[1], elementwise(build, "Mul", g, slope))
    return [to_base, to_exponent]


def _power_below(build: Builder, x: Value, e: Tensor) -> Value:
    """x^(e - 1)."""
    if isinstance(e, np.ndarray) and e.size == 1 and e.item() in (2.0, 3.0):
        return x if e.item() == 2.0 else elementwise(build, "Mul", x, x)
    below = e - 1 if isinstance(e, np.ndarray) else elementwise(build, "Sub", e, 1.0)
    power = build.elementwise("Pow", [x, below], x.dtype)
    if isinstance(e, np.ndarray) and (e >= 1).all():
        return power
    limit = 1 / smallest_divisor(x.dtype)
    return clip(build, power, -limit, limit)


def mod_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """a - b * trunc(a / b): 1 to a, -trunc(a / b) to b."""
    g = sole_gradient(build, gradients)
    a, b = (operand_named(build, name) for name in primitive.inputs)
    to_divisor = None
    if isinstance(b, Value):
        quotient = elementwise(build, "Div", a, b)
        size = elementwise(build, "Floor", elementwise(build, "Abs", quotient))
        whole = elementwise(build, "Mul", size, elementwise(build, "Sign", quotient))
        to_divisor = gradient_to(
            build, primitive.inputs[1], elementwise(build, "Neg", elementwise(build, "Mul", g, whole))
        )
    return [gradient_to(build, primitive.inputs[0], g), to_divisor]


def torch_extremum(name: str) -> Any:
    def closure(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
        import torch

        return (getattr(torch, name)(*inputs),)

    return closure


def torch_clip(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    x, low, high = (*inputs, None, None)[:3]
    return (x.clamp(low, high),)


def torch_pow(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    """The result has the type of the base; integers to a fractional power go through float64."""
    base, exponent = inputs
    if base.is_floating_point() or not exponent.is_floating_point():
        return (base.pow(exponent.to(base.dtype)),)
    return (base.double().pow(exponent.double()).to(base.dtype),)


def torch_mod(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    """fmod has the sign of the dividend, the integer modulus that of the divisor."""
    a, b = inputs
    return (a.fmod(b) if attributes.get("fmod", 0) else a.remainder(b),)


LOWERINGS = {
    "Clip": lower_clip,
    "Max": lower_fold,
    "Mean": lower_mean,
    "Min": lower_fold,
    "Mod": lower_mod,
    "Pow": lower_pow,
    "Sum": lower_fold,
}
PRIMITIVES = {
    "Clip": PrimitiveRule(torch_clip, clip_adjoint),
    "Max": PrimitiveRule(torch_extremum("maximum"), extremum_adjoint),
    "Min": PrimitiveRule(torch_extremum("minimum"), extremum_adjoint),
    "Mod": PrimitiveRule(torch_mod, mod_adjoint),
    "Pow": PrimitiveRule(torch_pow, pow_adjoint),
}
