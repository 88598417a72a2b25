"""Operators of ai.onnx.ml that are arithmetic: what exporters of scikit-learn pipelines put around a network.

Trees and support vectors are not among them: networks with those run one sample at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Node
from falsifier.network.operators.composition import Tensor, as_value, compose
from falsifier.network.program import Builder, Operand, Value

Rule = Callable[[Builder, Node, Sequence[Operand]], Sequence[Operand]]


def _floats(build: Builder, operands: Sequence[Operand]) -> Value:
    """The operand in float32, in which all of them compute."""
    (x,) = operands
    assert x is not None
    return build.cast(as_value(build, x), np.float32)


def _scaler(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x = _floats(build, operands)
    offset, scale = (np.array(node.attributes.get(k, d), np.float32) for k, d in (("offset", [0.0]), ("scale", [1.0])))
    return [compose(build, "Mul", compose(build, "Sub", x, offset), scale)]


def _binarizer(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    threshold = np.float32(node.attributes.get("threshold", 0.0))
    above = compose(build, "Greater", _floats(build, operands), np.array(threshold))
    return [build.cast(as_value(build, above), np.float32)]


def _normalizer(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """Rows by their largest entry, or by their norm; rows for which that is 0 stay as they are."""
    x = _floats(build, operands)
    op = {"MAX": "ReduceMax", "L1": "ReduceL1", "L2": "ReduceL2"}[str(node.attributes.get("norm", "MAX"))]
    size = compose(build, op, x, np.array([-1]), keepdims=1)
    nothing = compose(build, "Equal", size, np.array(0, np.float32))
    return [compose(build, "Div", x, compose(build, "Where", nothing, np.array(1, np.float32), size))]


def _affine(build: Builder, node: Node, operands: Sequence[Operand], rows: int) -> Tensor:
    x = _floats(build, operands)
    if len(x.shape) == 1:
        x = build.shaped(x, (1, *x.shape))
    weights = np.array(node.attributes["coefficients"], np.float32).reshape(rows, -1)
    product = compose(build, "MatMul", x, np.ascontiguousarray(weights.T))
    intercepts = node.attributes.get("intercepts")
    return compose(build, "Add", product, np.array(intercepts, np.float32)) if intercepts else product


def _transformed(build: Builder, node: Node, scores: Tensor) -> Tensor:
    after = str(node.attributes.get("post_transform", "NONE"))
    if after == "NONE":
        return scores
    if after not in ("SOFTMAX", "LOGISTIC"):
        raise UnsupportedError(f"post_transform {after}")
    return compose(build, "Sigmoid", scores) if after == "LOGISTIC" else compose(build, "Softmax", scores, axis=-1)


def _linear_regressor(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    scores = _affine(build, node, operands, int(node.attributes.get("targets", 1)))
    return [_transformed(build, node, scores)]


def _linear_classifier(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """The label of the highest score, and the scores. Labels that are texts are no numbers, and left out."""
    labels = node.attributes.get("classlabels_ints")
    classes = len(node.attributes.get("intercepts", ()))
    if classes < 2:
        raise UnsupportedError("a linear classifier with a single score")
    scores = _affine(build, node, operands, classes)
    best = compose(build, "ArgMax", scores, axis=1, keepdims=0)
    label = compose(build, "Gather", np.array(labels, np.int64), best, axis=0) if labels else None
    return [label, _transformed(build, node, scores)]


def _extractor(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """Entries of the last axis by number; an array without another axis counts as one row."""
    x, places = operands
    assert x is not None
    assert places is not None
    if len(x.shape) == 1:
        x = build.shaped(x, (1, *x.shape)) if isinstance(x, Value) else x[None]
    flat = build.shaped(places, (places.size,)) if isinstance(places, Value) else places.reshape(-1)
    return [compose(build, "Gather", x, flat, axis=len(x.shape) - 1)]


LOWERINGS: dict[str, Rule] = {
    "ai.onnx.ml.Scaler": _scaler,
    "ai.onnx.ml.Binarizer": _binarizer,
    "ai.onnx.ml.Normalizer": _normalizer,
    "ai.onnx.ml.LinearRegressor": _linear_regressor,
    "ai.onnx.ml.LinearClassifier": _linear_classifier,
    "ai.onnx.ml.ArrayFeatureExtractor": _extractor,
}
