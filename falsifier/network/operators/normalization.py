"""Normalisations at inference: a scale and a shift per channel, or statistics of the sample itself."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from falsifier.errors import UnsupportedError
from falsifier.network.operators import LOWERINGS as RULES
from falsifier.network.operators import Node
from falsifier.network.operators.elementwise import Tensor, combine, compare, elementwise, present
from falsifier.network.operators.layer_normalization import root_of_variance, standardised
from falsifier.network.operators.reduction import mean_over, normalise_axes, squared, sum_over
from falsifier.network.program import Builder, Operand, Shape, Value


def _operand(operands: Sequence[Operand]) -> Value:
    x = operands[0]
    if not isinstance(x, Value):
        raise UnsupportedError("a normalisation of a constant by statistics that depend on the input")
    return x


def _shaped(build: Builder, tensor: Tensor, shape: Shape) -> Tensor:
    return build.shaped(tensor, shape) if isinstance(tensor, Value) else tensor.reshape(shape)


def _per_channel(build: Builder, tensor: Tensor, x: Value) -> Tensor:
    """One number per channel (axis 1 of x), shaped to broadcast over the axes behind it; other shapes are kept."""
    if len(tensor.shape) > 1 or len(x.shape) < 3:
        return tensor
    return _shaped(build, tensor, (tensor.shape[0], *(1,) * (len(x.shape) - 2)))


def _epsilon(node: Node) -> float:
    return float(node.attributes.get("epsilon", 1e-5))


def lower_batch_normalization(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """x * a + b with a = scale / sqrt(var + epsilon), b = bias - mean * a, worked out here where all are constant."""
    x = _operand(operands)
    if any(node.outputs[1:]) if node.version < 14 else node.attributes.get("training_mode", 0):
        return _in_training_mode(build, node, x, operands)
    scale, bias, mean, variance = (_per_channel(build, v, x) for v in present(operands[1:]))
    factor: Tensor
    if isinstance(variance, Value):
        factor = combine(build, "Div", scale, root_of_variance(build, variance, _epsilon(node)))
    else:
        root = np.sqrt(variance.astype(np.float64) + _epsilon(node))
        if not isinstance(scale, Value) and not isinstance(bias, Value) and not isinstance(mean, Value):
            exact = scale / root
            shift = (bias - mean * exact).astype(x.dtype)
            return [elementwise(build, "Add", elementwise(build, "Mul", x, exact), shift)]
        factor = combine(build, "Div", scale, root.astype(x.dtype))
    centred = elementwise(build, "Sub", x, mean)
    return [elementwise(build, "Add", elementwise(build, "Mul", centred, factor), bias)]


def _in_training_mode(build: Builder, node: Node, x: Value, operands: Sequence[Operand]) -> Sequence[Operand]:
    """Statistics of the sample's own batch, and the given ones moved towards them.

    Before opset 14 a node asks for it by its further outputs, of which the last two are kept for a backward pass.
    """
    axes = [i for i in range(len(x.shape)) if i != 1]
    scale, bias = (_per_channel(build, v, x) for v in present(operands[1:3]))
    batch_mean = mean_over(build, x, axes)
    centred = elementwise(build, "Sub", x, batch_mean)
    batch_variance = mean_over(build, squared(build, centred), axes)
    root = root_of_variance(build, batch_variance, _epsilon(node))
    y = elementwise(build, "Div", centred, root)
    kept = float(node.attributes.get("momentum", 0.9))
    moved = []
    for old, new in zip(present(operands[3:5]), (batch_mean, batch_variance), strict=True):
        step = elementwise(build, "Mul", build.shaped(new, (x.shape[1],)), 1 - kept)
        moved.append(elementwise(build, "Add", step, combine(build, "Mul", old, np.asarray(kept, dtype=x.dtype))))
    saved = [batch_mean, build.elementwise("Div", [np.ones((), x.dtype), root])] if any(node.outputs[3:]) else []
    results = [elementwise(build, "Add", elementwise(build, "Mul", y, scale), bias), *moved]
    return [*results, *(build.shaped(v, (x.shape[1],)) for v in saved)][: len(node.outputs)]


def lower_instance_normalization(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x = _operand(operands)
    scale, bias = (_per_channel(build, v, x) for v in present(operands[1:]))
    y = standardised(build, x, range(2, len(x.shape)), _epsilon(node))
    return [elementwise(build, "Add", elementwise(build, "Mul", y, scale), bias)]


def lower_group_normalization(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """Scale and bias are one per group before opset 21, one per channel since."""
    x = _operand(operands)
    scale, bias = present(operands[1:])
    groups = int(node.attributes["num_groups"])
    batch, channels = x.shape[:2]
    if channels % groups:
        raise UnsupportedError(f"GroupNormalization of {channels} channels in {groups} groups")
    grouped = build.shaped(x, (batch, groups, channels // groups, prod(x.shape[2:])))
    y = standardised(build, grouped, [2, 3], _epsilon(node))
    shape = (groups, 1, 1) if scale.shape[0] == groups and node.version < 21 else (groups, channels // groups, 1)
    y = elementwise(build, "Mul", y, _shaped(build, scale, shape))
    return [build.shaped(elementwise(build, "Add", y, _shaped(build, bias, shape)), x.shape)]


def lower_mean_variance_normalization(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """(x - mean) / (standard deviation + 1e-9)."""
    x = _operand(operands)
    axes = normalise_axes(node.attributes.get("axes", [0, 2, 3]), len(x.shape))
    centred = elementwise(build, "Sub", x, mean_over(build, x, axes))
    deviation = elementwise(build, "Sqrt", mean_over(build, squared(build, centred), axes))
    return [elementwise(build, "Div", centred, elementwise(build, "Add", deviation, 1e-9))]


def lower_lp_normalization(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """x / norm along one axis, 0 where the norm is 0."""
    x = _operand(operands)
    axes = normalise_axes([node.attributes.get("axis", -1)], len(x.shape))
    if node.attributes.get("p", 2) == 1:
        norm = sum_over(build, elementwise(build, "Abs", x), axes)
    else:
        norm = elementwise(build, "Sqrt", sum_over(build, squared(build, x), axes))
    is_zero = build.cast(compare(build, "Equal", norm, 0.0), x.dtype)
    return [elementwise(build, "Div", x, elementwise(build, "Add", norm, is_zero))]


def lower_lrn(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """x / (bias + alpha / size * sum of squares over a window of channels) ^ beta. A band matrix sums the windows."""
    x = _operand(operands)
    size = int(node.attributes["size"])
    alpha, beta, bias = (
        float(node.attributes.get(*default)) for default in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    )
    channels = x.shape[1]
    distance = np.arange(channels)[None] - np.arange(channels)[:, None]
    band = (distance >= -((size - 1) // 2)) & (distance <= size // 2)
    squares = build.shaped(squared(build, x), (x.shape[0], channels, prod(x.shape[2:])))
    weights = (band * (alpha / size)).astype(x.dtype)
    (total,) = RULES["MatMul"](build, Node("MatMul", "", node.version, {}, ("y",)), [weights, squares])
    assert isinstance(total, Value)
    base = elementwise(build, "Add", build.shaped(total, x.shape), bias)
    power = elementwise(
        build, "Exp", elementwise(build, "Mul", elementwise(build, "Log", base), -beta)
    )  # faster than Pow
    return [elementwise(build, "Mul", x, power)]


LOWERINGS: dict[str, Any] = {
    "BatchNormalization": lower_batch_normalization,
    "GroupNormalization": lower_group_normalization,
    "InstanceNormalization": lower_instance_normalization,
    "LRN": lower_lrn,
    "LpNormalization": lower_lp_normalization,
    "MeanVarianceNormalization": lower_mean_variance_normalization,
}
