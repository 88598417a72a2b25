"""Lists of the entries that a mask chooses (`x[mask]`, `z[mask] = ...`): as long as the mask, others left out at last.

NonZero says where a mask holds, in as many columns as there are such places. The program has a column for every place,
which makes it a constant; what is taken from these places, and computed of it entry by entry, has entries too many.
They do no harm until the list is scattered back, where places outside of the mask keep what they had, or added up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from falsifier.errors import UnsupportedError
from falsifier.network.hidden_lengths import KEEPING, ON_SHAPES, Hidden
from falsifier.network.operators import Node
from falsifier.network.operators.composition import Tensor, compose, constant, given
from falsifier.network.operators.elementwise import compare, elementwise, where
from falsifier.network.operators.shape import expand
from falsifier.network.program import Builder, Operand, Value, broadcast_shape

_ENTRYWISE = KEEPING | {
    "Ceil",
    "Cos",
    "Elu",
    "Erf",
    "LeakyRelu",
    "Log",
    "Pow",
    "Reciprocal",
    "Round",
    "Sin",
    "Softplus",
}
_VIEWS = ("Cast", "Identity", "Reshape")


def lower_first(
    build: Builder, node: Node, operands: Sequence[Operand], known: Hidden | None
) -> tuple[Sequence[Operand], Hidden | None]:
    """NonZero of a mask, or Expand to as many entries as one chooses.

    `known`: what is hidden of the first operand. Raises UnsupportedError.
    """
    data, count = (*operands, None)[:2]
    assert data is not None
    if isinstance(count, Value):
        return _expanded(build, data, count, known)
    assert isinstance(data, Value)
    if known is not None:
        raise UnsupportedError("NonZero of a list whose length depends on the input")
    return _places(build, data)


def _places(build: Builder, mask: Value) -> tuple[Sequence[Operand], Hidden]:
    """All places of the mask `[axes, places]`, and what hides those that are not chosen."""
    if not mask.shape:
        raise UnsupportedError("NonZero of a single number")
    return [np.indices(mask.shape).reshape(len(mask.shape), -1)], Hidden((), mask=_root(build, mask))


def _expanded(
    build: Builder, data: Tensor, count: Value, known: Hidden | None
) -> tuple[Sequence[Operand], Hidden | None]:
    """Data of as many entries as a mask chooses, which is said by their sum."""
    primitive = build.producer(_root(build, count).name)
    summed = build.program.values.get(primitive.inputs[0]) if primitive and primitive.op == "ReduceSum" else None
    mask = None if summed is None else _root(build, summed)
    if mask is None or mask.dtype != np.bool_ or summed is None or summed.size != mask.size or count.size != 1:
        raise UnsupportedError("the target shape depends on the input")
    if known is not None and (known.counts or known.mask is None or known.mask.name != mask.name):
        raise UnsupportedError("a list of another length")
    shape = broadcast_shape(data.shape, (mask.size,))
    result = expand(build, data, shape) if isinstance(data, Value) else np.broadcast_to(data, shape)
    return [result], Hidden((), mask=mask)


def lower_with_mask(
    build: Builder,
    node: Node,
    operands: Sequence[Operand],
    hidden: Sequence[Hidden | None],
    lower: Callable[[], Sequence[Operand]],
) -> tuple[Sequence[Operand], Hidden | None]:
    """As `hidden_lengths.lower_with_hidden`, where a mask chose what tensors hold."""
    found = [h for h in hidden if h is not None]
    mask = found[0].mask
    if mask is None or any(h.mask is None or h.mask.name != mask.name for h in found):
        raise UnsupportedError(f"{node.op} of lists that depend on the input in several ways")
    counting = any(h.counts for h in found)
    listed, counted = Hidden((), mask=mask), Hidden((), counts=True, mask=mask)
    if node.key == "Shape":
        return lower(), None if counting else counted
    if node.key == "ConstantOfShape" or (node.key in ("Expand", "Reshape") and not (hidden[0] and hidden[0].counts)):
        return lower(), listed
    if node.key == "Slice" and hidden[0] and not hidden[0].counts and _takes_all(operands, hidden, mask.size):
        return operands[:1], hidden[0]
    if not counting and (node.key in _ENTRYWISE or (node.key in ("Gather", "GatherND") and not hidden[0])):
        return lower(), listed
    if not counting and node.key == "ScatterND":
        return [_scattered(build, node, operands, hidden, mask, lower)], None
    if not counting and node.key in ("ReduceSum", "ReduceMean"):
        return [_reduced(build, node, operands[0], mask)], None
    if node.key in ON_SHAPES and all(h.counts for h in found) and not any(isinstance(o, Value) for o in operands):
        return lower(), counted
    raise UnsupportedError(f"{node.op} of a list that NonZero makes, whose length depends on the input")


def _root(build: Builder, value: Value) -> Value:
    """What a tensor is another view of: reshaped, or a truth value as a number."""
    name = value.name
    while (primitive := build.producer(name)) is not None and primitive.op in _VIEWS:
        before = build.program.values[primitive.inputs[0]]
        if primitive.op == "Cast" and np.bool_ not in (before.dtype, build.program.values[name].dtype):
            break
        name = before.name
    return value if name == value.name else build.program.values[name]


def _takes_all(operands: Sequence[Operand], hidden: Sequence[Hidden | None], size: int) -> bool:
    """Whether a slice goes from the beginning to where the list ends."""
    start, end, axes, steps = (given(operands, i) for i in range(1, 5))
    return (
        hidden[2] is not None
        and hidden[2].counts
        and constant(start, "a bound").tolist() == [0]
        and constant(end, "a bound").tolist() == [size]
        and (axes is None or constant(axes, "an axis").tolist() == [0])
        and (steps is None or constant(steps, "a step").tolist() == [1])
    )


def _chosen(build: Builder, mask: Value) -> Value:
    """The mask as truth values `[places]`."""
    flat = build.shaped(mask, (mask.size,))
    return flat if mask.dtype == np.bool_ else elementwise(build, "Not", compare(build, "Equal", flat, 0))


def _scattered(
    build: Builder,
    node: Node,
    operands: Sequence[Operand],
    hidden: Sequence[Hidden | None],
    mask: Value,
    lower: Callable[[], Sequence[Operand]],
) -> Operand:
    """All entries scattered, and what was there before where an entry was not chosen."""
    data, places, updates = operands
    assert data is not None
    same = isinstance(updates, np.ndarray) and bool((updates == updates.flat[0]).all())
    if hidden[0] or not hidden[1] or not (hidden[2] or same) or node.attributes.get("reduction", "none") != "none":
        raise UnsupportedError("a scatter of entries whose number depends on the input")
    places = constant(places, "an index")
    lengths, depth = places.shape[:-1], places.shape[-1]
    along = [axis for axis, length in enumerate(lengths) if length == mask.size]
    reached = data.shape[:depth]
    flat = np.ravel_multi_index(tuple(np.moveaxis(places, -1, 0).reshape(depth, -1) % np.c_[list(reached)]), reached)
    if len(along) != 1 or len(np.unique(flat)) != len(flat):
        raise UnsupportedError("a scatter of a list in several places")
    entry = np.full(int(np.prod(reached)), mask.size)
    entry[flat] = np.indices(lengths)[along[0]].reshape(-1)
    chosen: Operand = _chosen(build, mask)
    if not np.array_equal(entry, np.arange(mask.size)):
        chosen = compose(
            build, "Gather", compose(build, "Concat", chosen, np.zeros(1, np.bool_), axis=0), entry, axis=0
        )
    assert isinstance(chosen, Value)
    (result,) = lower()
    assert result is not None
    shape = (*reached, *(1,) * (len(data.shape) - depth))
    return where(build, build.shaped(chosen, shape), result, data, result.dtype)


def _reduced(build: Builder, node: Node, data: Operand, mask: Value) -> Operand:
    """The sum or the mean of a plain list."""
    if not isinstance(data, Value) or data.shape != (mask.size,):
        raise UnsupportedError("the sum of what NonZero says, or of a list of more than numbers")
    chosen = _chosen(build, mask)
    keeps = node.attributes.get("keepdims", 1)
    axes = np.zeros(1, np.int64)
    kept = where(build, chosen, data, 0, data.dtype)
    total = compose(build, "ReduceSum", kept, axes, keepdims=keeps)
    if node.key == "ReduceSum":
        return total
    count = compose(build, "ReduceSum", where(build, chosen, 1, 0, data.dtype), axes, keepdims=keeps)
    return compose(build, "Div", total, compose(build, "Max", count, np.ones((), data.dtype)))  # the mean of none is 0
