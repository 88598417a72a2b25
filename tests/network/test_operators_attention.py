"""Attention in the words of com.microsoft, as onnxruntime's optimiser writes it into transformers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper
from operator_checks import batch, check_gradient, check_outputs
from operator_graphs import draw, graph_model

from falsifier.errors import UnsupportedError
from falsifier.network.lowering import lower

WEIGHTS = {"w": draw(4, 12), "b": draw(12)}


def attending(op: str, order: list[str], constants: dict[str, Any], outputs: int = 1, **attributes: Any) -> ModelProto:
    """One such node of x `[2, 3, 4]`, behind other linear layers for values (v) and 8-bit integers of x (xq)."""
    before = [
        helper.make_node("MatMul", ["x", "vw"], ["v"]),
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
    ]
    known = {"vw": draw(4, 2), "xs": np.array(0.02), "xz": np.array(120, np.uint8), **constants}
    made = [n for n in before if n.output[0] in order]
    read = {name for n in made for name in n.input} | set(order)
    names = ["y", "more"][:outputs]
    node = helper.make_node(op, order, names, domain="com.microsoft", num_heads=2, **attributes)
    model = graph_model([*made, node], {"x": [2, 3, 4]}, {k: v for k, v in known.items() if k in read}, outputs=names)
    model.opset_import.add(domain="com.microsoft", version=1)
    return model


MODELS = {
    "plain": attending("Attention", ["x", "w", "b"], WEIGHTS),
    "without bias, causal": attending("Attention", ["x", "w"], {"w": WEIGHTS["w"]}, unidirectional=1),
    "sizes": attending(
        "Attention", ["x", "w", "b"], {"w": draw(4, 10), "b": draw(10)}, qkv_hidden_sizes=[4, 4, 2], scale=0.3
    ),
    "lengths and terms to add": attending(
        "Attention",
        ["x", "w", "b", "m", "", "a"],
        {**WEIGHTS, "m": np.array([2, 3], np.int32), "a": draw(2, 2, 3, 3)},
    ),
    "mask of keys": attending(
        "Attention", ["x", "w", "b", "m"], {**WEIGHTS, "m": np.array([[1, 0, 1], [1, 1, 1]], np.int32)}
    ),
    "mask of pairs": attending(
        "Attention", ["x", "w", "b", "m"], {**WEIGHTS, "m": np.array([np.tri(3), np.tri(3).T], np.int32)}
    ),
    "heads": attending("MultiHeadAttention", ["x", "x", "v"], {}),
    "heads with all": attending(
        "MultiHeadAttention",
        ["x", "x", "v", "b", "m", "a"],
        {"b": draw(10), "m": np.array([[1, 0, 1], [1, 1, 1]], np.int32), "a": draw(1, 2, 3, 3)},
        unidirectional=1,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_fused_attention_is_what_it_was_fused_from(name: str) -> None:
    check_outputs(MODELS[name], batch(MODELS[name], low=-1, high=1), engines="onnxruntime")


@pytest.mark.parametrize("name", ["plain", "heads with all"])
def test_fused_attention_has_gradients(name: str) -> None:
    x = batch(MODELS[name], low=-1, high=1)
    check_outputs(MODELS[name], x, engines="torch")
    check_gradient(MODELS[name], x)


def test_quantised_attention() -> None:
    weight = np.random.default_rng(0).integers(-100, 100, (4, 12)).astype(np.int8)
    constants = {"w": weight, "b": WEIGHTS["b"], "ws": np.array(0.01), "wz": np.array(0, np.int8)}
    model = attending("QAttention", ["xq", "w", "b", "xs", "ws", "", "xz", "wz"], constants)
    check_outputs(model, batch(model, low=-1, high=1), rtol=1e-4)


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (
            attending("Attention", ["x", "w", "b", "", "p"], {**WEIGHTS, "p": np.zeros((2, 2, 2, 0, 2))}, 2),
            "attention with a past",
        ),
        (attending("MultiHeadAttention", ["x"], {}), "packed queries"),
        (
            attending("Attention", ["x", "w", "b", "m"], {**WEIGHTS, "m": np.zeros((2, 1, 3, 3), np.int32)}),
            r"a mask of shape \[2, 1, 3, 3\]",
        ),
    ],
)
def test_attention_of_other_kinds_is_refused_in_one_line(model: ModelProto, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        lower(model)
