"""Linear quantisation: QuantizeLinear and DequantizeLinear are primitives, integer arithmetic is done on whole floats.

A sum of products of 8-bit integers is exact in float32 up to 2^24 and in float64 always, so that QLinearMatMul and its
kin round as onnxruntime's integer kernels do, and have gradients: quantising passes them inside the range that it can
represent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Gradients, Node, PrimitiveRule
from falsifier.network.operators.composition import Tensor, as_value, compose, constant, given
from falsifier.network.operators.elementwise import clip, combine, compare, elementwise, where
from falsifier.network.program import Builder, Operand, Primitive, Value

_LARGEST_PRODUCT = 255 * 255


def lower_quantize(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x, scale = operands[:2]
    zero = given(operands, 2)
    assert x is not None
    assert scale is not None
    dtype = _quantized_type(node, zero)
    zero = np.zeros(scale.shape, dtype) if zero is None else zero
    if not isinstance(x, Value):
        raise UnsupportedError("a scale that depends on the input")
    x = build.cast(x, np.float32) if x.dtype.kind != "f" else x
    if isinstance(scale, np.ndarray) and isinstance(zero, np.ndarray) and not node.attributes.get("block_size"):
        return [_primitive(build, "QuantizeLinear", node, x, scale.astype(x.dtype), zero, dtype)]
    return [_quantized(build, x, _along(build, node, scale, x), _along(build, node, zero, x), dtype)]


def lower_dequantize(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x, scale = operands[:2]
    zero = given(operands, 2)
    assert x is not None
    assert scale is not None
    simple = isinstance(scale, np.ndarray) and not isinstance(zero, Value) and not node.attributes.get("block_size")
    if isinstance(x, Value) and isinstance(scale, np.ndarray) and simple:
        zero = np.zeros(scale.shape, x.dtype) if zero is None else zero
        return [_primitive(build, "DequantizeLinear", node, x, scale, zero, scale.dtype)]
    number = compose(build, "Cast", x, to=_onnx_type(scale.dtype))
    if zero is not None:
        zero = compose(build, "Cast", zero, to=_onnx_type(scale.dtype))
        number = combine(build, "Sub", number, _along(build, node, zero, x))
    return [combine(build, "Mul", number, _along(build, node, scale, x))]


def _quantized_type(node: Node, zero: Operand) -> np.dtype[Any]:
    """What to quantise to: the zero point's type, else the attribute's, else uint8. Packed types are not supported."""
    dtype = np.dtype(np.uint8) if zero is None else zero.dtype
    if zero is None and node.attributes.get("output_dtype"):
        import onnx

        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(node.attributes["output_dtype"]))
    if dtype.name not in ("uint8", "int8", "uint16", "int16"):
        raise UnsupportedError(f"quantisation to {dtype.name}")
    return dtype


def _primitive(
    build: Builder, op: str, node: Node, x: Value, scale: NDArray[Any], zero: Operand, dtype: np.dtype[Any]
) -> Value:
    """With one constant scale, on any view; with one per entry of an axis, on the sample."""
    assert isinstance(zero, np.ndarray)
    if scale.size == 1:
        y = build.emit(op, [x, scale.reshape(()), zero.reshape(())], x.stored, dtype, lead=x.lead)
        return build.shaped(y, x.shape)
    axis = node.attributes.get("axis", 1) % len(x.shape)
    return build.emit(op, [build.sample(x), scale, zero], x.shape, dtype, axis=axis + 1)


def _along(build: Builder, node: Node, parameter: Tensor, x: Tensor) -> Tensor:
    """A scale or zero point, broadcast against `x`: a number, one per entry of an axis, or one per block of it."""
    if math.prod(parameter.shape) == 1:
        return compose(build, "Reshape", parameter, np.array([], dtype=np.int64))
    rank = len(x.shape)
    axis = node.attributes.get("axis", 1) % rank
    block = node.attributes.get("block_size", 0)
    if not block:
        return compose(build, "Reshape", parameter, np.array([-1, *[1] * (rank - axis - 1)]))
    blocks = np.arange(x.shape[axis]) // block
    return compose(build, "Gather", parameter, blocks, axis=axis)


def _quantized(build: Builder, x: Value, scale: Tensor, zero: Tensor, dtype: np.dtype[Any]) -> Value:
    """round(x / scale) + zero point, saturated."""
    limits = np.iinfo(dtype)
    rounded = elementwise(build, "Round", build.elementwise("Div", [x, scale]))
    zero = compose(build, "Cast", zero, to=_onnx_type(x.dtype))
    return build.cast(clip(build, build.elementwise("Add", [rounded, zero]), limits.min, limits.max), dtype)


def _onnx_type(dtype: np.dtype[Any]) -> int:
    import onnx

    return int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def lower_dynamic_quantize(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """uint8 over the range that the sample has, 0 included."""
    x = operands[0]
    assert isinstance(x, Value)
    axes = np.arange(len(x.shape))
    lowest, highest = (compose(build, op, x, axes, keepdims=0) for op in ("ReduceMin", "ReduceMax"))
    assert isinstance(lowest, Value)
    assert isinstance(highest, Value)
    lowest, highest = elementwise(build, "Min", lowest, 0.0), elementwise(build, "Max", highest, 0.0)
    span = elementwise(build, "Sub", highest, lowest)
    scale = where(build, compare(build, "Equal", span, 0.0), 1.0, elementwise(build, "Div", span, 255.0), x.dtype)
    centre = elementwise(build, "Div", elementwise(build, "Neg", lowest), scale)
    zero = elementwise(build, "Round", clip(build, centre, 0.0, 255.0))
    y = _quantized(build, x, scale, build.cast(zero, np.uint8), np.dtype(np.uint8))
    return [y, scale, build.cast(zero, np.uint8)]


def _whole(build: Builder, x: Tensor, zero: Operand, dtype: Any) -> Tensor:
    """x - zero point as floats."""
    number = compose(build, "Cast", x, to=_onnx_type(dtype))
    if zero is None or (isinstance(zero, np.ndarray) and not zero.any()):
        return number
    return combine(build, "Sub", number, compose(build, "Cast", zero, to=_onnx_type(dtype)))


def _product(build: Builder, a: Operand, b: Operand, a_zero: Operand, b_zero: Operand) -> Value:
    """The integer product, exactly, as floats. Zero points: of `a` per row, of `b` per column, or numbers."""
    assert a is not None
    assert b is not None
    dtype = np.float32 if a.shape[-1] * _LARGEST_PRODUCT < 2**24 else np.float64
    if isinstance(a_zero, np.ndarray) and a_zero.ndim == 1 and a_zero.size > 1:
        a_zero = a_zero[:, None]
    if b_zero is not None and len(b_zero.shape) == 1 and len(b.shape) > 2:
        b_zero = compose(build, "Reshape", b_zero, np.array([1, -1]))
    return as_value(build, compose(build, "MatMul", _whole(build, a, a_zero, dtype), _whole(build, b, b_zero, dtype)))


def lower_matmul_integer(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    a, b = operands[:2]
    return [build.cast(_product(build, a, b, given(operands, 2), given(operands, 3)), np.int32)]


def lower_qlinear_matmul(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = operands
    total = build.cast(_product(build, a, b, a_zero, b_zero), np.float32)
    assert a_scale is not None
    if len(a_scale.shape) == 1 and a_scale.shape[0] > 1:
        a_scale = compose(build, "Reshape", a_scale, np.array([-1, 1]))
    return [_requantized(build, total, a_scale, b_scale, y_scale, y_zero)]


def _requantized(build: Builder, total: Value, a: Operand, b: Operand, y: Operand, zero: Operand) -> Value:
    """total * (a * b / y), rounded and saturated, in onnxruntime's order of operations."""
    assert a is not None
    assert b is not None
    assert y is not None
    multiplier = combine(build, "Div", combine(build, "Mul", a, b), y)
    if math.prod(multiplier.shape) == 1:
        multiplier = compose(build, "Reshape", multiplier, np.array([], dtype=np.int64))
    scaled = elementwise(build, "Mul", total, multiplier)
    point = constant(zero, "a zero point").reshape(())
    unit = np.ones((), scaled.dtype)
    result = build.emit("QuantizeLinear", [scaled, unit, point], scaled.stored, point.dtype, lead=scaled.lead)
    return build.shaped(result, scaled.shape)


def _convolution(
    build: Builder, node: Node, x: Operand, w: Operand, x_zero: Operand, w_zero: Operand, bias: Operand
) -> Value:
    """The integer convolution as float32. Zero points: of `w` per output channel, or numbers."""
    kernel = constant(w, "the kernel").astype(np.float32)
    if w_zero is not None:
        point = constant(w_zero, "a zero point").astype(np.float32)
        kernel = kernel - point.reshape(-1, *[1] * (kernel.ndim - 1))
    assert x is not None
    source = as_value(build, _whole(build, x, x_zero, np.float32))
    more = [] if bias is None else [constant(bias, "the bias").astype(np.float32)]
    y = compose(build, "Conv", source, kernel, *more, **node.attributes)
    assert isinstance(y, Value)
    return y


def lower_conv_integer(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x, w = operands[:2]
    return [build.cast(_convolution(build, node, x, w, given(operands, 2), given(operands, 3), None), np.int32)]


def lower_qlinear_conv(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = operands[:8]
    total = _convolution(build, node, x, w, x_zero, w_zero, given(operands, 8))
    assert w_scale is not None
    per_channel = compose(build, "Reshape", w_scale, np.array([-1, *[1] * (len(total.shape) - 2)]))
    return [_requantized(build, total, x_scale, per_channel, y_scale, y_zero)]


def _range(build: Builder, primitive: Primitive, rank: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Scale, and the lowest and highest number that can be represented, broadcast against an array of `rank`."""
    scale, zero = (build.program.constants[name] for name in primitive.inputs[1:3])
    limits = np.iinfo(zero.dtype)
    low, high = ((bound - zero.astype(np.int64)) * scale for bound in (limits.min, limits.max))
    shape = (-1, *[1] * (rank - primitive.attributes["axis"] - 1)) if scale.ndim else ()
    scale, low, high = (np.asarray(a, dtype=scale.dtype).reshape(shape) for a in (scale, low, high))
    return scale, low, high


def quantize_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """g / scale where x is inside the range, 0 where it saturates."""
    (g,) = gradients
    assert g is not None
    x = build.program.values[primitive.inputs[0]]
    scale, low, high = _range(build, primitive, len(x.stored) + 1)

    def emit(op: str, *operands: Tensor, dtype: Any = x.dtype) -> Value:
        return build.emit(op, operands, x.stored, dtype, lead=x.lead)

    held = emit("Min", emit("Max", x, low), high)
    inside = build.cast(emit("Equal", held, x, dtype=np.bool_), g.dtype)
    return [emit("Mul", emit("Div", g, scale), inside), None, None]


def dequantize_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    (g,) = gradients
    assert g is not None
    scale = _range(build, primitive, len(g.stored) + 1)[0]
    return [build.emit("Mul", [g, scale], g.stored, lead=g.lead), None, None]


def _parameters(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Operand, scale and zero point; the latter two broadcast against the operand, in the type of the scale."""
    x, scale, zero = inputs
    zero = zero.to(scale.dtype)
    if scale.ndim:
        shape = (-1, *[1] * (x.ndim - attributes["axis"] - 1))
        scale, zero = scale.reshape(shape), zero.reshape(shape)
    return x, scale, zero


def quantize_torch(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    import torch

    x, scale, zero = _parameters(inputs, attributes)
    limits = torch.iinfo(inputs[2].dtype)
    return (((x / scale).round() + zero).clamp(limits.min, limits.max).to(inputs[2].dtype),)


def dequantize_torch(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    x, scale, zero = _parameters(inputs, attributes)
    return ((x.to(scale.dtype) - zero) * scale,)


LOWERINGS = {
    "QuantizeLinear": lower_quantize,
    "DequantizeLinear": lower_dequantize,
    "DynamicQuantizeLinear": lower_dynamic_quantize,
    "MatMulInteger": lower_matmul_integer,
    "QLinearMatMul": lower_qlinear_matmul,
    "ConvInteger": lower_conv_integer,
    "QLinearConv": lower_qlinear_conv,
}
PRIMITIVES = {
    "QuantizeLinear": PrimitiveRule(quantize_torch, quantize_adjoint),
    "DequantizeLinear": PrimitiveRule(dequantize_torch, dequantize_adjoint),
}
