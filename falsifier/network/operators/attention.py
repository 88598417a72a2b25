"""Attention as onnxruntime's optimiser fuses it (com.microsoft), written out again; the standard's has a function body.

Axes: b batch, s queries, l keys, h heads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Node
from falsifier.network.operators.composition import Tensor, compose, constant, given
from falsifier.network.operators.quantization import lower_dequantize
from falsifier.network.program import OPSET, Builder, Operand


def lower_attention(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """com.microsoft.Attention: queries, keys and values are one product of the input `[b, s, d]`."""
    x, weight, bias, mask, past, added = (given(operands, i) for i in range(6))
    if past is not None or given(operands, 6) is not None:
        raise UnsupportedError("attention with a past")
    return _of_product(build, node, x, weight, bias, mask, added)


def lower_quantised_attention(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """com.microsoft.QAttention: input and weights are 8-bit integers with a scale and a zero point each."""
    x, weight, bias, x_scale, weight_scale, mask, x_zero, weight_zero = (given(operands, i) for i in range(8))
    if given(operands, 8) is not None:
        raise UnsupportedError("attention with a past")
    scaled = Node("DequantizeLinear", "", OPSET, {"axis": 1}, ("x",))
    (x,) = lower_dequantize(build, scaled, [x, x_scale, x_zero])
    (weight,) = lower_dequantize(build, scaled, [weight, weight_scale, weight_zero])
    return _of_product(build, node, x, weight, bias, mask, None)


def _of_product(
    build: Builder, node: Node, x: Operand, weight: Operand, bias: Operand, mask: Operand, added: Operand
) -> Sequence[Operand]:
    assert x is not None
    assert weight is not None
    if node.attributes.get("do_rotary"):
        raise UnsupportedError("attention that rotates")
    product = compose(build, "MatMul", x, weight)
    if bias is not None:
        product = compose(build, "Add", product, bias)
    sizes = node.attributes.get("qkv_hidden_sizes") or [weight.shape[1] // 3] * 3
    ends = np.cumsum(sizes)
    places = [np.arange(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    return _attended(build, node, [compose(build, "Gather", product, p, axis=2) for p in places], mask, added)


def lower_multi_head(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """com.microsoft.MultiHeadAttention of queries `[b, s, d]`, keys and values `[b, l, d]`."""
    bias, mask, added = (given(operands, i) for i in (3, 4, 5))
    parts: list[Tensor] = []
    for operand in (*operands[:3], None, None)[:3]:
        if operand is None or len(operand.shape) != 3:
            raise UnsupportedError("attention of packed queries, keys and values")
        parts.append(operand)
    if any(o is not None for o in operands[6:]):
        raise UnsupportedError("attention with a past")
    if bias is not None:
        ends = np.cumsum([part.shape[2] for part in parts])
        pieces = np.split(constant(bias, "the bias"), ends[:-1])
        parts = [compose(build, "Add", part, piece) for part, piece in zip(parts, pieces, strict=True)]
    return _attended(build, node, parts, mask, added)


def _attended(build: Builder, node: Node, parts: Sequence[Tensor], mask: Operand, added: Operand) -> Sequence[Operand]:
    if any(node.outputs[1:]):
        raise UnsupportedError("attention that gives its keys and values")
    count = node.attributes["num_heads"]
    q, k, v = (_heads(build, part, count) for part in parts)
    b, _, s, size = q.shape
    scale = node.attributes.get("scale") or 1 / math.sqrt(size)
    scores = compose(build, "MatMul", q, compose(build, "Transpose", k, perm=[0, 1, 3, 2]))
    scores = compose(build, "Mul", scores, np.array(scale, dtype=q.dtype))
    if added is not None:
        scores = compose(build, "Add", scores, added)
    hidden = _hidden(node, None if mask is None else constant(mask, "the mask"), b, s, k.shape[2])
    if hidden.any():
        penalty = node.attributes.get("mask_filter_value", -10000.0)
        scores = compose(build, "Add", scores, np.where(hidden, penalty, 0).astype(q.dtype))
    result = compose(build, "MatMul", compose(build, "Softmax", scores, axis=-1), v)
    turned = compose(build, "Transpose", result, perm=[0, 2, 1, 3])
    return [compose(build, "Reshape", turned, np.array([b, s, count * v.shape[3]]))]


def _heads(build: Builder, x: Tensor, count: int) -> Tensor:
    b, s, d = x.shape
    split = compose(build, "Reshape", x, np.array([b, s, count, d // count]))
    return compose(build, "Transpose", split, perm=[0, 2, 1, 3])


def _hidden(node: Node, mask: NDArray[Any] | None, b: int, s: int, count: int) -> NDArray[np.bool_]:
    """Which keys a query does not see: bool, broadcast to `[b, h, s, l]`."""
    hidden = np.zeros((1, 1, s, count), np.bool_)
    if node.attributes.get("unidirectional"):
        hidden |= np.arange(count) > np.arange(s)[:, None] + count - s
    if mask is None:
        return hidden
    if mask.shape == (b,):  # how many there are
        return np.asarray(hidden | (np.arange(count) >= mask[:, None, None, None]))
    if mask.shape == (b, count):
        return np.asarray(hidden | (mask[:, None, None, :] == 0))
    if mask.shape == (b, s, count):
        return np.asarray(hidden | (mask[:, None] == 0))
    raise UnsupportedError(f"a mask of shape {list(mask.shape)}")


LOWERINGS = {
    "com.microsoft.Attention": lower_attention,
    "com.microsoft.MultiHeadAttention": lower_multi_head,
    "com.microsoft.QAttention": lower_quantised_attention,
}
PRIMITIVES: dict[str, Any] = {}
