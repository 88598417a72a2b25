"""Emitting elementwise primitives, in lowering rules (on samples) and in adjoints (on what is stored) alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.network.program import Builder, Operand, Value

Tensor = Value | NDArray[Any]


def smallest_divisor(dtype: Any) -> NDArray[Any]:
    """What slopes divide by at least: its reciprocal, and a gradient times that, are far from overflow."""
    return np.asarray(np.sqrt(np.finfo(dtype).tiny), dtype=dtype)


def leak(dtype: Any) -> NDArray[Any]:
    """The least slope of an activation that saturates: lost in rounding beside any other, and all that is left where
    there is no other, so that the search still sees where to go.
    """
    kind = np.finfo(dtype)
    return np.asarray(max(float(kind.eps) / 128, float(kind.tiny)), dtype=dtype)


def elementwise(build: Builder, op: str, *operands: Tensor | float, dtype: Any = None) -> Value:
    """An elementwise primitive. Python numbers and arrays become constants of the type of the first Value."""
    kind = next(v.dtype for v in operands if isinstance(v, Value))
    return build.elementwise(op, [v if isinstance(v, Value) else np.asarray(v, dtype=kind) for v in operands], dtype)


def compare(build: Builder, op: str, a: Tensor | float, b: Tensor | float) -> Value:
    """A comparison, with a bool result."""
    return elementwise(build, op, a, b, dtype=np.bool_)


def combine(build: Builder, op: str, a: Tensor, b: Tensor) -> Tensor:
    """An elementwise primitive of two operands, or its result at once where both are constant."""
    if isinstance(a, Value) or isinstance(b, Value):
        return build.elementwise(op, [a, b])
    return _ON_CONSTANTS[op](a, b)


def where(build: Builder, condition: Tensor, a: Tensor | float, b: Tensor | float, dtype: Any) -> Value:
    """`a` where the condition holds, else `b`, in the element type `dtype`."""
    branches = [v if isinstance(v, Value) else np.asarray(v, dtype=dtype) for v in (a, b)]
    return build.elementwise("Where", [condition, *branches], dtype)


def masked(build: Builder, condition: Tensor, gradient: Value) -> Value:
    """The gradient where the condition holds, else 0: a product, 4 times faster than Where in onnxruntime.

    A gradient must be finite for this: slopes are kept so, see `smallest_divisor`.
    """
    if isinstance(condition, Value):
        return elementwise(build, "Mul", gradient, build.cast(condition, gradient.dtype))
    return elementwise(build, "Mul", gradient, condition)


def clip(build: Builder, x: Value, low: float | NDArray[Any] | None, high: float | NDArray[Any] | None) -> Value:
    """x within constant scalar bounds, each of which may be missing."""
    if low is None and high is None:
        return x
    bounds = [None if v is None else np.asarray(v, dtype=x.dtype).reshape(()) for v in (low, high)]
    return build.shaped(build.emit("Clip", [x, *bounds], x.stored, lead=x.lead), x.shape)


def present(operands: Sequence[Operand]) -> list[Tensor]:
    """The operands that are not omitted."""
    return [v for v in operands if v is not None]


def operand_named(build: Builder, name: str) -> Tensor:
    """What a primitive's input stands for."""
    value = build.program.values.get(name)
    return build.program.constants[name] if value is None else value


def sole_gradient(build: Builder, gradients: Sequence[Value | None]) -> Value:
    """The gradient of a primitive's one output, in the shape that is stored: adjoints work on arrays, not samples."""
    (g,) = gradients
    assert g is not None
    return build.shaped(g, g.stored)


def gradient_to(build: Builder, name: str, gradient: Value) -> Value | None:
    """The gradient summed to the shape of the elementwise operand called `name`; None for a constant."""
    value = build.program.values.get(name)
    return None if value is None else build.sum_to(gradient, value.stored)


_KEEPS_MASK = ("Add", "Cast", "Div", "Expand", "Identity", "Mul", "Neg", "Reshape", "Sub", "Tile", "Transpose")


def is_mask(build: Builder, name: str) -> bool:
    """Whether the value called `name`, perhaps scaled and shifted by constants, multiplies or divides another value."""
    values = build.program.values
    same = {name}
    for primitive in build.program.primitives:
        if primitive.op in _KEEPS_MASK and not same.isdisjoint(primitive.inputs):
            if primitive.op in ("Mul", "Div") and all(i in values for i in primitive.inputs):
                return True
            if sum(i in values for i in primitive.inputs) == 1:
                same.update(primitive.outputs)
    return False


_ON_CONSTANTS: dict[str, Callable[..., NDArray[Any]]] = {
    "Add": np.add,
    "Div": np.divide,
    "Max": np.maximum,
    "Min": np.minimum,
    "Mul": np.multiply,
    "Sub": np.subtract,
}
