"""Reverse mode: the gradient of a program as more primitives of the same program."""

from __future__ import annotations

from collections.abc import Mapping

from falsifier.errors import UnsupportedError
from falsifier.network.operators import PRIMITIVES
from falsifier.network.operators.elementwise import elementwise, leak
from falsifier.network.program import WINDOW, Builder, Primitive, Value, depending
from falsifier.network.written_out import written_out

_PLACING = {
    "Add", "Cast", "Concat", "DequantizeLinear", "Expand", "Gather", "GatherElements", "GatherND",
    "Identity", "MaxPool", "Neg", "Pad", "ReduceSum", "Reshape", "ScatterElements", "Slice",
    "Split", "Squeeze", "Sub", "Tile", "Transpose", "Unsqueeze",
}  # fmt: skip
"""Primitives through which a gradient passes even where the tensor is of integers: they place, scale or add elements,
so that their adjoints never multiply integers by it."""
_ELEMENT_BY_ELEMENT = _PLACING - {"MaxPool", "ReduceSum", "ScatterElements"} | {"Div", "Mul"}
_SATURATING = {"Clip", "Elu", "Erf", "Exp", "Max", "Min", "Relu"}
"""Primitives that never fall and have slope 0 on a half line. Sigmoid, Tanh and Softmax, flat on both sides and in the
middle of networks as well, see to it themselves."""


def add_adjoint(build: Builder, seeds: Mapping[str, Value]) -> dict[str, Value]:
    """Append the gradient of the sum of seed * value over seeded values, by every program input that it reaches.

    `seeds`: by the name of a value, a gradient of the same stored shape. An input that is missing in the result has
    gradient zero. Raises UnsupportedError, naming the primitive, where one on the way has no adjoint.
    """
    program = build.program
    forward = list(program.primitives)
    inputs = [name for name in program.inputs if name != WINDOW]
    moving = depending(program, inputs)
    last = _last_activations(forward, moving, seeds)
    shortcuts = written_out(build)
    gradients: dict[str, Value] = dict(seeds)
    for primitive in reversed(forward):
        if gradients.keys().isdisjoint(primitive.outputs) or moving.isdisjoint(primitive.inputs):
            continue
        shortcut = shortcuts.get(primitive.outputs[0])
        read = primitive.inputs if shortcut is None else (shortcut.argument,)
        targets = [
            name in moving and (program.values[name].dtype.kind == "f" or primitive.op in _PLACING) for name in read
        ]
        if not any(targets):
            continue
        rule = PRIMITIVES.get(primitive.op)
        if rule is None or rule.adjoint is None:
            raise UnsupportedError(f"the primitive {primitive.op} has no adjoint")
        if shortcut is None:
            parts = rule.adjoint(build, primitive, [gradients.get(name) for name in primitive.outputs])
        else:
            result = primitive.outputs[0]
            parts = [shortcut.rule(build, program.values[result], gradients[result])]
        if primitive.outputs[0] in last:
            parts = [_leaking(build, part, gradients[primitive.outputs[0]]) for part in parts]
        for name, wanted, part in zip(read, targets, parts, strict=False):
            if not wanted or part is None:
                continue
            known = gradients.get(name)
            if known is not None:
                part = build.emit("Add", [known, part], part.stored, lead=part.lead)
            # a view keeps the sample shape of what it is a view of; gradients are elementwise with what is stored
            gradients[name] = build.shaped(part, part.stored)
    return {name: gradients[name] for name in inputs if name in gradients}


def _last_activations(forward: list[Primitive], moving: set[str], seeds: Mapping[str, Value]) -> set[str]:
    """The results of saturating primitives between which and the seeded values elements are not mixed.

    Where such a one is flat, so is everything before it: a network that ends in a Relu or a Clip would give no
    direction from most of its points. Inside, one unit that is flat hides nothing: others lead on.
    """
    outer: set[str] = set(seeds)
    last: set[str] = set()
    for primitive in reversed(forward):
        if outer.isdisjoint(primitive.outputs):
            continue
        live = [name for name in primitive.inputs if name in moving]
        if primitive.op in _SATURATING and len(live) == 1:
            last.update(primitive.outputs)
        elif primitive.op not in _ELEMENT_BY_ELEMENT or (primitive.op in ("Div", "Mul") and len(live) > 1):
            continue
        outer.update(live)
    return last


def _leaking(build: Builder, part: Value | None, gradient: Value) -> Value | None:
    """A gradient behind an activation, and next to nothing of the gradient before it, which decides where it is 0."""
    if part is None or part.stored != gradient.stored:
        return part
    return elementwise(build, "Add", part, elementwise(build, "Mul", gradient, leak(part.dtype)))
