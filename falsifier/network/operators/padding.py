"""Pad in all its modes, CenterCropPad, and rearrangements between channels and space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Gradients, Node, PrimitiveRule
from falsifier.network.operators.composition import Tensor, compose, given, integers
from falsifier.network.program import Builder, Operand, Primitive, Shape, Value


def lower_pad(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """A constant around the sample is the primitive Pad; the other modes are gathers along the padded axes."""
    x = operands[0]
    if not isinstance(x, Value):
        raise UnsupportedError("how far to pad depends on the input")
    pads = _pads(node, operands, len(x.shape))
    if min(d + a + b for d, (a, b) in zip(x.shape, pads, strict=True)) <= 0:
        raise UnsupportedError("an empty tensor")
    mode = node.attributes.get("mode", "constant")
    if mode == "constant":
        fill = given(operands, 2)
        if fill is None:
            fill = np.array(node.attributes.get("value", 0.0))
        return [pad_constant(build, x, pads, fill)]
    result: Tensor = x
    for axis, (before, after) in enumerate(pads):
        if before or after:
            places = _places(mode, x.shape[axis], before, after)
            result = compose(build, "Gather", result, places, axis=axis)
    return [result]


def _pads(node: Node, operands: Sequence[Operand], rank: int) -> list[tuple[int, int]]:
    """Entries added before and after each axis; negative ones are taken away."""
    flat = integers(operands[1], "how far to pad") if len(operands) > 1 else [int(p) for p in node.attributes["pads"]]
    named = given(operands, 3)
    axes = list(range(rank)) if named is None else [a % rank for a in integers(named, "the axes to pad")]
    pads = [(0, 0)] * rank
    for i, axis in enumerate(axes):
        pads[axis] = (flat[i], flat[i + len(axes)])
    return pads


def _places(mode: str, count: int, before: int, after: int) -> NDArray[np.int64]:
    """Which entry of an axis stands at each place of the padded one. Cropping comes first, as in onnxruntime."""
    places = np.arange(count)[max(-before, 0) : count - max(-after, 0)]
    how: Any = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}.get(mode)
    if how is None:
        raise UnsupportedError(f"Pad mode {mode!r}")
    return np.pad(places, (max(before, 0), max(after, 0)), mode=how)


def pad_constant(build: Builder, x: Value, pads: Sequence[tuple[int, int]], fill: Operand) -> Value:
    """`x` with `fill` around it, or cropped where pads are negative."""
    shape = tuple(d + a + b for d, (a, b) in zip(x.shape, pads, strict=True))
    if not any(a or b for a, b in pads):
        return x
    amounts = np.array([0, *(a for a, _ in pads), 0, *(b for _, b in pads)])
    if isinstance(fill, Value):
        padded = build.emit("Pad", [build.sample(x), amounts], shape, mode="constant")
        inside = np.pad(np.ones(x.shape, bool), [(max(a, 0), max(b, 0)) for a, b in pads])
        crop = tuple(slice(max(-a, 0), max(-a, 0) + d) for (a, _), d in zip(pads, shape, strict=True))
        number = build.shaped(fill, (1,) * len(shape))
        return build.elementwise("Where", [inside[crop], padded, number], x.dtype)
    assert fill is not None
    value = [fill.reshape(()).astype(x.dtype)] if fill.any() else []
    return build.emit("Pad", [build.sample(x), amounts, *value], shape, mode="constant")


def pad_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """The pads taken away again, zeros where entries were."""
    (g,) = gradients
    assert g is not None
    x = build.program.values[primitive.inputs[0]]
    amounts = -build.program.constants[primitive.inputs[1]]
    result = build.emit("Pad", [g, amounts], x.stored, lead=x.lead, mode="constant")
    return [result, *[None] * (len(primitive.inputs) - 1)]


def pad_torch(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    from torch.nn import functional

    x, amounts = inputs[:2]
    fill = inputs[2].item() if len(inputs) > 2 and inputs[2] is not None else 0
    flat = [int(a) for a in amounts.tolist()]
    rank = len(flat) // 2
    pairs = [p for axis in range(rank)[::-1] for p in (flat[axis], flat[axis + rank])]
    while len(pairs) > 2 and pairs[-2:] == [0, 0]:
        del pairs[-2:]
    return (functional.pad(x, pairs, value=fill),)


def lower_center_crop_pad(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """Every named axis cropped or padded with zeros to its target, about its centre."""
    x = operands[0]
    if not isinstance(x, Value):
        raise UnsupportedError("the target shape depends on the input")
    target = integers(operands[1], "the target shape")
    axes = [a % len(x.shape) for a in node.attributes.get("axes") or range(len(x.shape))]
    pads = [(0, 0)] * len(x.shape)
    for axis, size in zip(axes, target, strict=True):
        difference = size - x.shape[axis]
        first = abs(difference) // 2
        before = first if difference > 0 else -first
        pads[axis] = (before, difference - before)
    return [pad_constant(build, x, pads, None if x.dtype == np.bool_ else np.zeros((), x.dtype))]


def lower_depth_to_space(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x = operands[0]
    assert isinstance(x, Value)
    n, c, h, w = x.shape
    k = node.attributes["blocksize"]
    rows_first = node.attributes.get("mode", "DCR") == "DCR"
    apart: Shape = (n, k, k, c // (k * k), h, w) if rows_first else (n, c // (k * k), k, k, h, w)
    order = [0, 3, 4, 1, 5, 2] if rows_first else [0, 1, 4, 2, 5, 3]
    return [_rearranged(build, x, apart, order, (n, c // (k * k), h * k, w * k))]


def lower_space_to_depth(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x = operands[0]
    assert isinstance(x, Value)
    n, c, h, w = x.shape
    k = node.attributes["blocksize"]
    rows_first = node.attributes.get("mode", "DCR") == "DCR"
    order = [0, 3, 5, 1, 2, 4] if rows_first else [0, 1, 3, 5, 2, 4]
    return [_rearranged(build, x, (n, c, h // k, k, w // k, k), order, (n, c * k * k, h // k, w // k))]


def _rearranged(build: Builder, x: Value, apart: Shape, order: list[int], shape: Shape) -> Operand:
    moved = compose(build, "Transpose", build.shaped(x, apart), perm=order)
    assert isinstance(moved, Value)
    return build.shaped(moved, shape)


def lower_trilu(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """Zero on one side of a diagonal. Where, not a product: what is left out may be infinite."""
    x = operands[0]
    if not isinstance(x, Value):
        raise UnsupportedError("the diagonal depends on the input")
    diagonal = given(operands, 1)
    (k,) = [0] if diagonal is None else integers(diagonal, "the diagonal")
    side = np.triu if node.attributes.get("upper", 1) else np.tril
    kept = side(np.ones(x.shape[-2:], bool), k)
    return [build.elementwise("Where", [kept, x, np.zeros((), x.dtype)], x.dtype)]


LOWERINGS = {
    "Pad": lower_pad,
    "CenterCropPad": lower_center_crop_pad,
    "DepthToSpace": lower_depth_to_space,
    "SpaceToDepth": lower_space_to_depth,
    "Trilu": lower_trilu,
}
PRIMITIVES = {"Pad": PrimitiveRule(pad_torch, pad_adjoint)}
