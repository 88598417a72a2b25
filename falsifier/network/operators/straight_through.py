"""Straight-through gradients of operators whose derivative is zero: how search moves through Sign and its like."""

from __future__ import annotations

import numpy as np

from falsifier.network.program import Builder, Primitive, Value

_DISCRETE = ("Sign", "Round", "Floor", "Ceil", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
_KEEPS_VALUES = (
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Neg",
    "Reshape",
    "Transpose",
    "Identity",
    "Cast",
    "Where",
    "Abs",
    "MaxPool",
)


def pass_gradient(build: Builder, primitive: Primitive, gradient: Value) -> Value:
    """The gradient of the first input: `gradient` where abs(input) is at most the lane's width times its mean, else 0.

    The mean is over the lane's tensor, the width is the lane's `build.window`. An input that takes few values (a Sign
    behind a Sign) passes the gradient everywhere: a window around zero would be all or nothing there.
    """
    x = build.program.values[primitive.inputs[0]]
    if gradient.dtype != x.dtype:
        gradient = build.emit("Cast", [gradient], gradient.stored, x.dtype, lead=gradient.lead, to=x.dtype)
    if not np.issubdtype(x.dtype, np.floating) or takes_few_values(build, x.name):
        return gradient
    stored = x.stored if x.lead == 1 else (x.lead, *x.stored)
    magnitude = build.emit("Abs", [build.view(x, stored)], stored)
    axes = tuple(range(1, len(stored) + 1))
    one = (1,) * len(stored)
    mean = build.emit("ReduceMean", [magnitude, np.array(axes, dtype=np.int64)], one, keepdims=1) if axes else magnitude
    width = build.view(build.window(x.dtype), one)
    bound = build.emit("Mul", [mean, width], one)
    inside = build.emit("LessOrEqual", [magnitude, bound], stored, np.bool_)
    mask = build.emit("Cast", [inside], stored, x.dtype, to=x.dtype)
    return build.emit(
        "Mul", [gradient, build.view(mask, gradient.stored, gradient.lead)], gradient.stored, lead=gradient.lead
    )


def takes_few_values(build: Builder, name: str) -> bool:
    """Whether a tensor is an elementwise function, with scalar constants, of discrete values alone."""
    while (primitive := build.producer(name)) is not None:
        if primitive.op in _DISCRETE:
            return True
        if primitive.op not in _KEEPS_VALUES:
            return False
        constants = build.program.constants
        rest = [i for i in primitive.inputs if i in build.program.values]
        shared = all(constants[i].size == 1 for i in primitive.inputs if i in constants) or primitive.op in (
            "Reshape",
            "Transpose",
        )
        if len(rest) != 1 or not shared:
            return False
        name = rest[0]
    return False
