"""AffineGrid, GridSample and Col2Im: values read, or added up, at other places of an image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Node, PrimitiveRule
from falsifier.network.operators.composition import Tensor, compose, integers
from falsifier.network.operators.grid_sampling import grid_sample_adjoint
from falsifier.network.program import Builder, Operand, Value

_NAMES = {"bilinear": "linear", "bicubic": "cubic"}  # of opset 16, in the words of opset 20


def lower_grid_sample(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """One primitive; the samples' own batch axis joins the lane axis."""
    x, grid = operands
    assert x is not None
    assert grid is not None
    mode = node.attributes.get("mode", "linear")
    y = build.emit(
        "GridSample",
        [_folded(build, x), _folded(build, grid)],
        (x.shape[1], *grid.shape[1:-1]),
        x.dtype,
        lead=x.shape[0],
        mode=_NAMES.get(mode, mode),
        padding_mode=node.attributes.get("padding_mode", "zeros"),
        align_corners=int(node.attributes.get("align_corners", 0)),
    )
    return [build.shaped(y, (*x.shape[:2], *grid.shape[1:-1]))]


def _folded(build: Builder, operand: Tensor) -> Value:
    return build.fold(operand if isinstance(operand, Value) else build.spread(operand), 1)


def lower_affine_grid(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """The places of a regular grid under an affine map per sample entry: a product with constant places."""
    theta = operands[0]
    if not isinstance(theta, Value):
        raise UnsupportedError("the size of the grid depends on the input")
    n, _, *spatial = integers(operands[1], "the size of the grid")
    aligned = node.attributes.get("align_corners", 0)
    ticks = [np.linspace(-1, 1, d) if aligned and d > 1 else (2 * np.arange(d) + 1) / d - 1 for d in spatial]
    places = np.meshgrid(*ticks, indexing="ij")[::-1]  # the innermost axis comes first
    base = np.stack([*(p.reshape(-1) for p in places), np.ones(math.prod(spatial))], axis=-1).astype(theta.dtype)
    moved = compose(build, "MatMul", base, compose(build, "Transpose", theta, perm=[0, 2, 1]))
    return [compose(build, "Reshape", moved, np.array([n, *spatial, len(spatial)]))]


def grid_sample_torch(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    from torch.nn import functional

    x, grid = inputs
    y = functional.grid_sample(
        x,
        grid,
        mode={"linear": "bilinear", "cubic": "bicubic"}.get(attributes["mode"], "nearest"),
        padding_mode=attributes["padding_mode"],
        align_corners=bool(attributes["align_corners"]),
    )
    return (y,)


def lower_col2im(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """A transposed convolution whose kernel puts each entry of a block at its place."""
    x = operands[0]
    assert isinstance(x, Value)
    image, block = (integers(v, "a size") for v in operands[1:3])
    rank = len(image)
    strides = node.attributes.get("strides") or [1] * rank
    dilations = node.attributes.get("dilations") or [1] * rank
    pads = node.attributes.get("pads") or [0] * (2 * rank)
    rooms = [n + pads[i] + pads[i + rank] - dilations[i] * (block[i] - 1) - 1 for i, n in enumerate(image)]
    grid = [room // s + 1 for room, s in zip(rooms, strides, strict=True)]
    entries = math.prod(block)
    channels = x.shape[1] // entries
    pick = np.eye(entries, dtype=x.dtype).reshape(entries, 1, *block)
    y = compose(
        build,
        "ConvTranspose",
        build.shaped(x, (x.shape[0] * channels, entries, *grid)),
        pick,
        kernel_shape=block,
        strides=strides,
        dilations=dilations,
        pads=pads,
        output_padding=[room % s for room, s in zip(rooms, strides, strict=True)],
    )
    assert isinstance(y, Value)
    return [build.shaped(y, (x.shape[0], channels, *image))]


LOWERINGS = {"AffineGrid": lower_affine_grid, "GridSample": lower_grid_sample, "Col2Im": lower_col2im}
PRIMITIVES = {"GridSample": PrimitiveRule(grid_sample_torch, grid_sample_adjoint)}
