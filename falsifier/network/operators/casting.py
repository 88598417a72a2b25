"""Cast and CastLike between numbers and bool. A cast to half precision rounds; what follows is computed in float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Gradients, Node, PrimitiveRule
from falsifier.network.operators.elementwise import is_mask, sole_gradient
from falsifier.network.operators.rounding import straight_through
from falsifier.network.program import Builder, Operand, Primitive, Value, computed_dtype


def lower_cast(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    import onnx

    x = operands[0]
    assert isinstance(x, Value)
    number = node.attributes["to"]
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))
    if not _is_supported(dtype):
        raise UnsupportedError(f"to {onnx.TensorProto.DataType.Name(number)}")
    return [build.cast(build.cast(x, dtype), computed_dtype(dtype))]


def lower_cast_like(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x, like = operands
    assert x is not None
    assert like is not None
    if not _is_supported(like.dtype):
        raise UnsupportedError(f"to {like.dtype}")
    return [build.cast(x, like.dtype) if isinstance(x, Value) else x.astype(like.dtype)]


def _is_supported(dtype: np.dtype[Any]) -> bool:
    """Whether the type is numpy's own or bfloat16: not a string, a complex number, or packed into less than a byte."""
    return dtype.name == "bfloat16" or (dtype.isbuiltin == 1 and dtype.kind in "biuf")


def cast_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """Straight through a cast to integers. A bool that masks another tensor is a constant to it and gets nothing."""
    g = sole_gradient(build, gradients)
    x = build.program.values[primitive.inputs[0]]
    y = build.program.values[primitive.outputs[0]]
    kind = computed_dtype(x.dtype)
    if kind.kind == "f":
        if computed_dtype(y.dtype).kind == "f":
            return [build.cast(g, kind)]
        return [straight_through(build, "Cast", x, build.cast(g, kind)) if y.dtype.kind in "iu" else None]
    return [None if x.dtype.kind == "b" and is_mask(build, y.name) else g]


def torch_cast(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    import torch

    return (inputs[0].to(getattr(torch, np.dtype(attributes["to"]).name)),)


LOWERINGS = {"Cast": lower_cast, "CastLike": lower_cast_like}
PRIMITIVES = {"Cast": PrimitiveRule(torch_cast, cast_adjoint)}
