"""Reverse mode: the gradient of a program as more primitives of the same program."""

from __future__ import annotations

from collections.abc import Mapping

from falsifier.errors import UnsupportedError
from falsifier.network.operators import PRIMITIVES
from falsifier.network.program import WINDOW, Builder, Value, depending

_PLACING = {
    "Add", "Cast", "Concat", "DequantizeLinear", "Expand", "Gather", "GatherElements", "GatherND",
    "Identity", "MaxPool", "Neg", "Pad", "ReduceSum", "Reshape", "ScatterElements", "Slice",
    "Split", "Squeeze", "Sub", "Tile", "Transpose", "Unsqueeze",
}  # fmt: skip
"""Primitives through which a gradient passes even where the tensor is of integers: they place, scale or add elements,
so that their adjoints never multiply integers by it."""


def add_adjoint(build: Builder, seeds: Mapping[str, Value]) -> dict[str, Value]:
    """Append the gradient of the sum of seed * value over seeded values, by every program input that it reaches.

    `seeds`: by the name of a value, a gradient of the same stored shape. An input that is missing in the result has
    gradient zero. Raises UnsupportedError, naming the primitive, where one on the way has no adjoint.
    """
    program = build.program
    forward = list(program.primitives)
    inputs = [name for name in program.inputs if name != WINDOW]
    moving = depending(program, inputs)
    gradients: dict[str, Value] = dict(seeds)
    for primitive in reversed(forward):
        if gradients.keys().isdisjoint(primitive.outputs) or moving.isdisjoint(primitive.inputs):
            continue
        targets = [
            name in moving and (program.values[name].dtype.kind == "f" or primitive.op in _PLACING)
            for name in primitive.inputs
        ]
        if not any(targets):
            continue
        rule = PRIMITIVES.get(primitive.op)
        if rule is None or rule.adjoint is None:
            raise UnsupportedError(f"the primitive {primitive.op} has no adjoint")
        parts = rule.adjoint(build, primitive, [gradients.get(name) for name in primitive.outputs])
        for name, wanted, part in zip(primitive.inputs, targets, parts, strict=False):
            if not wanted or part is None:
                continue
            known = gradients.get(name)
            if known is not None:
                part = build.emit("Add", [known, part], part.stored, lead=part.lead)
            # a view keeps the sample shape of what it is a view of; gradients are elementwise with what is stored
            gradients[name] = build.shaped(part, part.stored)
    return {name: gradients[name] for name in inputs if name in gradients}
