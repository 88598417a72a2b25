"""DeformConv: an image read at moved places, once per tap of the kernel, and a product with the weights."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Node, PrimitiveRule
from falsifier.network.operators.composition import compose
from falsifier.network.operators.elementwise import combine, present
from falsifier.network.program import Builder, Operand, Shape, Value


def lower_deform_conv(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """Bilinear in between, 0 outside the image. Offsets come as (row, column), one pair per group, tap and place."""
    x, weight, offset = present(operands[:3])
    bias, mask = (*operands[3:], None, None)[:2]
    if len(x.shape) != 4:
        raise UnsupportedError(f"DeformConv over {len(x.shape) - 2} axes")
    batch, channels, height, width = x.shape
    filters, kernel, places = weight.shape[0], weight.shape[2:], offset.shape[2:]
    groups, offset_groups = (int(node.attributes.get(name, 1)) for name in ("group", "offset_group"))
    taps = prod(kernel)

    moves = compose(build, "Reshape", offset, np.array([batch, offset_groups, taps, 2, *places]))
    moves = compose(build, "Gather", moves, np.array([1, 0]), axis=3)  # (column, row), as GridSample has them
    moves = compose(build, "Transpose", moves, perm=[0, 1, 2, 4, 5, 3])
    scale = np.array([2 / width, 2 / height])
    start = (2 * _regular(node, kernel, places) + 1) / np.array([width, height]) - 1
    grid = combine(build, "Add", combine(build, "Mul", moves, scale.astype(x.dtype)), start.astype(x.dtype))

    parts = (batch * offset_groups, channels // offset_groups)
    image = compose(build, "Reshape", x, np.array([*parts, height, width]))
    grid = compose(build, "Reshape", grid, np.array([parts[0], taps * places[0], places[1], 2]))
    if not isinstance(image, Value) and not isinstance(grid, Value):
        raise UnsupportedError("DeformConv of a constant image at constant places")
    read = compose(build, "GridSample", image, grid, mode="linear", padding_mode="zeros", align_corners=0)
    if mask is not None:
        read = combine(build, "Mul", read, compose(build, "Reshape", mask, np.array([parts[0], 1, *read.shape[2:]])))

    columns = np.array([batch, groups, channels // groups * taps, prod(places)])
    rows = np.array([groups, filters // groups, channels // groups * taps])
    y = compose(build, "MatMul", compose(build, "Reshape", weight, rows), compose(build, "Reshape", read, columns))
    y = compose(build, "Reshape", y, np.array([batch, filters, *places]))
    if bias is not None:
        y = combine(build, "Add", y, compose(build, "Reshape", bias, np.array([filters, 1, 1])))
    return [y]


def _regular(node: Node, kernel: Shape, places: Shape) -> NDArray[Any]:
    """Where each tap reads without offsets, `[taps, *places, 2]` as (column, row) in pixels."""
    pads = node.attributes.get("pads") or [0] * 4
    strides = node.attributes.get("strides") or [1, 1]
    dilations = node.attributes.get("dilations") or [1, 1]
    at = [
        np.arange(k)[:, None] * dilation + np.arange(n) * stride - pad
        for k, n, dilation, stride, pad in zip(kernel, places, dilations, strides, pads[:2], strict=True)
    ]
    row = np.broadcast_to(at[0][:, None, :, None], (*kernel, *places))
    column = np.broadcast_to(at[1][None, :, None, :], (*kernel, *places))
    return np.stack([column, row], axis=-1).reshape(-1, *places, 2)


LOWERINGS = {"DeformConv": lower_deform_conv}
PRIMITIVES: dict[str, PrimitiveRule] = {}
