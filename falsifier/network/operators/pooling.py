"""AveragePool, LpPool, the global forms, and MaxUnpool.

Averages and powers are convolutions with a constant kernel, 2 to 7 times faster than onnxruntime's own pooling (which
is fast for MaxPool alone) and with an adjoint already there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Node
from falsifier.network.operators.composition import compose, integers
from falsifier.network.operators.elementwise import elementwise
from falsifier.network.operators.scattering import scatter_rows
from falsifier.network.operators.windows import Windows
from falsifier.network.program import Builder, Operand, Value


def lower_average_pool(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """A convolution with 1 / count; with ones, then divided, where windows at the edges count differently."""
    x = operands[0]
    assert isinstance(x, Value)
    windows = Windows.of(node.attributes, x.shape[2:])
    if windows.whole:
        return [_reduced(build, "ReduceMean", x)]
    counts = _counts(windows, bool(node.attributes.get("count_include_pad", 0)))
    uniform = bool((counts == counts.flat[0]).all())
    total = _windowed_sum(build, windows, x, 1 / counts.flat[0] if uniform else 1.0)
    if uniform:
        return [total]
    return [elementwise(build, "Div", total, counts.astype(x.dtype))]


def _counts(windows: Windows, include_pad: bool) -> NDArray[Any]:
    """By how much each window's sum is divided: its entries inside the array, or inside the padded array."""
    rank = len(windows.kernel)
    result = np.ones((), dtype=np.float64)
    for axis in range(rank):
        begin, end = (windows.pads[axis], windows.pads[axis + rank]) if include_pad else (0, 0)
        starts = np.arange(windows.output[axis]) * windows.strides[axis] - windows.pads[axis]
        at = starts[:, None] + np.arange(windows.kernel[axis]) * windows.dilations[axis]
        inside = ((at >= -begin) & (at < windows.spatial[axis] + end)).sum(axis=1)
        result = result[..., None] * inside
    return result


def _windowed_sum(build: Builder, windows: Windows, x: Value, weight: float) -> Value:
    """weight * the sum of each window, channel by channel."""
    channels = x.shape[1]
    begins, ends = windows.pads[: len(windows.kernel)], windows.end_pads
    result = compose(
        build,
        "Conv",
        x,
        np.full((channels, 1, *windows.kernel), weight, dtype=x.dtype),
        group=channels,
        kernel_shape=list(windows.kernel),
        strides=list(windows.strides),
        dilations=list(windows.dilations),
        pads=[*begins, *(max(e, 0) for e in ends)],
    )
    assert isinstance(result, Value)
    return result


def _reduced(build: Builder, op: str, x: Value) -> Operand:
    """A reduction over everything but sample axis and channels."""
    return compose(build, op, x, np.arange(2, len(x.shape)), keepdims=1)


def lower_global_average_pool(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x = operands[0]
    assert isinstance(x, Value)
    return [_reduced(build, "ReduceMean", x)]


def lower_global_max_pool(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x = operands[0]
    assert isinstance(x, Value)
    return [_reduced(build, "ReduceMax", x)]


def lower_lp_pool(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """(the sum of abs(x) ** p) ** (1 / p)."""
    x = operands[0]
    assert isinstance(x, Value)
    order = float(node.attributes.get("p", 2))
    windows = Windows.of(node.attributes, x.shape[2:])
    return [_root(build, _windowed_sum(build, windows, _power(build, x, order), 1.0), order)]


def lower_global_lp_pool(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x = operands[0]
    assert isinstance(x, Value)
    order = float(node.attributes.get("p", 2))
    total = _reduced(build, "ReduceSum", _power(build, x, order))
    assert isinstance(total, Value)
    return [_root(build, total, order)]


def _power(build: Builder, x: Value, order: float) -> Value:
    if order == 2:
        return elementwise(build, "Mul", x, x)
    magnitude = elementwise(build, "Abs", x)
    return magnitude if order == 1 else elementwise(build, "Pow", magnitude, order)


def _root(build: Builder, total: Value, order: float) -> Value:
    if order == 1:
        return total
    return elementwise(build, "Sqrt", total) if order == 2 else elementwise(build, "Pow", total, 1 / order)


def lower_max_unpool(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """A scatter of each sample's entries into zeros, at indices that count over the sample."""
    x, indices = operands[:2]
    if not isinstance(x, Value) and not isinstance(indices, Value):
        raise UnsupportedError("MaxUnpool of constants")
    assert x is not None
    shape = _unpooled(node, x.shape)
    if len(operands) > 2 and operands[2] is not None:
        shape = tuple(integers(operands[2], "the output shape of MaxUnpool"))
    size, count = math.prod(shape), math.prod(x.shape)
    updates, rows = (
        build.view(v, (count,)) if isinstance(v, Value) else np.reshape(v, -1) for v in (x, indices) if v is not None
    )
    result = scatter_rows(build, None, rows, updates, size, "none")
    return [build.shaped(result, shape)]


def _unpooled(node: Node, shape: tuple[int, ...]) -> tuple[int, ...]:
    kernel = node.attributes["kernel_shape"]
    rank = len(kernel)
    strides = node.attributes.get("strides") or [1] * rank
    pads = node.attributes.get("pads") or [0] * (2 * rank)
    spatial = ((n - 1) * strides[i] - pads[i] - pads[i + rank] + kernel[i] for i, n in enumerate(shape[2:]))
    return (*shape[:2], *spatial)


LOWERINGS = {
    "AveragePool": lower_average_pool,
    "LpPool": lower_lp_pool,
    "GlobalAveragePool": lower_global_average_pool,
    "GlobalMaxPool": lower_global_max_pool,
    "GlobalLpPool": lower_global_lp_pool,
    "MaxUnpool": lower_max_unpool,
}
PRIMITIVES: dict[str, Any] = {}
