"""Gather and Scatter in all their forms, by indices that may depend on the input; Compress, OneHot, EyeLike.

Indices into several axes become row numbers, so that one gather of rows `[b, D, rest]` and one scatter serve them all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Node
from falsifier.network.operators.composition import Tensor, as_value, compose, constant, integers
from falsifier.network.operators.elementwise import compare, elementwise, where
from falsifier.network.operators.scattering import scatter_rows, select_rows
from falsifier.network.program import Builder, Operand, Shape, Value


def lower_gather_by_value(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """Gather whose indices depend on the input."""
    data, indices = operands
    assert data is not None
    assert isinstance(indices, Value)
    rank = len(data.shape)
    axis = node.attributes.get("axis", 0) % rank
    front = [axis, *(i for i in range(rank) if i != axis)]
    rows = compose(build, "Transpose", data, perm=front)
    picked = take_rows(build, rows, _from_start(build, indices, data.shape[axis]))
    # the indices' axes go back to where the axis was
    many = len(indices.shape)
    back = [*range(many, many + axis), *range(many), *range(many + axis, many + rank - 1)]
    return [compose(build, "Transpose", picked, perm=back)]


def lower_gather_elements(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    data, indices = operands
    assert data is not None
    assert indices is not None
    axis = node.attributes.get("axis", 0) % len(data.shape)
    if isinstance(data, Value) and isinstance(indices, Value):
        y = build.emit(
            "GatherElements", [build.sample(data), build.sample(indices)], indices.shape, data.dtype, axis=axis + 1
        )
        return [y]
    rows = _element_rows(build, indices, data.shape, axis)
    return [take_rows(build, _reshaped(build, data, (-1,)), rows)]


def lower_gather_nd(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    data, indices = operands
    assert data is not None
    assert indices is not None
    batch = node.attributes.get("batch_dims", 0)
    depth = indices.shape[-1]
    rows = _nd_rows(build, indices, data.shape, batch)
    return [take_rows(build, _reshaped(build, data, (-1, *data.shape[batch + depth :])), rows)]


def lower_scatter_elements(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """With indices that depend on the input one primitive; constant ones are put together (see `scattering`)."""
    data, indices, updates = operands
    assert data is not None
    assert indices is not None
    assert updates is not None
    axis = node.attributes.get("axis", 0) % len(data.shape)
    reduction = node.attributes.get("reduction", "none")
    if isinstance(indices, Value):
        parts = [build.sample(as_value(build, v)) for v in (data, indices, updates)]
        y = build.emit("ScatterElements", parts, data.shape, data.dtype, axis=axis + 1, reduction=reduction)
        return [y]
    rows = _element_rows(build, indices, data.shape, axis)
    return [_scattered(build, data, rows, updates, (), reduction)]


def lower_scatter_nd(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    data, indices, updates = operands
    assert data is not None
    assert indices is not None
    assert updates is not None
    rows = _nd_rows(build, indices, data.shape, 0)
    reduction = node.attributes.get("reduction", "none")
    return [_scattered(build, data, rows, updates, data.shape[indices.shape[-1] :], reduction)]


def _scattered(build: Builder, data: Tensor, rows: Tensor, updates: Tensor, tail: Shape, reduction: str) -> Operand:
    """Updates written to rows of `tail` entries, in the shape of the data."""
    rest = math.prod(tail)
    count, many = math.prod(data.shape) // rest, math.prod(rows.shape)
    stored = () if rest == 1 else (rest,)

    def flat(operand: Tensor, length: int, stored: Shape) -> Tensor:
        shape = (length, *stored)
        return build.view(operand, shape) if isinstance(operand, Value) else operand.reshape(shape)

    y = scatter_rows(
        build,
        flat(data, count, stored),
        flat(rows, many, ()),
        flat(updates, many, stored),
        count,
        reduction,
        rest,
    )
    return build.shaped(y, data.shape)


def take_rows(build: Builder, data: Tensor, rows: Tensor) -> Value:
    """`data[rows]` per sample. `rows` counts from the start; at least one of the two is a Value."""
    count, tail = data.shape[0], tuple(data.shape[1:])
    rest = math.prod(tail)
    shape = (*rows.shape, *tail)
    many = math.prod(rows.shape)
    stored = (many,) if rest == 1 else (many, rest)
    if not isinstance(data, Value):
        assert isinstance(rows, Value)
        table = data.reshape((count,) if rest == 1 else (count, rest))
        return build.shaped(build.emit("Gather", [table, build.view(rows, (many,))], stored, data.dtype, axis=0), shape)
    source = build.view(data, (count,) if rest == 1 else (count, rest))
    if not isinstance(rows, Value):
        return build.shaped(select_rows(build, [source], rows.reshape(-1), rest), shape)
    if rest == 1:
        picked = build.emit("GatherElements", [source, build.view(rows, (many,))], stored, data.dtype, axis=1)
    else:
        picked = build.emit("GatherND", [source, build.view(rows, (many, 1))], stored, data.dtype, batch_dims=1)
    return build.shaped(picked, shape)


def _from_start(build: Builder, indices: Tensor, count: int) -> Tensor:
    """Indices as int64, negative ones counted from the start. One out of range comes round again: it fails no batch."""
    if isinstance(indices, Value):
        return elementwise(build, "Mod", build.cast(indices, np.int64), count)
    return _known(indices, np.array(count))


def _known(indices: NDArray[Any], counts: NDArray[Any]) -> NDArray[Any]:
    """Constant indices from the start. Raises UnsupportedError for one that is out of range."""
    wide = indices.astype(np.int64)
    if (wide < -counts).any() or (wide >= counts).any():
        raise UnsupportedError("an index is out of range")
    return np.asarray(wide % counts)


def _element_rows(build: Builder, indices: Tensor, shape: Shape, axis: int) -> Tensor:
    """Row numbers in a flattened tensor of `shape` of what (Gather|Scatter)Elements addresses along `axis`."""
    strides = _strides(shape)
    places = np.indices(indices.shape)
    fixed = sum((places[i] * strides[i] for i in range(len(shape)) if i != axis), np.zeros(indices.shape, np.int64))
    along = _from_start(build, indices, shape[axis])
    return compose(build, "Add", compose(build, "Mul", along, np.array(strides[axis])), fixed)


def _nd_rows(build: Builder, indices: Tensor, shape: Shape, batch: int) -> Tensor:
    """Row numbers of what the last axis of `indices` addresses in a tensor of `shape`; `batch` axes are shared."""
    depth = indices.shape[-1]
    counts = shape[batch : batch + depth]
    strides = np.array(_strides(counts))
    if isinstance(indices, Value) and depth == 1:
        rows: Tensor = _from_start(build, build.shaped(indices, indices.shape[:-1]), counts[0])
    elif isinstance(indices, Value):
        positive = elementwise(build, "Mod", build.cast(indices, np.int64), np.array(counts))
        rows = compose(build, "ReduceSum", compose(build, "Mul", positive, strides), np.array([-1]), keepdims=0)
    else:
        rows = (_known(indices, np.array(counts)) * strides).sum(axis=-1)
    if not batch:
        return rows
    shared = np.arange(math.prod(shape[:batch])) * math.prod(counts)
    return compose(build, "Add", rows, shared.reshape(*shape[:batch], *[1] * (len(rows.shape) - batch)))


def _strides(shape: Shape) -> list[int]:
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


def _reshaped(build: Builder, operand: Tensor, shape: Shape) -> Tensor:
    return compose(build, "Reshape", operand, np.array(shape))


def lower_compress(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """The entries along an axis (of the flattened tensor without one) where a constant condition holds."""
    data, condition = operands
    chosen = np.flatnonzero(constant(condition, "which entries Compress keeps"))
    assert data is not None
    axis = node.attributes.get("axis")
    if axis is None:
        return [compose(build, "Gather", _reshaped(build, data, (-1,)), chosen, axis=0)]
    return [compose(build, "Gather", data, chosen, axis=axis)]


def lower_one_hot(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """Comparison with 0, 1, ... along a new axis; an index outside [-depth, depth) is nowhere on."""
    indices, depth, values = operands
    assert indices is not None
    assert values is not None
    (count,) = integers(depth, "the depth of OneHot")
    axis = node.attributes.get("axis", -1) % (len(indices.shape) + 1)
    shape = (*indices.shape[:axis], 1, *indices.shape[axis:])
    numbers = np.arange(count).reshape(-1, *[1] * (len(shape) - axis - 1))
    if isinstance(indices, Value):
        wide = build.shaped(build.cast(indices, np.int64), shape)
        from_end = elementwise(build, "Add", wide, count)
        at = where(build, compare(build, "Less", wide, 0), from_end, wide, np.int64)
        is_on: Tensor = compare(build, "Equal", at, numbers)
    else:
        wide_known = indices.astype(np.int64).reshape(shape)
        is_on = np.where(wide_known < 0, wide_known + count, wide_known) == numbers
    off, on = (_entry(build, values, i) for i in range(2))
    return [where(build, is_on, on, off, values.dtype)]


def _entry(build: Builder, vector: Operand, at: int) -> Tensor:
    if isinstance(vector, np.ndarray):
        return np.asarray(vector[at])
    return compose(build, "Gather", vector, np.array(at), axis=0)


def lower_eye_like(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """A constant: only the shape of the operand matters."""
    x = operands[0]
    assert isinstance(x, Value)
    dtype = x.dtype
    if "dtype" in node.attributes:
        import onnx

        dtype = onnx.helper.tensor_dtype_to_np_dtype(node.attributes["dtype"])
    rows, columns = x.shape
    return [np.eye(rows, columns, k=node.attributes.get("k", 0), dtype=dtype)]


def lower_reverse_sequence(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """The first entries of each sequence back to front: their places are a gather along time, per batch entry."""
    x, lengths = operands
    assert x is not None
    assert lengths is not None
    time = node.attributes.get("time_axis", 0)
    batch = node.attributes.get("batch_axis", 1)
    moved = compose(build, "Transpose", x, perm=[batch, time, *(i for i in range(len(x.shape)) if i not in (0, 1))])
    steps = np.arange(moved.shape[1])
    first = moved.shape[1] * np.arange(moved.shape[0])[:, None]
    if isinstance(lengths, Value):
        ends = build.shaped(build.cast(lengths, np.int64), (*lengths.shape, 1))
        mirrored = elementwise(build, "Sub", ends, steps + 1)
        within = where(build, compare(build, "Less", mirrored, 0), steps, mirrored, np.int64)
        places: Tensor = elementwise(build, "Add", within, first)
    else:
        mirrored_at = lengths.astype(np.int64)[:, None] - 1 - steps
        places = np.where(mirrored_at < 0, steps, mirrored_at) + first
    rows = _reshaped(build, moved, (-1, *moved.shape[2:]))
    picked = take_rows(build, rows, places)
    return [compose(build, "Transpose", picked, perm=[*np.argsort([batch, time]).tolist(), *range(2, len(x.shape))])]


LOWERINGS = {
    "GatherElements": lower_gather_elements,
    "GatherND": lower_gather_nd,
    "Scatter": lower_scatter_elements,
    "ScatterElements": lower_scatter_elements,
    "ScatterND": lower_scatter_nd,
    "Compress": lower_compress,
    "OneHot": lower_one_hot,
    "EyeLike": lower_eye_like,
    "ReverseSequence": lower_reverse_sequence,
}
PRIMITIVES: dict[str, Any] = {}
