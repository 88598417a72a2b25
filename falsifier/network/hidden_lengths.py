"""Slices at places that the input decides: tensors that are shorter for some lanes than the program stores them.

`x[p : p + k]` has k entries, or fewer (even none) where it reaches over an end. The program stores k entries always and
repeats the last real one; where there is none, a guard says so. Repeating does no harm where tensors say *where* and
*what* to scatter, as long as only elementwise and layout operators come between: the same entry is written once more. A
scatter whose guard is false writes nothing. Anything else that such a tensor reaches is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Node
from falsifier.network.operators.composition import constant
from falsifier.network.operators.elementwise import clip, compare, elementwise, where
from falsifier.network.operators.indexing import lower_gather_by_value
from falsifier.network.program import Builder, Operand, Value

KEEPING = {
    "Abs", "Add", "And", "Cast", "Clip", "Concat", "Div", "Equal", "Exp", "Expand", "Flatten", "Floor", "Greater",
    "Identity", "Less", "Max", "Min", "Mul", "Neg", "Not", "Or", "Relu", "Reshape", "Sigmoid", "Sign", "Sqrt",
    "Squeeze", "Sub", "Tanh", "Transpose", "Unsqueeze", "Where",
}  # fmt: skip
"""Operators that work on each entry, or move entries without mixing them: a repeated entry stays a repeated entry."""

ON_SHAPES = {
    "Add", "Cast", "Concat", "Div", "Equal", "Gather", "Identity", "Mul", "Reshape", "Slice", "Squeeze", "Sub",
    "Unsqueeze", "Where",
}  # fmt: skip
"""What exporters do to a shape before they use it."""


@dataclass(frozen=True)
class Hidden:
    """What is not certain of one tensor.

    `guards`: per slice that it comes from, whether that has an entry (bool `[1]`). `axes`: those that were sliced, None
    once they have been moved about. `counts`: it is computed from a shape in which repeated entries count, so that not
    its entries but their values are uncertain. `mask`: what chose the entries, for the lists of `masked_lists`.
    """

    guards: tuple[Value, ...]
    axes: frozenset[int] | None = None
    counts: bool = False
    mask: Value | None = None


def lower_moving_slice(
    build: Builder, node: Node, operands: Sequence[Operand], known: Hidden | None
) -> tuple[Value, Hidden]:
    """The slice, and what is hidden of it. Raises UnsupportedError where its largest length is not certain.

    `known`: what is hidden of the tensor that is sliced.
    """
    data, start, end, axes, steps = (*operands, None, None)[:5]
    if data is None or not isinstance(start, Value) or not isinstance(end, Value) or start.size != 1 or end.size != 1:
        raise UnsupportedError("a slice whose length depends on the input")
    if steps is not None and constant(steps, "a step").item() != 1:
        raise UnsupportedError("a slice with steps between bounds that depend on the input")
    axis = 0 if axes is None else int(constant(axes, "an axis").item()) % len(data.shape)
    before = Hidden((), frozenset()) if known is None else known
    if before.mask is not None or before.counts or before.axes is None or axis in before.axes:
        raise UnsupportedError("a slice of what has a length that depends on the input")
    (root, first), (other, last) = _from_root(build, start), _from_root(build, end)
    if root != other or last <= first:
        raise UnsupportedError("a slice whose length depends on the input")
    d = data.shape[axis]
    low, high = (_clamped(build, build.shaped(build.cast(v, np.int64), (1,)), d) for v in (start, end))
    places = elementwise(build, "Add", low, np.arange(min(last - first, d)))
    real = elementwise(build, "Min", places, elementwise(build, "Sub", high, 1))
    gather = Node("Gather", "", node.version, {"axis": axis}, node.outputs, node.name)
    (result,) = lower_gather_by_value(build, gather, [data, clip(build, real, 0, d - 1)])
    assert isinstance(result, Value)
    guard = compare(build, "Greater", high, low)
    return result, Hidden((*before.guards, guard), before.axes | {axis})


def _from_root(build: Builder, value: Value) -> tuple[str, int]:
    """A number per lane as another one plus a constant: the other one's name, and the constant."""
    name, offset = value.name, 0
    while (primitive := build.producer(name)) is not None:
        if primitive.op in ("Identity", "Reshape"):
            name = primitive.inputs[0]
            continue
        if primitive.op not in ("Add", "Sub"):
            break
        left, right = (build.program.constants.get(i) for i in primitive.inputs)
        if right is not None and right.size == 1 and right.dtype.kind == "i":
            name, offset = primitive.inputs[0], offset + int(right.item()) * (1 if primitive.op == "Add" else -1)
        elif left is not None and left.size == 1 and left.dtype.kind == "i" and primitive.op == "Add":
            name, offset = primitive.inputs[1], offset + int(left.item())
        else:
            break
    return name, offset


def _clamped(build: Builder, bound: Value, d: int) -> Value:
    """A bound as the slice reads it: counted from the end if negative, and no further than the ends."""
    from_end = elementwise(build, "Add", bound, d)
    return clip(build, where(build, compare(build, "Less", bound, 0), from_end, bound, np.int64), 0, d)


def lower_with_hidden(
    build: Builder,
    node: Node,
    operands: Sequence[Operand],
    hidden: Sequence[Hidden | None],
    lower: Callable[[], Sequence[Operand]],
) -> tuple[Sequence[Operand], Hidden | None]:
    """The results of a node that reads hidden tensors (`hidden`: one entry per operand), and what is hidden of them.

    `lower` lowers the node as it is. Raises UnsupportedError for an operator that would mix repeated entries with
    others.
    """
    found = [h for h in hidden if h is not None]
    if any(h.mask is not None for h in found):
        from falsifier.network.masked_lists import lower_with_mask

        return lower_with_mask(build, node, operands, hidden, lower)
    guards = tuple({g.name: g for h in found for g in h.guards}.values())
    counting = any(h.counts for h in found)
    if node.key == "Shape":
        return lower(), None if counting else Hidden(guards, counts=True)
    if node.key == "ConstantOfShape":
        return lower(), Hidden(guards)
    if node.key in ("Expand", "Reshape") and not (hidden[0] and hidden[0].counts):
        return lower(), Hidden(guards)
    if not counting and node.key in KEEPING:
        return lower(), Hidden(guards)
    if not counting and node.key in ("Scatter", "ScatterElements", "ScatterND"):
        return [_scattered(build, node, operands, hidden, guards, lower)], None
    on_shapes = all(h.counts for h in found) and not any(isinstance(o, Value) for o in operands)
    if on_shapes and node.key in ON_SHAPES:
        return lower(), Hidden(guards, counts=True)
    raise UnsupportedError(f"{node.op} of a tensor whose length depends on the input")


def _scattered(
    build: Builder,
    node: Node,
    operands: Sequence[Operand],
    hidden: Sequence[Hidden | None],
    guards: Sequence[Value],
    lower: Callable[[], Sequence[Operand]],
) -> Value:
    """A scatter where its slices have entries, else the data. Updates repeat as the indices do, or are all the same."""
    data, _, updates = operands
    same = isinstance(updates, np.ndarray) and bool((updates == updates.flat[0]).all())
    if hidden[0] or not hidden[1] or not (hidden[2] or same) or node.attributes.get("reduction", "none") != "none":
        raise UnsupportedError("a scatter of entries whose number depends on the input")
    (result,) = lower()
    assert isinstance(result, Value)
    assert data is not None
    has_entries = reduce(lambda a, b: elementwise(build, "And", a, b), guards)
    return where(build, has_entries, result, data, result.dtype)
