"""Operators of the domain com.microsoft that onnxruntime's own tools write into models: fused and quantised forms.

Each is what it was fused from. QLinear operators are the float operator between dequantising and quantising.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Node
from falsifier.network.operators.composition import Tensor, as_value, compose, given
from falsifier.network.operators.elementwise import elementwise
from falsifier.network.operators.quantization import lower_dequantize, lower_dynamic_quantize, lower_quantize
from falsifier.network.program import OPSET, Builder, Operand

Rule = Callable[[Builder, Node, Sequence[Operand]], Sequence[Operand]]


def _gelu(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """Gelu, BiasGelu, and FastGelu with its bias."""
    x = _with_bias(build, _first(operands), given(operands, 1))
    return [compose(build, "Gelu", x, approximate="tanh" if node.op == "FastGelu" else "none")]


def _quick_gelu(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x = as_value(build, _first(operands))
    gate = elementwise(build, "Sigmoid", elementwise(build, "Mul", x, node.attributes.get("alpha", 1.702)))
    return [elementwise(build, "Mul", x, gate)]


def _fused_matmul(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    attributes = node.attributes
    if attributes.get("transBatchA") or attributes.get("transBatchB"):
        raise UnsupportedError("a product with transposed batches")
    factors = []
    for factor, name in zip(operands[:2], ("transA", "transB"), strict=True):
        assert factor is not None
        order = [*range(len(factor.shape) - 2), len(factor.shape) - 1, len(factor.shape) - 2]
        turned = attributes.get(name) and len(factor.shape) > 1
        factors.append(compose(build, "Transpose", factor, perm=order) if turned else factor)
    return [_scaled(build, compose(build, "MatMul", *factors), attributes.get("alpha", 1.0))]


def _fused_conv(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """A convolution, a term to add, an activation."""
    attributes = {k: v for k, v in node.attributes.items() if not k.startswith("activation")}
    y = compose(build, "Conv", *_trimmed(operands[:3]), **attributes)
    y = _with_bias(build, y, given(operands, 3))
    return [_activated(build, y, node.attributes.get("activation"), node.attributes.get("activation_params", []))]


def _fused_gemm(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    attributes = {k: v for k, v in node.attributes.items() if not k.startswith("activation")}
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    parameters = [node.attributes[name] for name in names if name in node.attributes]
    y = compose(build, "Gemm", *_trimmed(operands), **attributes)
    return [_activated(build, y, node.attributes.get("activation"), parameters)]


def _activated(build: Builder, x: Tensor, name: str | None, parameters: Sequence[float]) -> Tensor:
    if not name:
        return x
    if name == "Clip":
        return compose(build, "Clip", x, *(np.array(p, dtype=x.dtype) for p in parameters))
    named = dict(zip({"HardSigmoid": ("alpha", "beta")}.get(name, ("alpha",)), parameters, strict=False))
    return compose(build, name, x, **named)


def _skip_normalization(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """Layer normalisation of a sum, by mean and variance or by mean square alone; the fourth result is the sum."""
    simplified = node.op.startswith("SkipSimplified")
    x, skip, scale = operands[:3]
    shift, bias = (None, given(operands, 3)) if simplified else (given(operands, 3), given(operands, 4))
    assert x is not None
    assert skip is not None
    assert scale is not None
    total = _with_bias(build, compose(build, "Add", x, skip), bias)
    options = {"axis": -1, "epsilon": node.attributes.get("epsilon", 1e-12)}
    op = "RMSNormalization" if simplified else "LayerNormalization"
    y = _expanded(build, op, _trimmed([total, scale, shift]), **options)
    return [y, None, None, total][: len(node.outputs)]


def _simplified_normalization(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    options = {"axis": node.attributes.get("axis", -1), "epsilon": node.attributes.get("epsilon", 1e-5)}
    return [_expanded(build, "RMSNormalization", operands, **options)]


def _expanded(build: Builder, op: str, operands: Sequence[Operand], **options: Any) -> Tensor:
    """Normalisation over the last axes, written out."""
    x, scale = operands[:2]
    assert x is not None
    assert scale is not None
    if op == "LayerNormalization":
        return compose(build, op, *operands, **options)
    axes = np.arange(options["axis"] % len(x.shape), len(x.shape))
    square = compose(build, "ReduceMean", compose(build, "Mul", x, x), axes, keepdims=1)
    root = elementwise(build, "Sqrt", elementwise(build, "Add", as_value(build, square), options["epsilon"]))
    return compose(build, "Mul", compose(build, "Div", x, root), scale)


def _quantised(op: str) -> Rule:
    """`op` of dequantised operands (tensor, scale and zero point each), quantised by the last two inputs."""

    def rule(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
        count = (len(operands) - 1) // 3
        tensors = [_dequantised(build, operands[3 * i : 3 * i + 3]) for i in range(count)]
        if op.endswith("AveragePool") and node.attributes.get("channels_last"):
            raise UnsupportedError("channels behind the image")
        if op == "Softmax" and node.attributes.get("opset", 13) < 13:
            raise UnsupportedError("a softmax over several axes at once")
        y = compose(
            build, op, *tensors, **{k: v for k, v in node.attributes.items() if k not in ("channels_last", "opset")}
        )
        return [_quantise(build, y, given(operands, 3 * count), given(operands, 3 * count + 1))]

    return rule


def _quantised_gemm(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """QGemm: two quantised factors, a bias in steps of both scales and alpha; in float where no scale follows."""
    attributes, bias = node.attributes, given(operands, 6)
    columns = 0 if attributes.get("transB") else 1
    factors = _dequantised(build, operands[:3]), _dequantised(build, operands[3:6], axis=columns)
    y = compose(build, "Gemm", *factors, **attributes)
    if bias is not None:
        scale = compose(build, "Mul", operands[1], operands[4])
        steps = compose(build, "Mul", compose(build, "Cast", bias, to=1), scale)
        y = compose(build, "Add", y, _scaled(build, steps, attributes.get("alpha", 1.0)))
    return [y if given(operands, 7) is None else _quantise(build, y, operands[7], given(operands, 8))]


def _quantised_concat(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """Scale and zero point of the result come first."""
    parts = [_dequantised(build, operands[i : i + 3]) for i in range(2, len(operands), 3)]
    y = compose(build, "Concat", *parts, axis=node.attributes["axis"])
    return [_quantise(build, y, operands[0], operands[1])]


def _dequantised(build: Builder, operands: Sequence[Operand], axis: int = 1) -> Tensor:
    (x,) = lower_dequantize(build, Node("DequantizeLinear", "", OPSET, {"axis": axis}, ("x",)), operands)
    assert x is not None
    return x


def _quantise(build: Builder, y: Tensor, scale: Operand, zero: Operand) -> Operand:
    (result,) = lower_quantize(build, Node("QuantizeLinear", "", OPSET, {}, ("y",)), [as_value(build, y), scale, zero])
    return result


def _matmul_to_float(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """MatMulIntegerToFloat: the product of integers, times both scales, plus a bias."""
    a, b, a_scale, b_scale = operands[:4]
    zeros = [given(operands, i) for i in (4, 5)]
    product = compose(build, "MatMulInteger", a, b, *zeros)
    scaled = compose(build, "Mul", compose(build, "Cast", product, to=1), compose(build, "Mul", a_scale, b_scale))
    return [_with_bias(build, scaled, given(operands, 6))]


def _dynamic_matmul(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """DynamicQuantizeMatMul: the left factor is quantised over its own range."""
    x, b, b_scale = operands[:3]
    quantised, scale, zero = lower_dynamic_quantize(build, node, [x])
    inner = [quantised, b, scale, b_scale, zero, given(operands, 3), given(operands, 4)]
    return _matmul_to_float(build, node, inner)


def _as_standard(op: str) -> Rule:
    """What the standard has taken over since, by the same operands."""

    def rule(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
        attributes = dict(node.attributes)
        if op == "GridSample" and attributes.get("mode", "bilinear").startswith("bi"):
            attributes["mode"] = {"bilinear": "linear", "bicubic": "cubic"}[attributes.get("mode", "bilinear")]
        return [compose(build, op, *operands, **attributes)]

    return rule


def _with_bias(build: Builder, x: Tensor, bias: Operand) -> Tensor:
    return x if bias is None else compose(build, "Add", x, bias)


def _scaled(build: Builder, x: Tensor, factor: float) -> Tensor:
    return x if math.isclose(factor, 1.0) else compose(build, "Mul", x, np.array(factor, dtype=x.dtype))


def _trimmed(operands: Sequence[Operand]) -> list[Operand]:
    """Without omitted operands at the end."""
    kept = list(operands)
    while kept and kept[-1] is None:
        kept.pop()
    return kept


def _first(operands: Sequence[Operand]) -> Tensor:
    x = operands[0]
    assert x is not None
    return x


_MICROSOFT: dict[str, Rule] = {
    "BiasGelu": _gelu,
    "FastGelu": _gelu,
    "Gelu": _gelu,
    "QuickGelu": _quick_gelu,
    "FusedMatMul": _fused_matmul,
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "SkipLayerNormalization": _skip_normalization,
    "SkipSimplifiedLayerNormalization": _skip_normalization,
    "QuantizeLinear": lower_quantize,
    "DequantizeLinear": lower_dequantize,
    "QLinearAdd": _quantised("Add"),
    "QLinearMul": _quantised("Mul"),
    "QLinearSigmoid": _quantised("Sigmoid"),
    "QLinearLeakyRelu": _quantised("LeakyRelu"),
    "QLinearGlobalAveragePool": _quantised("GlobalAveragePool"),
    "QLinearConcat": _quantised_concat,
    "QLinearAveragePool": _quantised("AveragePool"),
    "QLinearSoftmax": _quantised("Softmax"),
    "QGemm": _quantised_gemm,
    "MatMulIntegerToFloat": _matmul_to_float,
    "DynamicQuantizeMatMul": _dynamic_matmul,
    "Pad": _as_standard("Pad"),
    "ExpandDims": _as_standard("Unsqueeze"),
    "GridSample": _as_standard("GridSample"),
    "Trilu": _as_standard("Trilu"),
}
LOWERINGS: dict[str, Rule] = {f"com.microsoft.{op}": rule for op, rule in _MICROSOFT.items()}
LOWERINGS["SimplifiedLayerNormalization"] = _simplified_normalization
PRIMITIVES: dict[str, Any] = {}
