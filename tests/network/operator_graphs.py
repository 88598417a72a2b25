"""Models of a few nodes, for operators whose indices and positions come from the input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike, NDArray
from onnx import helper, numpy_helper
from operator_checks import check_gradient, check_outputs

Array = NDArray[Any]


def graph_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int]],
    constants: Mapping[str, ArrayLike] | None = None,
    *,
    outputs: Sequence[str] = ("y",),
    opset: int = 21,
    dtype: Any = np.float32,
) -> onnx.ModelProto:
    """A model with inputs of one floating type. Constants that are Python or float64 numbers take that type."""
    arrays = {name: np.asarray(a) for name, a in (constants or {}).items()}
    arrays = {name: a.astype(dtype) if a.dtype == np.float64 else a for name, a in arrays.items()}
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(name, kind, list(shape)) for name, shape in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(a, name) for name, a in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def whole(name: str, result: str, to: int = onnx.TensorProto.INT64) -> onnx.NodeProto:
    """An input as integers, rounded towards zero."""
    return helper.make_node("Cast", [name], [result], to=to)


def between(values: Array) -> Array:
    """Numbers that are cut to the given integers, away from where a small step changes what they are cut to."""
    return values + np.where(values < 0, -0.4, 0.4)


def lanes(*inputs: Array) -> Array:
    """Inputs `[b, ...]` each, as flat points `[b, n]`."""
    return np.concatenate([a.reshape(len(a), -1) for a in inputs], axis=1).astype(np.float32)


def draw(*shape: int, rng_seed: int = 0) -> Array:
    """Normal numbers of fixed draw."""
    return np.random.default_rng(rng_seed).normal(size=shape).astype(np.float32)


def check_at(model: onnx.ModelProto, points: Array, rtol: float = 2e-5) -> None:
    """Outputs and gradient at given points."""
    check_outputs(model, points, rtol)
    check_gradient(model, points)
