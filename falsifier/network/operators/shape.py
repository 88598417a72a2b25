"""Shapes and order: Reshape and its kin cost nothing (`Builder.shaped`), Transpose, Expand and Tile are primitives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Gradients, Node, PrimitiveRule
from falsifier.network.program import Builder, Operand, Primitive, Shape, Value, broadcast_shape


def constant_operand(operands: Sequence[Operand], at: int, what: str) -> np.ndarray[Any, np.dtype[Any]] | None:
    """Operand `at` where it is a constant, None where it is absent; UnsupportedError where it depends on the input."""
    operand = operands[at] if len(operands) > at else None
    if isinstance(operand, Value):
        raise UnsupportedError(f"{what} depends on the input")
    return operand


def lower_reshape(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x = _value(operands)
    given = constant_operand(operands, 1, "the target shape")
    target = [int(d) for d in (node.attributes["shape"] if given is None else given.ravel().tolist())]
    if not node.attributes.get("allowzero"):
        target = [x.shape[i] if d == 0 else d for i, d in enumerate(target)]
    if -1 in target:
        rest = math.prod(d for d in target if d != -1)
        target[target.index(-1)] = x.size // rest if rest else 0
    if math.prod(target) != x.size:
        raise UnsupportedError(f"a tensor of shape {list(x.shape)} cannot become {target}")
    return [build.shaped(x, tuple(target))]


def lower_flatten(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x = _value(operands)
    axis = node.attributes.get("axis", 1)
    axis += len(x.shape) if axis < 0 else 0
    return [build.shaped(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))]


def lower_squeeze(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x = _value(operands)
    given = constant_operand(operands, 1, "axes")
    axes = node.attributes.get("axes") if given is None else given.ravel().tolist()
    rank = len(x.shape)
    dropped = {a % rank for a in axes} if axes is not None else {i for i, d in enumerate(x.shape) if d == 1}
    return [build.shaped(x, tuple(d for i, d in enumerate(x.shape) if i not in dropped))]


def lower_unsqueeze(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x = _value(operands)
    given = constant_operand(operands, 1, "axes")
    axes = node.attributes["axes"] if given is None else given.ravel().tolist()
    rank = len(x.shape) + len(axes)
    added = {a % rank for a in axes}
    rest = iter(x.shape)
    return [build.shaped(x, tuple(1 if i in added else next(rest) for i in range(rank)))]


def lower_transpose(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x = _value(operands)
    rank = len(x.shape)
    order = tuple(node.attributes.get("perm") or range(rank)[::-1])
    return [transpose(build, x, order)]


def transpose(build: Builder, x: Value, order: Sequence[int]) -> Value:
    """Sample axes in another order. Free where only axes of length 1 move."""
    shape = tuple(x.shape[i] for i in order)
    moving = [i for i in order if x.shape[i] != 1]
    if moving == sorted(moving):
        return build.shaped(x, shape)
    drop = 0  # leading axes that are of length 1 and stay are left out of the array
    while order[drop] == drop and x.shape[drop] == 1:
        drop += 1
    perm = [0, *(i - drop + 1 for i in order[drop:])]
    return build.shaped(build.emit("Transpose", [build.view(x, x.shape[drop:])], shape[drop:], perm=perm), shape)


def lower_expand(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x = _value(operands)
    given = constant_operand(operands, 1, "the target shape")
    assert given is not None
    return [expand(build, x, broadcast_shape(x.shape, tuple(int(d) for d in given)))]


def expand(build: Builder, x: Value, shape: Shape) -> Value:
    """A sample repeated by broadcasting to `shape`."""
    if math.prod(shape) == x.size:
        return build.shaped(x, shape)
    padded = (1,) * (len(shape) - len(x.shape)) + x.shape
    return build.emit("Expand", [build.view(x, padded), np.array([1, *shape], dtype=np.int64)], shape)


def lower_tile(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x = _value(operands)
    repeats = constant_operand(operands, 1, "how often to repeat")
    assert repeats is not None
    counts = [int(r) for r in repeats]
    shape = tuple(d * r for d, r in zip(x.shape, counts, strict=True))
    if all(r == 1 for r in counts):
        return [x]
    if all(d == 1 for d, r in zip(x.shape, counts, strict=True) if r != 1):
        return [expand(build, x, shape)]
    return [build.emit("Tile", [build.sample(x), np.array([1, *counts], dtype=np.int64)], shape)]


def lower_shape(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    shape = _value(operands).shape[node.attributes.get("start", 0) : node.attributes.get("end")]
    return [np.array(shape, dtype=np.int64)]


def lower_size(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    return [np.array(_value(operands).size, dtype=np.int64)]


def _value(operands: Sequence[Operand]) -> Value:
    x = operands[0]
    if not isinstance(x, Value):
        raise UnsupportedError("a constant in a shape that depends on the input")
    return x


def _ends(build: Builder, primitive: Primitive, gradients: Gradients) -> tuple[Value | None, Value]:
    g = gradients[0]
    assert g is not None
    return build.program.values.get(primitive.inputs[0]), g


def reshape_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    x, g = _ends(build, primitive, gradients)
    assert x is not None
    return [build.view(g, x.stored, x.lead), None]


def transpose_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    x, g = _ends(build, primitive, gradients)
    assert x is not None
    inverse = np.argsort(primitive.attributes["perm"]).tolist()
    return [build.emit("Transpose", [g], x.stored, lead=x.lead, perm=inverse)]


def expand_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    x, g = _ends(build, primitive, gradients)
    return [None if x is None else build.sum_to(g, x.stored), None]


def tile_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """The copies side by side as an axis of their own, summed away."""
    x, g = _ends(build, primitive, gradients)
    assert x is not None
    counts = build.program.constants[primitive.inputs[1]].tolist()[1:]
    apart = tuple(d for pair in zip(counts, x.stored, strict=True) for d in pair)
    axes = np.array([1 + 2 * i for i in range(len(counts))], dtype=np.int64)
    return [build.emit("ReduceSum", [build.view(g, apart, g.lead), axes], x.stored, lead=x.lead, keepdims=0), None]


def reduce_sum_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    x, g = _ends(build, primitive, gradients)
    assert x is not None
    axes = build.program.constants[primitive.inputs[1]].ravel().tolist() if len(primitive.inputs) > 1 else None
    reduced = {a % (len(x.stored) + 1) for a in axes} if axes else set(range(1, len(x.stored) + 1))
    kept = tuple(1 if i + 1 in reduced else d for i, d in enumerate(x.stored))
    target = np.array([1, *x.stored], dtype=np.int64)
    return [build.emit("Expand", [build.view(g, kept, g.lead), target], x.stored, lead=x.lead), None]


def torch_expand(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    """ONNX lets either side broadcast, torch only the tensor."""
    x, target = inputs
    return (x.expand(broadcast_shape(tuple(x.shape), tuple(target.tolist()))),)


def torch_shape(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    import torch

    shape = inputs[0].shape[attributes.get("start", 0) : attributes.get("end")]
    return (torch.tensor(shape, dtype=torch.int64),)


def torch_reduce_sum(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    x = inputs[0]
    axes = inputs[1].tolist() if len(inputs) > 1 and inputs[1] is not None else list(range(x.ndim))
    # torch sums small integers as int64
    return (x.sum(dim=axes, keepdim=bool(attributes.get("keepdims", 1)), dtype=x.dtype),)


LOWERINGS = {
    "Reshape": lower_reshape,
    "Flatten": lower_flatten,
    "Squeeze": lower_squeeze,
    "Unsqueeze": lower_unsqueeze,
    "Transpose": lower_transpose,
    "Expand": lower_expand,
    "Tile": lower_tile,
    "Shape": lower_shape,
    "Size": lower_size,
}
PRIMITIVES = {
    "Reshape": PrimitiveRule(lambda inputs, attributes: (inputs[0].reshape(inputs[1].tolist()),), reshape_adjoint),
    "Transpose": PrimitiveRule(lambda inputs, attributes: (inputs[0].permute(attributes["perm"]),), transpose_adjoint),
    "Expand": PrimitiveRule(torch_expand, expand_adjoint),
    "Tile": PrimitiveRule(lambda inputs, attributes: (inputs[0].tile(tuple(inputs[1].tolist())),), tile_adjoint),
    "Shape": PrimitiveRule(torch_shape),
    "ReduceSum": PrimitiveRule(torch_reduce_sum, reduce_sum_adjoint),
}
