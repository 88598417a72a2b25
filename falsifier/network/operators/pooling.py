"""MaxPool, AveragePool, LpPool and their global forms, MaxUnpool.

Averages and powers are convolutions with a constant kernel, 2 to 7 times faster than onnxruntime's own pooling (which is fast for
MaxPool alone) and with an adjoint already there. The derivative of a maximum is taken by comparing its operand with the result:
2 to 3 times faster than asking MaxPool for indices and scattering. Of entries that tie, each gets the whole gradient: what the
result gains when that entry alone is raised.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Gradients, Node, PrimitiveRule
from falsifier.network.operators.composition import compose, integers
from falsifier.network.operators.elementwise import elementwise
from falsifier.network.operators.scattering import scatter_rows
from falsifier.network.operators.windows import Windows
from falsifier.network.program import Builder, Operand, Primitive, Value


def lower_max_pool(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """One MaxPool over `[b * N, C, ...]`; its Indices, counted over the whole batch, are brought back to one sample."""
    x = operands[0]
    assert isinstance(x, Value)
    windows = Windows.of(node.attributes, x.shape[2:])
    lead, shape = x.shape[0], (x.shape[1], *windows.output)
    results = [(shape, x.dtype)]
    attributes = windows.attributes()
    wants_indices = len(node.outputs) > 1 and bool(node.outputs[1])
    if wants_indices:
        results.append((shape, np.dtype(np.int64)))
        attributes["storage_order"] = node.attributes.get("storage_order", 0)
    y, *indices = build.emit_many("MaxPool", [build.fold(x, 1)], results, lead=lead, **attributes)
    whole = (x.shape[0], *shape)
    if not wants_indices:
        return [build.shaped(y, whole)]
    within = build.emit("Mod", [indices[0], np.array(x.size)], shape, np.int64, lead=lead)
    return [build.shaped(y, whole), build.shaped(within, whole)]


def max_pool_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    g = gradients[0]
    if g is None:
        return [None]
    x = build.program.values[primitive.inputs[0]]
    y = build.program.values[primitive.outputs[0]]
    windows = Windows.of(primitive.attributes, x.stored[1:])
    if x.dtype != np.float32:
        return [_by_indices(build, windows, x, y, g)]
    if windows.tiles and len(windows.kernel) == 2:
        return [_by_enlarging(build, windows, x, y, g)]
    return [_by_comparing(build, windows, x, y, g)]


def _by_enlarging(build: Builder, windows: Windows, x: Value, y: Value, g: Value) -> Value:
    """Windows side by side: the result, enlarged, is compared with the operand."""
    tiled = (x.stored[0], *(o * k for o, k in zip(windows.output, windows.kernel, strict=True)))
    scales = np.array(windows.kernel, dtype=np.float32)
    mode = {
        "axes": [2, 3],
        "mode": "nearest",
        "nearest_mode": "floor",
        "coordinate_transformation_mode": "asymmetric",
    }
    enlarged = [build.emit("Resize", [v, None, scales], tiled, lead=x.lead, **mode) for v in (y, g)]
    operand = x
    axes = np.arange(len(tiled)) + 1
    if tiled != x.stored:
        bounds = [np.zeros_like(axes), np.array(tiled), axes, np.ones_like(axes)]
        operand = build.emit("Slice", [x, *bounds], tiled, lead=x.lead)
    is_largest = build.emit("Equal", [operand, enlarged[0]], tiled, np.bool_, lead=x.lead)
    result = build.emit("Mul", [build.cast(is_largest, g.dtype), enlarged[1]], tiled, lead=x.lead)
    if tiled == x.stored:
        return result
    rest = [0] * (len(tiled) + 2) + [n - t for n, t in zip(x.stored, tiled, strict=True)]
    return build.emit("Pad", [result, np.array(rest)], x.stored, lead=x.lead, mode="constant")


def _by_comparing(build: Builder, windows: Windows, x: Value, y: Value, g: Value) -> Value:
    """Any windows: a convolution lays out each window's entries as channels, its transpose adds their gradients up again.

    Where the padding (0 here) equals the result it takes a gradient as well, which falls off the edge.
    """
    channels, entries = x.stored[0], math.prod(windows.kernel)
    lead = x.lead * channels
    pick = np.eye(entries, dtype=x.dtype).reshape(entries, 1, *windows.kernel)
    begins, ends = windows.pads[: len(windows.kernel)], windows.end_pads
    shared = {
        "kernel_shape": list(windows.kernel),
        "strides": list(windows.strides),
        "dilations": list(windows.dilations),
        "group": 1,
    }
    one, many = (1, *windows.output), (entries, *windows.output)
    rest = [max(-e, 0) for e in ends]  # entries at the end that no window reaches
    pads = [*begins, *(max(e, 0) for e in ends)]
    source = build.view(x, (1, *windows.spatial), lead)
    laid_out = build.emit("Conv", [source, pick], many, lead=lead, pads=pads, **shared)
    is_largest = build.emit("Equal", [laid_out, build.view(y, one, lead)], many, np.bool_, lead=lead)
    parts = build.emit(
        "Mul", [build.cast(is_largest, g.dtype), build.view(g, one, lead)], many, lead=lead
    )
    result = build.emit(
        "ConvTranspose", [parts, pick], (1, *windows.spatial), lead=lead, pads=pads, output_padding=rest, **shared
    )
    return build.view(result, x.stored, x.lead)


def _by_indices(build: Builder, windows: Windows, x: Value, y: Value, g: Value) -> Value:
    """For element types that convolutions lack: MaxPool's own indices (the first of equal entries), scattered."""
    kinds = [(y.stored, y.dtype), (y.stored, np.dtype(np.int64))]
    indices = build.emit_many("MaxPool", [x], kinds, lead=x.lead, **windows.attributes())[1]
    size, count = math.prod(x.stored), math.prod(y.stored)
    within = build.emit("Mod", [build.view(indices, (count,), x.lead), np.array(size)], (count,), np.int64, lead=x.lead)
    result = scatter_rows(build, None, within, build.view(g, (count,), x.lead), size, "add")
    return build.view(result, x.stored, x.lead)


def max_pool_torch(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    """`Indices` count over the whole array, as onnxruntime's do."""
    import torch
    from torch.nn import functional

    (x,) = inputs
    windows = Windows.of(attributes, tuple(x.shape[2:]))
    rank = len(windows.kernel)
    begins, ends = windows.pads[:rank], windows.end_pads
    lowest = float("-inf") if x.is_floating_point() else torch.iinfo(x.dtype).min
    padded = x
    if any(begins) or any(ends):
        pads = [p for begin, end in zip(begins[::-1], ends[::-1], strict=True) for p in (begin, end)]
        padded = functional.pad(x, pads, value=lowest)
    pool = (functional.max_pool1d, functional.max_pool2d, functional.max_pool3d)[rank - 1]
    options = {"stride": windows.strides, "dilation": windows.dilations, "return_indices": True}
    if x.is_floating_point():
        y, flat = pool(padded, windows.kernel, **options)
    else:
        y, flat = pool(padded.double(), windows.kernel, **options)
        y = y.to(x.dtype)
    place = torch.zeros_like(flat)
    order = range(rank) if not attributes.get("storage_order") else range(rank)[::-1]
    step = 1
    positions = []
    for axis in range(rank)[::-1]:
        positions.append(flat % padded.shape[2 + axis] - begins[axis])
        flat = flat // padded.shape[2 + axis]
    positions.reverse()
    for axis in list(order)[::-1]:
        place = place + positions[axis] * step
        step *= windows.spatial[axis]
    plane = torch.arange(x.shape[0] * x.shape[1], device=x.device).reshape(*x.shape[:2], *[1] * rank)
    return y, place + plane * step


def lower_average_pool(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """A convolution with 1 / count, or with ones followed by 1 / count where the windows at the edges count differently."""
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
    """By how much each window's sum is divided: the entries that it has inside the array, or inside the padded array."""
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
    flat = [build.view(v, (count,)) if isinstance(v, Value) else np.reshape(v, -1) for v in (x, indices) if v is not None]
    result = scatter_rows(build, None, flat[1], flat[0], size, "none")
    return [build.shaped(result, shape)]


def _unpooled(node: Node, shape: tuple[int, ...]) -> tuple[int, ...]:
    kernel = node.attributes["kernel_shape"]
    rank = len(kernel)
    strides = node.attributes.get("strides") or [1] * rank
    pads = node.attributes.get("pads") or [0] * (2 * rank)
    spatial = ((n - 1) * strides[i] - pads[i] - pads[i + rank] + kernel[i] for i, n in enumerate(shape[2:]))
    return (*shape[:2], *spatial)


LOWERINGS = {
    "MaxPool": lower_max_pool,
    "AveragePool": lower_average_pool,
    "LpPool": lower_lp_pool,
    "GlobalAveragePool": lower_global_average_pool,
    "GlobalMaxPool": lower_global_max_pool,
    "GlobalLpPool": lower_global_lp_pool,
    "MaxUnpool": lower_max_unpool,
}
PRIMITIVES = {"MaxPool": PrimitiveRule(max_pool_torch, max_pool_adjoint)}
