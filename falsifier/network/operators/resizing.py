"""Resize and Upsample. Resizing is linear and works axis by axis: its adjoint multiplies by the matrix of each axis.

The matrices are read off onnxruntime itself, by resizing the unit vectors of one axis, so that forward, adjoint and
torch agree in every coordinate and rounding mode.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Gradients, Node, PrimitiveRule
from falsifier.network.operators.composition import constant, given
from falsifier.network.operators.elementwise import where
from falsifier.network.program import Builder, Operand, Primitive, Shape, Value

_MODES = (
    "antialias",
    "coordinate_transformation_mode",
    "cubic_coeff_a",
    "exclude_outside",
    "keep_aspect_ratio_policy",
    "mode",
    "nearest_mode",
)


@dataclass(frozen=True)
class _Axis:
    """One resized axis: its length before and after, the scale or size that is asked for, the region of interest."""

    at: int
    before: int
    after: int
    scale: float | None
    size: int | None
    roi: tuple[float, float] | None


def lower_resize(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x = operands[0]
    if not isinstance(x, Value):
        raise UnsupportedError("the size depends on the input")
    modes = {k: v for k, v in node.attributes.items() if k in _MODES}
    axes = _axes(node, operands, x.shape)
    if node.version >= 11:
        return [_filled(build, node, axes, _resized(build, x, axes, modes))]
    # before opset 11 positions are output / scale, rounded down where an axis grows and up where it shrinks
    modes["coordinate_transformation_mode"] = "asymmetric"
    y = x
    for grows in (False, True):
        part = [a for a in axes if (a.after >= a.before) == grows]
        y = _resized(build, y, part, {**modes, "nearest_mode": "floor" if grows else "ceil"})
    return [y]


def _axes(node: Node, operands: Sequence[Operand], shape: Shape) -> list[_Axis]:
    """The axes whose length or content changes."""
    by_input = node.version >= 11
    roi = given(operands, 1) if by_input else None
    scales = given(operands, 2 if by_input else 1)
    sizes = given(operands, 3) if by_input else None
    if "scales" in node.attributes:  # Upsample 7
        scales = np.array(node.attributes["scales"], dtype=np.float32)
    named = [a % len(shape) for a in node.attributes.get("axes") or range(len(shape))]
    cropped = node.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    region = constant(roi, "the region of interest").reshape(2, -1) if cropped else None
    scale_of = size_of = None
    if sizes is not None and constant(sizes, "the size").size:
        size_of = [int(v) for v in constant(sizes, "the size")]
        lengths = _with_policy(node, size_of, [shape[a] for a in named])
    else:
        scale_of = [float(v) for v in constant(scales, "the scale")]
        lengths = [math.floor(shape[a] * np.float32(v)) for a, v in zip(named, scale_of, strict=True)]
    found = []
    for i, a in enumerate(named):
        window = None if region is None else (float(region[0, i]), float(region[1, i]))
        scale, size = scale_of[i] if scale_of else None, size_of[i] if size_of else None
        same = shape[a] == lengths[i] and scale in (None, 1.0) and window in (None, (0.0, 1.0))
        if not same or _policy(node) != "stretch":
            found.append(_Axis(a, shape[a], lengths[i], scale, size, window))
    return found


def _with_policy(node: Node, sizes: list[int], lengths: list[int]) -> list[int]:
    """Output lengths under `keep_aspect_ratio_policy`."""
    if _policy(node) == "stretch":
        return sizes
    choose = min if _policy(node) == "not_larger" else max
    scale = choose(np.float32(s) / np.float32(d) for s, d in zip(sizes, lengths, strict=True))
    return [math.floor(scale * np.float32(d) + np.float32(0.5)) for d in lengths]


def _policy(node: Node) -> str:
    return str(node.attributes.get("keep_aspect_ratio_policy", "stretch"))


def _resized(build: Builder, x: Value, axes: Sequence[_Axis], modes: dict[str, Any]) -> Value:
    """One primitive over `[b * lead, C, H, W]` (onnxruntime's fast form), or `[b * lead, C, D, H, W]`, or more axes."""
    if not axes:
        return x
    rank, first = len(x.shape), axes[0].at
    trailing = max(rank - first, 2)  # axes at the end that are not folded
    inner = (1,) * max(trailing - rank, 0) + x.shape[max(rank - trailing, 0) :]
    channels = x.shape[rank - trailing - 1] if rank > trailing else 1
    lead = x.size // (channels * math.prod(inner))
    stored = (channels, *inner)
    at = [a.at + len(stored) + 1 - rank for a in axes]
    after = list(stored)
    for place, a in zip(at, axes, strict=True):
        after[place - 1] = a.after
    shape = list(x.shape)
    for a in axes:
        shape[a.at] = a.after
    roi = None if axes[0].roi is None else np.array([a.roi for a in axes], dtype=np.float32).T.reshape(-1)
    scales = None if axes[0].scale is None else np.array([a.scale for a in axes], dtype=np.float32)
    sizes = None if axes[0].size is None else np.array([a.size for a in axes], dtype=np.int64)
    inputs = [build.view(x, stored, lead), roi, scales, sizes]
    y = build.emit("Resize", inputs[: 3 if sizes is None else 4], tuple(after), lead=lead, axes=at, **modes)
    return build.shaped(y, tuple(shape))


def _filled(build: Builder, node: Node, axes: Sequence[_Axis], y: Value) -> Value:
    """`extrapolation_value` where tf_crop_and_resize looks outside: the primitive itself puts zeros there."""
    value = node.attributes.get("extrapolation_value", 0.0)
    if node.attributes.get("coordinate_transformation_mode") != "tf_crop_and_resize" or not value:
        return y
    outside = np.zeros((1,) * len(y.shape), dtype=bool)
    for a in axes:
        assert a.roi is not None
        steps = np.arange(a.after, dtype=np.float32)
        start, end = np.float32(a.roi[0]), np.float32(a.roi[1])
        span = (end - start) * (a.before - 1)
        place = start * (a.before - 1) + (steps * span / max(a.after - 1, 1) if a.after > 1 else 0.5 * span)
        beyond = np.broadcast_to((place < 0) | (place > a.before - 1), (a.after,))
        outside = outside | beyond.reshape(-1, *[1] * (len(y.shape) - a.at - 1))
    return where(build, outside, value, y, y.dtype)


def matrices(primitive_inputs: Sequence[Any], attributes: dict[str, Any], stored: Shape) -> dict[int, NDArray[Any]]:
    """For each resized array axis the matrix `[before, after]` with y = x @ matrix along it.

    `primitive_inputs` are roi, scales and sizes as arrays or None; `stored` is the operand's shape behind the lanes.
    """
    roi, scales, sizes = [*primitive_inputs, None, None, None][:3]
    modes = tuple(sorted((k, v) for k, v in attributes.items() if k != "axes"))
    axes = attributes["axes"]
    every = range(len(axes))
    coupled = attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch"
    found = {}
    for i, axis in enumerate(axes):
        seen = list(every) if coupled else [i]  # the axes on which the scale of this one depends
        found[axis] = _matrix(
            modes,
            tuple(stored[axes[j] - 1] for j in seen),
            None if scales is None else tuple(float(scales[j]) for j in seen),
            None if sizes is None else tuple(int(sizes[j]) for j in seen),
            None if roi is None else tuple(float(roi[j + k]) for k in (0, len(axes)) for j in seen),
            seen.index(i),
        )
    return found


@lru_cache(maxsize=256)
def _matrix(
    modes: tuple[tuple[str, Any], ...],
    lengths: Shape,
    scales: tuple[float, ...] | None,
    sizes: tuple[int, ...] | None,
    roi: tuple[float, ...] | None,
    which: int,
) -> NDArray[np.float32]:
    """What onnxruntime makes of the unit vectors of axis `which` of an array of `lengths`, constant along others."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    from falsifier.network import runtime

    arrays = {
        "roi": None if roi is None else np.array(roi, dtype=np.float32),
        "scales": None if scales is None else np.array(scales, dtype=np.float32),
        "sizes": None if sizes is None else np.array(sizes, dtype=np.int64),
    }
    names = ["x", *(name if a is not None else "" for name, a in arrays.items())]
    before, ones = lengths[which], (1,) * max(3 - len(lengths), 1)
    shape = (before, *ones, *lengths)
    axes = list(range(len(shape) - len(lengths), len(shape)))
    node = helper.make_node("Resize", names if sizes is not None else names[:3], ["y"], axes=axes, **dict(modes))
    graph = helper.make_graph(
        [node],
        "resize",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a, name) for name, a in arrays.items() if a is not None],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=8)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), runtime.session_options(threads=1), providers=["CPUExecutionProvider"]
    )
    along = [1] * len(shape)
    along[0] = along[axes[which]] = before
    unit = np.broadcast_to(np.eye(before, dtype=np.float32).reshape(along), shape)
    y = np.asarray(session.run(None, {"x": np.ascontiguousarray(unit)})[0])
    rest = tuple(slice(None) if a in (0, axes[which]) else 0 for a in range(len(shape)))
    return np.ascontiguousarray(y[rest])


def resize_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    (g,) = gradients
    assert g is not None
    x = build.program.values[primitive.inputs[0]]
    inputs = [build.program.constants.get(name) for name in primitive.inputs[1:]]
    stored = list(g.stored)
    result = g
    for axis, matrix in matrices(inputs, primitive.attributes, x.stored).items():
        stored[axis - 1] = x.stored[axis - 1]
        matrix = matrix.astype(g.dtype)
        if axis == len(stored):
            result = build.emit("MatMul", [result, matrix.T.copy()], tuple(stored), lead=x.lead)
            continue
        apart = (*result.stored[:axis], math.prod(result.stored[axis:]))
        product = (*stored[:axis], apart[-1])
        moved = build.emit("MatMul", [matrix, build.view(result, apart, x.lead)], product, lead=x.lead)
        result = build.view(moved, tuple(stored), x.lead)
    return [result, *[None] * (len(primitive.inputs) - 1)]


def resize_torch(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    import torch

    y = inputs[0]
    rest = [None if i is None else i.numpy() for i in inputs[1:]]
    for axis, matrix in matrices(rest, attributes, tuple(y.shape[1:])).items():
        if attributes.get("mode", "nearest") == "nearest" and (matrix.max(axis=0) == 1).all():
            y = y.index_select(axis, torch.from_numpy(matrix.argmax(axis=0)).to(y.device))
        else:
            y = (y.movedim(axis, -1) @ torch.tensor(matrix, dtype=y.dtype, device=y.device)).movedim(-1, axis)
    return (y,)


LOWERINGS = {"Resize": lower_resize, "Upsample": lower_resize}
PRIMITIVES = {"Resize": PrimitiveRule(resize_torch, resize_adjoint)}
