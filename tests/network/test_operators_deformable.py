"""DeformConv: strides, pads, dilations, groups, and places that the input moves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operator_checks import batch, check_outputs, node_model

from falsifier.network.lowering import lower
from falsifier.network.torch_engine import TorchEngine

FORMS: list[dict[str, Any]] = [
    {},
    {"strides": [2, 1], "pads": [1, 0, 1, 2]},
    {"dilations": [1, 2], "offset_group": 2},
    {"group": 2, "offset_group": 2, "mask": True},
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("moving", [False, True])
def test_deform_conv(form: dict[str, Any], moving: bool) -> None:
    attributes = dict(form)
    masked = attributes.pop("mask", False)
    groups, offset_groups = attributes.get("group", 1), attributes.get("offset_group", 1)
    pads, strides = attributes.get("pads", [0] * 4), attributes.get("strides", [1, 1])
    dilations = attributes.get("dilations", [1, 1])
    height, width = ((n + pads[i] + pads[i + 2] - dilations[i] - 1) // strides[i] + 1 for i, n in enumerate((4, 5)))
    rng = np.random.default_rng(6)
    weights = {"w": rng.normal(size=(2, 4 // groups, 2, 2)), "b": rng.normal(size=2)}
    offsets = [1, offset_groups * 8, height, width]
    constants = weights if moving else {**weights, "o": rng.uniform(-1, 1, offsets)}
    if masked:
        constants["m"] = rng.uniform(0, 1, (1, offset_groups * 4, height, width))
    inputs = {"x": [1, 4, 4, 5], "o": offsets} if moving else {"x": [1, 4, 4, 5]}
    order = ["x", "w", "o", "b", "m"] if masked else ["x", "w", "o", "b"]
    model = node_model("DeformConv", inputs, constants, order=order, opset=19, **attributes)
    x = batch(model)
    check_outputs(model, x, rtol=1e-4)
    assert TorchEngine(lower(model), "cpu", threads=1).differentiable
