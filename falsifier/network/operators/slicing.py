"""Parts of tensors at places known beforehand: Concat, Slice, Split, and Gather with constant indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Gradients, Node, PrimitiveRule
from falsifier.network.operators.shape import constant_operand
from falsifier.network.operators.sparse import GATHERED
from falsifier.network.program import Builder, Operand, Primitive, Shape, Value

_END = np.iinfo(np.int64).max


def lower_concat(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """Constants are repeated in every lane; empty ones count for nothing."""
    parts = [o for o in operands if o is not None and not (isinstance(o, np.ndarray) and o.size == 0)]
    rank = len(parts[0].shape)
    axis = node.attributes["axis"] % rank
    values = [o if isinstance(o, Value) else build.spread(o) for o in parts]
    if len(values) == 1:
        return values
    shape = list(values[0].shape)
    shape[axis] = sum(v.shape[axis] for v in values)
    drop = _unit_axes(shape, axis)
    stored = [build.view(v, v.shape[drop:]) for v in values]
    y = build.emit("Concat", stored, tuple(shape[drop:]), values[0].dtype, axis=axis - drop + 1)
    return [build.shaped(y, tuple(shape))]


def _unit_axes(shape: Sequence[int], below: int) -> int:
    """How many leading axes before `below` have length 1: they need not be stored."""
    return next((i for i in range(below) if shape[i] != 1), below)


def slices_of(node: Node, shape: Shape, rest: Sequence[NDArray[Any] | None]) -> tuple[slice, ...]:
    """A Slice node as Python slices: bounds as attributes (opset below 10) or as the operands after the data."""
    given = [None if a is None else [int(i) for i in a.ravel()] for a in rest]
    starts, ends, axes, steps = (given + [None] * 4)[:4]
    starts = node.attributes["starts"] if starts is None else starts
    ends = node.attributes["ends"] if ends is None else ends
    axes = node.attributes.get("axes") if axes is None else axes
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    result = [slice(0, d, 1) for d in shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        d = shape[axis]
        lowest, highest = (0, d) if step > 0 else (-1, d - 1)  # -1: before the first element
        start = min(max(start + d if start < 0 else start, max(lowest, 0)), highest)
        end = min(max(end + d if end < 0 else end, lowest), highest)
        result[axis] = slice(start, end if end >= 0 else None, step)
    return tuple(result)


def lower_slice(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x = operands[0]
    if not isinstance(x, Value):
        raise UnsupportedError("bounds that depend on the input")
    rest = [constant_operand(operands, i, "a bound") for i in range(1, len(operands))]
    return [take_slices(build, x, slices_of(node, x.shape, rest))]


def take_slices(build: Builder, x: Value, slices: tuple[slice, ...]) -> Value | NDArray[Any]:
    """The part of a sample that Python slices select, one per axis. An empty part is a constant: it holds nothing."""
    counts = tuple(len(range(d)[s]) for d, s in zip(x.shape, slices, strict=True))
    cut = [i for i, s in enumerate(slices) if s != slice(0, x.shape[i], 1)]
    if counts == x.shape and all(slices[i].step == 1 for i in cut):
        return x
    if 0 in counts:
        return np.empty(counts, dtype=x.dtype)
    drop = _unit_axes(x.shape, cut[0])
    axes = np.array([i - drop + 1 for i in cut], dtype=np.int64)
    starts = np.array([slices[i].start for i in cut], dtype=np.int64)
    ends = np.array([-_END if slices[i].stop is None else slices[i].stop for i in cut], dtype=np.int64)
    steps = np.array([slices[i].step for i in cut], dtype=np.int64)
    y = build.emit("Slice", [build.view(x, x.shape[drop:]), starts, ends, axes, steps], counts[drop:])
    return build.shaped(y, counts)


def lower_split(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x = operands[0]
    assert isinstance(x, Value)
    axis = node.attributes.get("axis", 0) % len(x.shape)
    given = constant_operand(operands, 1, "the sizes")
    sizes = node.attributes.get("split") if given is None else given.ravel().tolist()
    if sizes is None:
        count = node.attributes.get("num_outputs", len(node.outputs))
        step = -(-x.shape[axis] // count)  # the last part may be smaller (opset 18)
        sizes = [min(step, x.shape[axis] - i * step) for i in range(count)]
    shapes = [(*x.shape[:axis], int(s), *x.shape[axis + 1 :]) for s in sizes]
    if 0 in sizes:
        ends = np.cumsum(sizes).tolist()
        whole = [slice(0, d, 1) for d in x.shape]
        parts = [(*whole[:axis], slice(e - s, e, 1), *whole[axis + 1 :]) for s, e in zip(sizes, ends, strict=True)]
        return [take_slices(build, x, part) for part in parts]
    drop = _unit_axes(x.shape, axis)
    cut = build.emit_many(
        "Split",
        [build.view(x, x.shape[drop:]), np.array(sizes, dtype=np.int64)],
        [(s[drop:], x.dtype) for s in shapes],
        axis=axis - drop + 1,
    )
    return [build.shaped(p, s) for p, s in zip(cut, shapes, strict=True)]


def lower_gather(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x, indices = operands
    if isinstance(indices, Value):
        from falsifier.network.operators import indexing

        return indexing.lower_gather_by_value(build, node, operands)
    assert isinstance(x, Value)
    assert indices is not None
    axis = node.attributes.get("axis", 0) % len(x.shape)
    d = x.shape[axis]
    places = np.where(indices < 0, indices + d, indices).astype(np.int64)
    shape = (*x.shape[:axis], *places.shape, *x.shape[axis + 1 :])
    if places.size == 0:
        return [np.empty(shape, dtype=x.dtype)]
    if places.min() < 0 or places.max() >= d:
        raise UnsupportedError(f"index {int(places.max())} is outside an axis of length {d}")
    flat = places.ravel()
    if (np.diff(flat) == 1).all():
        slices = [slice(0, k, 1) for k in x.shape]
        slices[axis] = slice(int(flat[0]), int(flat[-1]) + 1, 1)
        part = take_slices(build, x, tuple(slices))
        assert isinstance(part, Value)
        return [build.shaped(part, shape)]
    drop = _unit_axes(x.shape, axis)
    stored = (*x.shape[drop:axis], flat.size, *x.shape[axis + 1 :])
    y = build.emit("Gather", [build.view(x, x.shape[drop:]), flat], stored, axis=axis - drop + 1)
    return [build.shaped(y, shape)]


def concat_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    (g,) = gradients
    assert g is not None
    values = [build.program.values[name] for name in primitive.inputs]
    axis = primitive.attributes["axis"]
    sizes = np.array([v.stored[axis - 1] for v in values], dtype=np.int64)
    return build.emit_many("Split", [g, sizes], [(v.stored, g.dtype) for v in values], lead=g.lead, axis=axis)


def split_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """The parts side by side, zeros where nothing flows."""
    x = build.program.values[primitive.inputs[0]]
    dtype = next(g.dtype for g in gradients if g is not None)
    parts = [
        g if g is not None else build.spread(np.zeros(build.program.values[name].stored, dtype))
        for name, g in zip(primitive.outputs, gradients, strict=True)
    ]
    return [build.emit("Concat", parts, x.stored, dtype, axis=primitive.attributes["axis"]), None]


def slice_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """Zeros around the gradient; where the slice skipped, zeros between its elements first."""
    (g,) = gradients
    assert g is not None
    x = build.program.values[primitive.inputs[0]]
    starts, ends, axes, steps = (build.program.constants[name].tolist() for name in primitive.inputs[1:])
    before, after = [0] * (len(x.stored) + 1), [0] * (len(x.stored) + 1)
    for start, _, axis, step in zip(starts, ends, axes, steps, strict=True):
        d, count = x.stored[axis - 1], g.stored[axis - 1]
        if step < 0:
            arguments = [np.array([i], dtype=np.int64) for i in (-1, -_END, axis, -1)]
            g = build.emit("Slice", [g, *arguments], g.stored, lead=g.lead)
            start, step = start + (count - 1) * step, -step
        if step > 1:
            apart = (*g.stored[: axis - 1], count, 1, *g.stored[axis:])
            wide = (*g.stored[: axis - 1], count, step, *g.stored[axis:])
            pads = [0] * (2 * (len(apart) + 1))
            pads[len(apart) + 1 + axis + 1] = step - 1
            g = build.emit("Pad", [build.view(g, apart, g.lead), np.array(pads, dtype=np.int64)], wide, lead=g.lead)
            g = build.view(g, (*wide[: axis - 1], count * step, *wide[axis + 1 :]), g.lead)
        before[axis], after[axis] = start, d - start - g.stored[axis - 1]
    # where the last step reaches beyond the end, Pad cuts the zeros off again (negative padding)
    pads = [*before, *after]
    if any(pads):
        g = build.emit("Pad", [g, np.array(pads, dtype=np.int64)], x.stored, lead=x.lead)
    return [g, None, None, None, None]


_FEW_ROUNDS = 4


def gather_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """Each element of x sums the gradients of its copies: gathers of first copies, second ones.., or a 0/1 matrix."""
    (g,) = gradients
    assert g is not None
    x = build.program.values.get(primitive.inputs[0])
    if x is None:
        return [None, None]
    places = build.program.constants[primitive.inputs[1]].ravel()
    axis = primitive.attributes["axis"]
    d = x.stored[axis - 1]
    copies = np.bincount(places, minlength=d)
    if copies.max() > max(_FEW_ROUNDS, places.size // GATHERED):
        matrix = np.zeros((d, places.size), dtype=g.dtype)
        matrix[places, np.arange(places.size)] = 1
        apart = (*g.stored[:axis], int(np.prod(g.stored[axis:], dtype=np.int64)))
        y = build.emit("MatMul", [matrix, build.view(g, apart, g.lead)], (*apart[:-2], d, apart[-1]), lead=g.lead)
        return [build.view(y, x.stored, x.lead), None]
    order = np.argsort(places, kind="stable")
    first = np.cumsum(copies) - copies
    total: Value | None = None
    for copy in range(int(copies.max())):
        has = copies > copy
        source = np.where(has, order[np.minimum(first + copy, places.size - 1)], 0).astype(np.int64)
        part = build.emit("Gather", [g, source], x.stored, lead=g.lead, axis=axis)
        if not has.all():
            mask = has.reshape((d,) + (1,) * (len(x.stored) - axis))
            # Where, not Mul: an infinite gradient must not become NaN in elements that it does not belong to
            part = build.emit("Where", [mask, part, np.zeros((), g.dtype)], x.stored, g.dtype, lead=g.lead)
        total = part if total is None else build.emit("Add", [total, part], x.stored, lead=g.lead)
    return [total, None]


def torch_slice(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    """torch has no negative steps: what a negative step selects is gathered by index."""
    import torch

    x = inputs[0]
    starts, ends, axes, steps = (i.tolist() for i in inputs[1:])
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        d = x.shape[axis]
        if step > 0:
            x = x[(slice(None),) * axis + (slice(start, end, step),)]
        else:
            indices = list(range(d)[slice(start, None if end < -d else end, step)])
            x = x.index_select(axis, torch.tensor(indices, device=x.device))
    return (x,)


def torch_concat(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    import torch

    return (torch.cat(tuple(inputs), dim=attributes["axis"]),)


def torch_split(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(inputs[0].split(inputs[1].tolist(), dim=attributes["axis"]))


def torch_gather(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    """Indices are flat; index_select is the primitive whose backward is fast."""
    x, indices = inputs
    axis = attributes["axis"]
    taken = x.index_select(axis, indices.reshape(-1).to(x.device))
    return (taken.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]),)


LOWERINGS = {"Concat": lower_concat, "Slice": lower_slice, "Split": lower_split, "Gather": lower_gather}
PRIMITIVES = {
    "Concat": PrimitiveRule(torch_concat, concat_adjoint),
    "Slice": PrimitiveRule(torch_slice, slice_adjoint),
    "Split": PrimitiveRule(torch_split, split_adjoint),
    "Gather": PrimitiveRule(torch_gather, gather_adjoint),
}
