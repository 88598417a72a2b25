"""Cast and CastLike between numbers and bool; half precision is computed as float32."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Gradients, Node, PrimitiveRule
from falsifier.network.operators.straight_through import pass_gradient
from falsifier.network.program import Builder, Operand, Primitive, Value, computed_dtype


def lower_cast(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x = operands[0]
    assert isinstance(x, Value)
    return [build.cast(x, _element_type(node.attributes["to"]))]


def lower_cast_like(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x, like = operands
    assert x is not None
    assert like is not None
    return [build.cast(x, like.dtype) if isinstance(x, Value) else x.astype(like.dtype)]


def _element_type(number: int) -> np.dtype[Any]:
    """The numpy type that computes ONNX element type `number`.

    Raises UnsupportedError for strings, complex numbers and packed types.
    """
    import onnx

    name = onnx.TensorProto.DataType.Name(number)
    if name == "BFLOAT16":
        return np.dtype(np.float32)
    if name not in ("FLOAT", "FLOAT16", "DOUBLE", "BOOL") and not re.fullmatch(r"U?INT(8|16|32|64)", name):
        raise UnsupportedError(f"Cast to {name} is not supported")
    return computed_dtype(onnx.helper.tensor_dtype_to_np_dtype(number))


def cast_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """Between floating point types the gradient is cast back; a cast to integers passes it straight through."""
    (g,) = gradients
    assert g is not None
    x = build.program.values[primitive.inputs[0]]
    y = build.program.values[primitive.outputs[0]]
    if not np.issubdtype(x.dtype, np.floating):
        return [None]
    if np.issubdtype(y.dtype, np.floating):
        return [build.cast(g, x.dtype)]
    return [pass_gradient(build, primitive, g)]


def torch_cast(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    import torch

    dtype = attributes["to"]
    return (inputs[0].to(dtype if isinstance(dtype, torch.dtype) else getattr(torch, np.dtype(dtype).name)),)


LOWERINGS = {"Cast": lower_cast, "CastLike": lower_cast_like}
PRIMITIVES = {"Cast": PrimitiveRule(torch_cast, cast_adjoint)}
