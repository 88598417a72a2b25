"""LayerNormalization, one primitive in float32, and RMSNormalization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Gradients, Node, PrimitiveRule
from falsifier.network.operators.elementwise import elementwise, sole_gradient
from falsifier.network.operators.reduction import mean_over, squared
from falsifier.network.program import Builder, Operand, Primitive, Value


def root_of_variance(build: Builder, variance: Value, epsilon: float) -> Value:
    return elementwise(build, "Sqrt", elementwise(build, "Add", variance, epsilon))


def standardised(build: Builder, x: Value, axes: Sequence[int], epsilon: float) -> Value:
    """(x - mean) / sqrt(variance + epsilon), both over `axes` of the sample."""
    centred = elementwise(build, "Sub", x, mean_over(build, x, axes))
    variance = mean_over(build, squared(build, centred), axes)
    return elementwise(build, "Div", centred, root_of_variance(build, variance, epsilon))


def _operand(node: Node, operands: Sequence[Operand]) -> tuple[Value, range, float]:
    """The normalised tensor, its axes, and epsilon."""
    x = operands[0]
    if not isinstance(x, Value):
        raise UnsupportedError(f"{node.op} of a constant")
    rank = len(x.shape)
    axis = int(node.attributes.get("axis", -1))
    if not -rank <= axis < rank:
        raise UnsupportedError(f"{node.op} from axis {axis} of a tensor with {rank} axes")
    return x, range(axis % rank, rank), float(node.attributes.get("epsilon", 1e-5))


def lower_layer_normalization(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x, axes, epsilon = _operand(node, operands)
    scale, bias = (*operands[1:], None)[:2]
    normalised = x.shape[axes.start :]
    native = x.dtype == np.float32 and not any(node.outputs[1:])
    if native and all(v is None or (isinstance(v, np.ndarray) and v.shape == normalised) for v in (scale, bias)):
        view = x if x.stored[len(x.stored) - len(axes) :] == normalised else build.sample(x)
        kept = (*view.stored[: len(view.stored) - len(axes)], *(1,) * len(axes))
        results = [(view.stored, x.dtype), (kept, x.dtype), (kept, x.dtype)]
        y, *_ = build.emit_many(
            "LayerNormalization", [view, scale, bias], results, lead=view.lead, axis=-len(axes), epsilon=epsilon
        )
        return [build.shaped(y, x.shape)]
    mean = mean_over(build, x, axes)
    centred = elementwise(build, "Sub", x, mean)
    root = root_of_variance(build, mean_over(build, squared(build, centred), axes), epsilon)
    y = elementwise(build, "Div", centred, root)
    if scale is not None:
        y = elementwise(build, "Mul", y, scale)
    if bias is not None:
        y = elementwise(build, "Add", y, bias)
    if len(node.outputs) < 3:
        return [y, mean][: len(node.outputs)]
    return [y, mean, elementwise(build, "Reciprocal", root)]


def lower_rms_normalization(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x, axes, epsilon = _operand(node, operands)
    root = root_of_variance(build, mean_over(build, squared(build, x), axes), epsilon)
    scale = operands[1]
    assert scale is not None
    return [elementwise(build, "Mul", elementwise(build, "Div", x, root), scale)]


def layer_normalization_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """With h = (x - mean) / deviation and s = g * scale: (s - mean(s) - h * mean(s * h)) / deviation."""
    g = sole_gradient(build, gradients[:1])
    x = build.program.values[primitive.inputs[0]]
    mean, inverse = (build.program.values[name] for name in primitive.outputs[1:])
    axes = np.arange(primitive.attributes["axis"], 0)

    def same_lanes(op: str, a: Value, b: Value) -> Value:
        return build.emit(op, [a, b], a.stored, lead=a.lead)

    def averaged(value: Value) -> Value:
        return build.emit("ReduceMean", [value, axes], mean.stored, lead=value.lead, keepdims=1)

    scaled = elementwise(build, "Mul", g, build.program.constants[primitive.inputs[1]])
    standard = same_lanes("Mul", same_lanes("Sub", x, mean), inverse)
    slope = same_lanes("Mul", standard, averaged(elementwise(build, "Mul", scaled, standard)))
    rest = elementwise(build, "Sub", same_lanes("Sub", scaled, averaged(scaled)), slope)
    return [same_lanes("Mul", rest, inverse), None, None][: len(primitive.inputs)]


def torch_layer_normalization(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    import torch

    x, scale, bias = (*inputs, None)[:3]
    return tuple(torch.native_layer_norm(x, x.shape[attributes["axis"] :], scale, bias, attributes["epsilon"]))


LOWERINGS = {"LayerNormalization": lower_layer_normalization, "RMSNormalization": lower_rms_normalization}
PRIMITIVES = {"LayerNormalization": PrimitiveRule(torch_layer_normalization, layer_normalization_adjoint)}
