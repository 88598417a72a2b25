"""Sequences and optional values: nothing is computed, tensors are put into a list and taken out at known places.

PyTorch's exporters write `split`, `chunk`, `unbind` and `stack` so. A rule here gets and gives `Tensors` as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from falsifier.errors import UnsupportedError
from falsifier.network.operators import LOWERINGS as TABLE
from falsifier.network.operators import Node
from falsifier.network.operators.composition import Tensor, compose, constant, given, integers
from falsifier.network.program import OPSET, Builder, Carried, Tensors, Value


def _listed(operand: Carried) -> Tensors:
    if not isinstance(operand, Tensors):
        raise UnsupportedError("a sequence is expected, there is none")
    return operand


def _tensor(operand: Carried) -> Tensor:
    if operand is None or isinstance(operand, Tensors):
        raise UnsupportedError("a tensor is expected, there is a sequence or nothing")
    return operand


def _place(operands: Sequence[Carried], index: int, count: int, default: int) -> int:
    """A position in a list of so many places, not negative."""
    operand = given(operands, index)
    at = default if operand is None else int(constant(operand, "a position in a sequence").item())
    at += count if at < 0 else 0
    if not 0 <= at < count:
        raise UnsupportedError(f"position {at} of a sequence with {count} places")
    return at


def _construct(build: Builder, node: Node, operands: Sequence[Carried]) -> Carried:
    return Tensors(_tensor(o) for o in operands)


def _at(build: Builder, node: Node, operands: Sequence[Carried]) -> Carried:
    tensors = _listed(operands[0])
    return tensors[_place(operands, 1, len(tensors), 0)]


def _insert(build: Builder, node: Node, operands: Sequence[Carried]) -> Carried:
    tensors = _listed(operands[0])
    at = _place(operands, 2, len(tensors) + 1, len(tensors))
    return Tensors((*tensors[:at], _tensor(operands[1]), *tensors[at:]))


def _erase(build: Builder, node: Node, operands: Sequence[Carried]) -> Carried:
    tensors = _listed(operands[0])
    at = _place(operands, 1, len(tensors), len(tensors) - 1)
    return Tensors((*tensors[:at], *tensors[at + 1 :]))


def _length(build: Builder, node: Node, operands: Sequence[Carried]) -> Carried:
    return np.array(len(_listed(operands[0])), dtype=np.int64)


def _split(build: Builder, node: Node, operands: Sequence[Carried]) -> Carried:
    x = _tensor(operands[0])
    axis = node.attributes.get("axis", 0) % len(x.shape)
    length = x.shape[axis]
    sizes = given(operands, 1)
    parts = [1] if sizes is None else integers(sizes, "the sizes")
    if sizes is None or not sizes.shape:
        parts = [min(parts[0], length - at) for at in range(0, length, parts[0])]
    if isinstance(x, Value):
        split = Node("Split", "", OPSET, {"axis": axis}, tuple(map(str, range(len(parts)))), node.name)
        cut = TABLE["Split"](build, split, [x, np.array(parts, dtype=np.int64)])
    else:
        cut = np.split(x, np.cumsum(parts)[:-1], axis)
    if sizes is None and not node.attributes.get("keepdims", 1):
        cut = [_viewed(build, _tensor(part), (*x.shape[:axis], *x.shape[axis + 1 :])) for part in cut]
    return Tensors(cut)


def _concat(build: Builder, node: Node, operands: Sequence[Carried]) -> Carried:
    tensors = [_tensor(t) for t in _listed(operands[0])]
    if not tensors:
        raise UnsupportedError("there is nothing in the sequence")
    axis = node.attributes["axis"]
    if node.attributes.get("new_axis"):
        at = axis % (len(tensors[0].shape) + 1)
        tensors = [_viewed(build, t, (*t.shape[:at], 1, *t.shape[at:])) for t in tensors]
    return compose(build, "Concat", *tensors, axis=axis)


def _viewed(build: Builder, tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    return build.shaped(tensor, shape) if isinstance(tensor, Value) else tensor.reshape(shape)


def _same(build: Builder, node: Node, operands: Sequence[Carried]) -> Carried:
    """What an optional value holds, as long as it holds something."""
    if given(operands, 0) is None:
        raise UnsupportedError("an optional value that holds nothing")
    return operands[0]


def _has_element(build: Builder, node: Node, operands: Sequence[Carried]) -> Carried:
    return np.array(given(operands, 0) is not None)


_RULES: dict[str, Callable[[Builder, Node, Sequence[Carried]], Carried]] = {
    "SequenceAt": _at,
    "SequenceConstruct": _construct,
    "SequenceEmpty": lambda build, node, operands: Tensors(),
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": _length,
    "SplitToSequence": _split,
    "ConcatFromSequence": _concat,
    "Optional": _same,
    "OptionalGetElement": _same,
    "OptionalHasElement": _has_element,
}


def lower(build: Builder, node: Node, operands: Sequence[Carried]) -> Sequence[Carried]:
    """A node that makes, takes or hands on a sequence or an optional value. Raises UnsupportedError."""
    if node.key == "Identity":
        return [operands[0]]
    if node.key not in _RULES:
        raise UnsupportedError("sequences are not lowered here")
    try:
        return [_RULES[node.key](build, node, operands)]
    except (ValueError, IndexError, KeyError) as error:  # shapes that do not fit, a step of 0
        raise UnsupportedError(f"cannot be evaluated: {error}") from error


LOWERINGS: dict[str, Any] = dict.fromkeys(_RULES, lower)
PRIMITIVES: dict[str, Any] = {}
