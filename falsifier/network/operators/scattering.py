"""Scattering into rows: what Scatter, ScatterElements, ScatterND, MaxUnpool, Col2Im and several adjoints come down to.

Each lane holds D rows of `rest` entries, `[b, D]` (rest 1) or `[b, D, rest]`; K updates go to given rows. Where rows
are constants nothing is scattered: the result is put together from slices and gathers, which are faster and have simple
adjoints. Otherwise the primitive ScatterElements does it lane by lane (onnxruntime's ScatterND has no batch axis).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Gradients, PrimitiveRule
from falsifier.network.operators.composition import Tensor
from falsifier.network.program import Builder, Primitive, Shape, Value

_MOST_ROUNDS = 8  # updates of one row up to which constant rows are gathered, round by round
_MOST_RUNS = 16  # runs of consecutive rows up to which they are slices
_COMBINE = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}


def scatter_rows(
    build: Builder, data: Tensor | None, rows: Tensor, updates: Tensor, count: int, reduction: str, rest: int = 1
) -> Value:
    """`data` with `updates` written to, or combined with, its rows. At least one operand is a Value.

    Args:
        data: `[count]` or `[count, rest]` per lane; None for zeros.
        rows: integers `[K]` per lane; negative ones count from the end.
        updates: `[K]` or `[K, rest]` per lane.
        reduction: none (the last one wins), add, mul, max or min.
    """
    lead = next(v.lead for v in (data, rows, updates) if isinstance(v, Value))
    shape: Shape = (count,) if rest == 1 else (count, rest)
    dtype = updates.dtype
    data = np.zeros(shape, dtype) if data is None else data
    if isinstance(rows, np.ndarray):
        rows = np.where(rows < 0, rows + count, rows).reshape(-1)
        if rows.size and (rows.min() < 0 or rows.max() >= count):
            raise UnsupportedError("an index is out of range")
        rounds = _rounds(rows) if reduction != "none" else [_last(rows)]
        if len(rounds) <= _MOST_ROUNDS:
            return _in_rounds(build, data, rows, rounds, updates, shape, reduction)
    source, at, new = (_with_lanes(build, v, lead) for v in (data, rows, updates))
    if rest > 1:
        at = build.view(at, (at.stored[0], 1), lead)
        at = build.emit("Expand", [at, np.array([1, 1, rest])], (at.stored[0], rest), lead=lead)
    return build.emit("ScatterElements", [source, at, new], shape, dtype, lead=lead, axis=1, reduction=reduction)


def select_rows(build: Builder, parts: Sequence[Tensor], rows: NDArray[Any], rest: int = 1) -> Value:
    """Constant rows, counted over the `parts` one after the other: as slices where they are few runs."""
    values = [p for p in parts if isinstance(p, Value)]
    lead, dtype = values[0].lead, values[0].dtype
    tail: Shape = () if rest == 1 else (rest,)
    starts = np.cumsum([0] + [p.shape[0] if isinstance(p, np.ndarray) else p.stored[0] for p in parts])
    part = np.searchsorted(starts, rows, side="right") - 1
    cuts = np.flatnonzero((np.diff(rows) != 1) | (np.diff(part) != 0)) + 1
    runs = [run for run in np.split(np.arange(rows.size), cuts) if run.size]
    if len(runs) <= _MOST_RUNS:
        pieces = []
        for run in runs:
            source = parts[part[run[0]]]
            first = int(rows[run[0]] - starts[part[run[0]]])
            pieces.append(_slice(build, source, first, first + run.size, tail))
        if len(pieces) == 1 and isinstance(pieces[0], Value):
            return pieces[0]
        return _concat(build, pieces, lead, (rows.size, *tail))
    used = np.unique(part)
    moved = np.zeros(len(parts), dtype=np.int64)
    sizes = np.diff(starts)
    for before, p in zip([None, *used[:-1]], used, strict=True):
        moved[p] = 0 if before is None else moved[before] + sizes[before]
    source = _concat(build, [parts[p] for p in used], lead, (int(sizes[used].sum()), *tail))
    new_rows = (rows - starts[part] + moved[part]).astype(np.int64)
    return build.emit("Gather", [source, new_rows], (rows.size, *tail), dtype, lead=lead, axis=1)


def _slice(build: Builder, source: Tensor, first: int, last: int, tail: Shape) -> Tensor:
    if not isinstance(source, Value):
        return source[first:last]
    if (first, last) == (0, source.stored[0]):
        return source
    bounds = [np.array([v]) for v in (first, last, 1, 1)]  # starts, ends, axes, steps
    return build.emit("Slice", [source, *bounds], (last - first, *tail), lead=source.lead)


def _concat(build: Builder, pieces: Sequence[Tensor], lead: int, shape: Shape) -> Value:
    values = [_with_lanes(build, p, lead) for p in pieces]
    if len(values) == 1:
        return values[0]
    return build.emit("Concat", values, shape, lead=lead, axis=1)


def _with_lanes(build: Builder, operand: Tensor, lead: int) -> Value:
    if isinstance(operand, Value):
        return operand
    if lead == 1:
        return build.spread(operand)
    return build.view(build.spread(np.broadcast_to(operand, (lead, *operand.shape))), operand.shape, lead)


def _last(rows: NDArray[Any]) -> NDArray[Any]:
    """Of the updates of each row, the last one's number."""
    return rows.size - 1 - np.unique(rows[::-1], return_index=True)[1]


def _rounds(rows: NDArray[Any]) -> list[NDArray[Any]]:
    """Numbers of updates, such that those of one round go to different rows, in order."""
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    firsts = np.searchsorted(ordered, ordered)
    turn = np.arange(rows.size) - firsts
    return [order[turn == t] for t in range(int(turn.max(initial=-1)) + 1)]


def _in_rounds(
    build: Builder,
    data: Tensor,
    rows: NDArray[Any],
    rounds: Sequence[NDArray[Any]],
    updates: Tensor,
    shape: Shape,
    reduction: str,
) -> Value:
    """Constant rows: every round is a selection among the updates and what was there."""
    count, rest = shape[0], shape[1] if len(shape) > 1 else 1
    lead = next(v.lead for v in (data, updates) if isinstance(v, Value))
    result = data
    for chosen in rounds:
        combined = updates
        if reduction != "none":
            at = rows[chosen]
            old = select_rows(build, [result], at, rest) if isinstance(result, Value) else result[at]
            new = select_rows(build, [updates], chosen, rest) if isinstance(updates, Value) else updates[chosen]
            combined = _combine(build, _COMBINE[reduction], old, new)
            chosen = np.arange(chosen.size)
            at_all = at
        else:
            at_all = rows[chosen]
        source = np.arange(count)
        source[at_all] = count + chosen
        result = select_rows(build, [result, combined], source, rest)
    return _with_lanes(build, result, lead)


def _combine(build: Builder, op: str, old: Tensor, new: Tensor) -> Tensor:
    if isinstance(old, Value) or isinstance(new, Value):
        value = old if isinstance(old, Value) else new
        assert isinstance(value, Value)
        return build.emit(op, [old, new], value.stored, lead=value.lead)
    return {"Add": np.add, "Mul": np.multiply, "Max": np.maximum, "Min": np.minimum}[op](old, new)


def scatter_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    (g,) = gradients
    assert g is not None
    data, at, updates = (build.program.values[name] for name in primitive.inputs)
    y = build.program.values[primitive.outputs[0]]
    axis = primitive.attributes["axis"]
    reduction = primitive.attributes.get("reduction", "none")

    def scatter(target: Value, source: Value, how: str) -> Value:
        return build.emit(
            "ScatterElements", [target, at, source], y.stored, target.dtype, lead=y.lead, axis=axis, reduction=how
        )

    def gather(source: Value) -> Value:
        return build.emit("GatherElements", [source, at], at.stored, source.dtype, lead=y.lead, axis=axis)

    def masked(gradient: Value, equal: Sequence[Tensor], stored: Shape) -> Value:
        mask = build.emit("Equal", equal, stored, np.bool_, lead=y.lead)
        return build.emit("Mul", [gradient, build.cast(mask, g.dtype)], stored, lead=y.lead)

    if reduction == "add":
        return [g, None, gather(g)]
    if reduction in ("max", "min"):
        return [masked(g, [data, y], y.stored), None, masked(gather(g), [updates, gather(y)], at.stored)]
    if reduction == "none":
        # the number of each update, scattered like the updates, comes back to those that nothing overwrote
        number = np.arange(int(np.prod(at.stored)), dtype=np.int64).reshape(at.stored)
        numbers = _with_lanes(build, number, y.lead)
        kept = scatter(_with_lanes(build, np.full(y.stored, -1), y.lead), numbers, "none")
        wins = masked(gather(g), [numbers, gather(kept)], at.stored)
        nothing = _with_lanes(build, np.zeros(at.stored, g.dtype), y.lead)
        return [scatter(g, nothing, "none"), None, wins]
    # mul: everything else at an entry's place, by the product of what is not zero there and the number of zeros
    ones, zeros = (_with_lanes(build, np.full(y.stored, v, g.dtype), y.lead) for v in (1, 0))
    (new_filled, new_zero), (old_filled, old_zero) = (_zeros_apart(build, v) for v in (updates, data))
    products = scatter(ones, new_filled, "mul")
    zero_updates = scatter(zeros, new_zero, "add")
    zero_count = build.emit("Add", [zero_updates, old_zero], y.stored, lead=y.lead)

    def share(flow: Value, product: Value, other_zeros: Value) -> Value:
        partial = build.emit("Mul", [flow, product], flow.stored, lead=y.lead)
        return masked(partial, [other_zeros, np.zeros((), g.dtype)], flow.stored)

    whole = build.emit("Mul", [products, old_filled], y.stored, lead=y.lead)
    others = build.emit("Div", [gather(whole), new_filled], at.stored, lead=y.lead)
    remaining = build.emit("Sub", [gather(zero_count), new_zero], at.stored, lead=y.lead)
    return [share(g, products, zero_updates), None, share(gather(g), others, remaining)]


def _zeros_apart(build: Builder, x: Value) -> tuple[Value, Value]:
    """The value with ones for its zeros, and where they are, as numbers."""
    zero = build.emit("Equal", [x, np.zeros((), x.dtype)], x.stored, np.bool_, lead=x.lead)
    filled = build.emit("Where", [zero, np.ones((), x.dtype), x], x.stored, x.dtype, lead=x.lead)
    return filled, build.cast(zero, x.dtype)


def scatter_torch(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    data, at, updates = inputs
    axis = attributes.get("axis", 0)
    at = at.long()
    at = at.where(at >= 0, at + data.shape[axis])
    reduction = attributes.get("reduction", "none")
    if reduction == "none":
        return (data.scatter(axis, at, updates),)
    how = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}[reduction]
    return (data.scatter_reduce(axis, at, updates, how),)


def gather_elements_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    (g,) = gradients
    assert g is not None
    data, at = (build.program.values[name] for name in primitive.inputs)
    nothing = _with_lanes(build, np.zeros(data.stored, g.dtype), data.lead)
    axis = primitive.attributes["axis"]
    result = build.emit(
        "ScatterElements", [nothing, at, g], data.stored, g.dtype, lead=data.lead, axis=axis, reduction="add"
    )
    return [result, None]


def gather_elements_torch(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    data, at = inputs
    axis = attributes.get("axis", 0)
    at = at.long()
    return (data.gather(axis, at.where(at >= 0, at + data.shape[axis])),)


def gather_nd_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """Of whole rows of each lane: data `[b, D, rest]`, indices `[b, K, 1]`."""
    (g,) = gradients
    assert g is not None
    data, at = (build.program.values[name] for name in primitive.inputs)
    count, rest = data.stored
    rows = build.view(at, (at.stored[0],), at.lead)
    return [scatter_rows(build, None, rows, g, count, "add", rest), None]


def gather_nd_torch(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    import torch

    data, at = inputs
    rows = at[..., 0].long()
    rows = rows.where(rows >= 0, rows + data.shape[1])
    return (data[torch.arange(data.shape[0], device=data.device)[:, None], rows],)


PRIMITIVES = {
    "ScatterElements": PrimitiveRule(scatter_torch, scatter_adjoint),
    "GatherElements": PrimitiveRule(gather_elements_torch, gather_elements_adjoint),
    "GatherND": PrimitiveRule(gather_nd_torch, gather_nd_adjoint),
}
LOWERINGS: dict[str, Any] = {}
