"""Conv and ConvTranspose in one, two and three dimensions: each is the other's adjoint."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Gradients, Node, PrimitiveRule
from falsifier.network.operators.shape import constant_operand
from falsifier.network.program import Builder, Operand, Primitive, Shape, Value


def lower_conv(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x, w, bias = _operands(operands)
    spatial = x.shape[2:]
    kernel = w.shape[2:]
    strides, dilations = _per_axis(node, "strides", spatial), _per_axis(node, "dilations", spatial)
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True)]
    before, after = _conv_pads(node, spatial, reach, strides)
    out = [(size + p + q - r) // s + 1 for size, p, q, r, s in zip(spatial, before, after, reach, strides, strict=True)]
    if min(out) < 1:
        raise UnsupportedError("an empty tensor")
    folded = build.fold(x, 1)
    y = build.emit(
        "Conv",
        [folded, w] if bias is None else [folded, w, bias],
        (w.shape[0], *out),
        lead=folded.lead,
        kernel_shape=list(kernel),
        strides=strides,
        dilations=dilations,
        pads=[*before, *after],
        group=node.attributes.get("group", 1),
    )
    return [build.shaped(y, (x.shape[0], w.shape[0], *out))]


def lower_conv_transpose(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x, w, bias = _operands(operands)
    spatial, kernel = x.shape[2:], w.shape[2:]
    strides, dilations = _per_axis(node, "strides", spatial), _per_axis(node, "dilations", spatial)
    extra = list(node.attributes.get("output_padding") or [0] * len(spatial))
    group = node.attributes.get("group", 1)
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True)]
    full = [(i - 1) * s + r + e for i, s, r, e in zip(spatial, strides, reach, extra, strict=True)]
    if "output_shape" in node.attributes:  # elements that no kernel reaches stand at the end
        missing = [max(d - f, 0) for d, f in zip(node.attributes["output_shape"][-len(full) :], full, strict=True)]
        extra = [e + m for e, m in zip(extra, missing, strict=True)]
        full = [f + m for f, m in zip(full, missing, strict=True)]
    before, after, out = _transpose_pads(node, spatial, strides, full)
    folded = build.fold(x, 1)
    channels = w.shape[1] * group
    y = build.emit(
        "ConvTranspose",
        [folded, w] if bias is None else [folded, w, bias],
        (channels, *out),
        lead=folded.lead,
        kernel_shape=list(kernel),
        strides=strides,
        dilations=dilations,
        pads=[*before, *after],
        output_padding=extra,
        group=group,
    )
    return [build.shaped(y, (x.shape[0], channels, *out))]


def _operands(operands: Sequence[Operand]) -> tuple[Value, NDArray[Any], NDArray[Any] | None]:
    x = operands[0]
    w = constant_operand(operands, 1, "the kernel")
    if not isinstance(x, Value) or w is None:
        raise UnsupportedError("only the data may depend on the input")
    return x, w, constant_operand(operands, 2, "the bias")


def _per_axis(node: Node, name: str, spatial: Shape) -> list[int]:
    return [int(i) for i in node.attributes.get(name) or [1] * len(spatial)]


def _conv_pads(node: Node, spatial: Shape, reach: list[int], strides: list[int]) -> tuple[list[int], list[int]]:
    """Padding before and after each axis, `auto_pad` resolved."""
    mode = node.attributes.get("auto_pad", "NOTSET")
    rank = len(spatial)
    if mode in ("NOTSET", ""):
        pads = [int(p) for p in node.attributes.get("pads") or [0] * (2 * rank)]
        return pads[:rank], pads[rank:]
    if mode == "VALID":
        return [0] * rank, [0] * rank
    total = [max((math.ceil(i / s) - 1) * s + r - i, 0) for i, s, r in zip(spatial, strides, reach, strict=True)]
    small, large = [t // 2 for t in total], [t - t // 2 for t in total]
    return (small, large) if mode == "SAME_UPPER" else (large, small)


def _transpose_pads(
    node: Node, spatial: Shape, strides: list[int], full: list[int]
) -> tuple[list[int], list[int], list[int]]:
    """Cropping before and after each axis, and the sizes that remain. `full`: the sizes without cropping."""
    mode = node.attributes.get("auto_pad", "NOTSET")
    rank = len(spatial)
    wanted = node.attributes.get("output_shape")
    if wanted is None and mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [i * s for i, s in zip(spatial, strides, strict=True)]
    if wanted is None:
        pads = [int(p) for p in (node.attributes.get("pads") if mode != "VALID" else None) or [0] * (2 * rank)]
        before, after = pads[:rank], pads[rank:]
        return before, after, [f - p - q for f, p, q in zip(full, before, after, strict=True)]
    out = [int(d) for d in wanted[-rank:]]
    total = [f - d for f, d in zip(full, out, strict=True)]
    small, large = [t // 2 for t in total], [t - t // 2 for t in total]
    # the side that takes the odd element: onnxruntime's rule (`SAME_UPPER` crops it at the end, all else at the start)
    return (small, large, out) if mode == "SAME_UPPER" else (large, small, out)


_BLOCK = 8  # channels that onnxruntime's convolutions handle together


def conv_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """With stride 1 a Conv with flipped kernels, else, and for few channels, a ConvTranspose.

    Measured: onnxruntime's blocked Conv computes 8 channels at least, so that up to 7 of x take up to 8 times as long.
    """
    (g,) = gradients
    assert g is not None
    x = build.program.values[primitive.inputs[0]]
    w = build.program.constants[primitive.inputs[1]]
    a = primitive.attributes
    rank, kernel = w.ndim - 2, w.shape[2:]
    before, after = a["pads"][:rank], a["pads"][rank:]
    reach = [d * (k - 1) for k, d in zip(kernel, a["dilations"], strict=True)]
    shared = {"kernel_shape": list(kernel), "dilations": a["dilations"], "group": a["group"]}
    rest = [None] * (len(primitive.inputs) - 1)
    flipped_pads = [r - p for r, p in zip(reach * 2, [*before, *after], strict=True)]
    if all(s == 1 for s in a["strides"]) and min(flipped_pads) >= 0 and w.shape[1] >= _BLOCK:
        flipped = _flipped(w, a["group"])
        dx = build.emit("Conv", [g, flipped], x.stored, lead=x.lead, strides=[1] * rank, pads=flipped_pads, **shared)
        return [dx, *rest]
    # what the strides leave over at the end of x is read by no window
    used = [(o - 1) * s + r + 1 - p for o, s, r, p in zip(g.stored[1:], a["strides"], reach, before, strict=True)]
    over = [size - u for size, u in zip(x.stored[1:], used, strict=True)]
    pads = [*before, *(max(-o, 0) for o in over)]
    fits = [max(o, 0) for o in over]
    small = all(f < max(s, d) for f, s, d in zip(fits, a["strides"], a["dilations"], strict=True))
    extra = fits if small else [0] * rank
    stored = (x.stored[0], *(size - (0 if small else f) for size, f in zip(x.stored[1:], fits, strict=True)))
    dx = build.emit(
        "ConvTranspose", [g, w], stored, lead=x.lead, strides=a["strides"], pads=pads, output_padding=extra, **shared
    )
    return [dx if small else _padded(build, dx, fits), *rest]


def _flipped(w: NDArray[Any], group: int) -> NDArray[Any]:
    """`[m, c / g, *k]` -> `[c, m / g, *k]`, every kernel reversed: the weights of the adjoint convolution."""
    m, c = w.shape[:2]
    blocks = w.reshape(group, m // group, c, *w.shape[2:]).swapaxes(1, 2)
    return np.ascontiguousarray(np.flip(blocks.reshape(group * c, m // group, *w.shape[2:]), tuple(range(2, w.ndim))))


def _padded(build: Builder, x: Value, after: Sequence[int]) -> Value:
    """Zeros behind each spatial axis."""
    rank = len(x.stored) + 1
    pads = [0] * rank + [0, 0, *after]
    stored = (x.stored[0], *(size + p for size, p in zip(x.stored[1:], after, strict=True)))
    return build.emit("Pad", [x, np.array(pads, dtype=np.int64)], stored, lead=x.lead)


def conv_transpose_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """A Conv with the same kernels, cut where output_padding made the result larger than x."""
    (g,) = gradients
    assert g is not None
    x = build.program.values[primitive.inputs[0]]
    w = build.program.constants[primitive.inputs[1]]
    a = primitive.attributes
    names = ("kernel_shape", "strides", "dilations", "pads", "group")
    rank = w.ndim - 2
    out = tuple(
        (size + p + q - d * (k - 1) - 1) // s + 1
        for size, p, q, d, k, s in zip(
            g.stored[1:], a["pads"][:rank], a["pads"][rank:], a["dilations"], w.shape[2:], a["strides"], strict=True
        )
    )
    dx = build.emit("Conv", [g, w], (x.stored[0], *out), lead=x.lead, **{name: a[name] for name in names})
    if out != x.stored[1:]:
        starts, ends = np.zeros(rank, dtype=np.int64), np.array(x.stored[1:], dtype=np.int64)
        axes, steps = np.arange(2, rank + 2, dtype=np.int64), np.ones(rank, dtype=np.int64)
        dx = build.emit("Slice", [dx, starts, ends, axes, steps], x.stored, lead=x.lead)
    return [dx, *[None] * (len(primitive.inputs) - 1)]


def torch_conv(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    import torch

    x, w, bias = (*inputs, None)[:3]
    rank = w.ndim - 2
    before, after = attributes["pads"][:rank], attributes["pads"][rank:]
    padding = before
    if before != after:
        # torch pads alike on both sides only; its list runs from the last axis to the first
        x = torch.nn.functional.pad(x, [p for pair in zip(before[::-1], after[::-1], strict=True) for p in pair])
        padding = [0] * rank
    conv = (torch.nn.functional.conv1d, torch.nn.functional.conv2d, torch.nn.functional.conv3d)[rank - 1]
    strides, dilations = attributes["strides"], attributes["dilations"]
    return (conv(x, w, bias, strides, padding, dilations, attributes["group"]),)


def torch_conv_transpose(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    """The full result, padded by output_padding and cropped: torch crops alike on both sides only."""
    import torch

    x, w, bias = (*inputs, None)[:3]
    rank = w.ndim - 2
    functional = torch.nn.functional
    conv = (functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)[rank - 1]
    y = conv(x, w, None, attributes["strides"], 0, 0, attributes["group"], attributes["dilations"])
    before, after = attributes["pads"][:rank], attributes["pads"][rank:]
    edges = [(-p, e - q) for p, q, e in zip(before, after, attributes["output_padding"], strict=True)]
    if any(p or q for p, q in edges):
        y = functional.pad(y, [p for pair in edges[::-1] for p in pair])
    if bias is not None:
        y = y + bias.reshape(-1, *[1] * rank)
    return (y,)


LOWERINGS = {"Conv": lower_conv, "ConvTranspose": lower_conv_transpose}
PRIMITIVES = {
    "Conv": PrimitiveRule(torch_conv, conv_adjoint),
    "ConvTranspose": PrimitiveRule(torch_conv_transpose, conv_transpose_adjoint),
}
