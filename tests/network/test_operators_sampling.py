"""GridSample, AffineGrid, Col2Im, DFT and STFT against onnxruntime."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from onnx import helper
from operator_checks import autograd, batch, check, check_gradient, check_outputs, node_model
from operator_graphs import draw, graph_model

from falsifier.network.lowering import lower
from falsifier.network.torch_engine import TorchEngine


@pytest.mark.parametrize(
    ("mode", "padding", "aligned"),
    list(product(["linear", "nearest", "cubic"], ["zeros", "border", "reflection"], [0, 1])),
)
def test_grid_sample(mode: str, padding: str, aligned: int) -> None:
    options: dict[str, Any] = {"mode": mode, "padding_mode": padding, "align_corners": aligned}
    both = node_model("GridSample", {"x": [2, 2, 3, 4], "g": [2, 3, 2, 2]}, **options)
    check_outputs(both, batch(both))
    fixed = node_model("GridSample", {"x": [2, 2, 3, 4]}, {"g": draw(2, 3, 2, 2)}, **options)
    check_outputs(fixed, batch(fixed))
    if mode != "cubic":
        solid = node_model("GridSample", {"x": [1, 2, 3, 4, 2], "g": [1, 2, 2, 2, 3]}, **options)
        check_outputs(solid, batch(solid))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_grid_sample_of_the_first_opset(mode: str) -> None:
    model = node_model("GridSample", {"x": [1, 2, 3, 4], "g": [1, 3, 2, 2]}, opset=16, mode=mode)
    check_outputs(model, batch(model))


@pytest.mark.parametrize(
    ("mode", "padding", "aligned"), list(product(["linear", "nearest"], ["zeros", "border", "reflection"], [0, 1]))
)
def test_gradient_of_grid_sample(mode: str, padding: str, aligned: int) -> None:
    """Grids reach far outside, where padding and reflections of reflections are."""
    options: dict[str, Any] = {"mode": mode, "padding_mode": padding, "align_corners": aligned}
    model = node_model("GridSample", {"x": [2, 2, 3, 4], "g": [2, 2, 3, 2]}, **options)
    check_gradient(model, batch(model, low=-5, high=5))
    solid = node_model("GridSample", {"x": [1, 1, 3, 2, 4], "g": [1, 1, 2, 2, 3]}, **options)
    check_gradient(solid, batch(solid, low=-2, high=2))


def test_gradient_of_cubic_grid_sample_is_torchs() -> None:
    """Without an adjoint, autograd through the closure serves."""
    model = node_model("GridSample", {"x": [1, 1, 3, 3], "g": [1, 2, 2, 2]}, mode="cubic")
    engine = TorchEngine(lower(model), "cpu", np.float64, threads=1)
    assert engine.gradient == "autograd"
    assert engine.why_no_adjoint is not None
    x = batch(model, low=-0.8, high=0.8).astype(np.float64)
    assert np.abs(autograd(model, x, np.ones((len(x), 4)))).max() > 0


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("size", [[2, 3, 4, 5], [2, 3, 4, 5, 2]])
def test_affine_grid(size: list[int], aligned: int) -> None:
    rank = len(size) - 2
    constants = {"s": np.array(size)}
    check(node_model("AffineGrid", {"t": [2, rank, rank + 1]}, constants, align_corners=aligned, opset=20))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"strides": [2, 1]},
        {"pads": [1, 0, 1, 2]},
        {"dilations": [2, 1]},
        {"strides": [2, 3], "pads": [1, 1, 0, 0]},
    ],
)
def test_col2im(options: dict[str, Any]) -> None:
    image, block = [5, 6], [2, 3]
    strides, pads = options.get("strides", [1, 1]), options.get("pads", [0] * 4)
    dilations = options.get("dilations", [1, 1])
    places = 1
    for i in range(2):
        places *= (image[i] + pads[i] + pads[i + 2] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1
    constants = {"i": np.array(image), "b": np.array(block)}
    check(node_model("Col2Im", {"x": [1, 2 * 6, places]}, constants, opset=18, **options))


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize(("inverse", "onesided", "parts"), [(0, 0, 1), (0, 0, 2), (1, 0, 2), (0, 1, 1)])
@pytest.mark.parametrize("length", [None, 3, 8])
def test_fourier_transform(opset: int, inverse: int, onesided: int, parts: int, length: int | None) -> None:
    """Cut, or filled with zeros, to a given length."""
    constants = {} if length is None else {"n": np.array(length)}
    options: dict[str, Any] = {"inverse": inverse, "onesided": onesided}
    check(node_model("DFT", {"x": [2, 5, parts]}, constants, opset=opset, **options))


def test_fourier_transform_along_another_axis() -> None:
    check(node_model("DFT", {"x": [2, 4, 3, 2]}, {"a": np.array(1)}, order=["x", "", "a"], opset=20))


def test_one_sided_inverse() -> None:
    """It brings back what a one-sided transform was made of."""
    for count in (5, 6):
        nodes = [
            helper.make_node("DFT", ["x"], ["f"], onesided=1),
            helper.make_node("DFT", ["f", "n"], ["y"], onesided=1, inverse=1),
        ]
        model = graph_model(nodes, {"x": [2, count, 1]}, {"n": np.array(count)}, opset=20)
        engine = TorchEngine(lower(model), "cpu", np.float64, threads=1)
        x = batch(model).astype(np.float64)
        np.testing.assert_allclose(engine.outputs(engine.asarray(x)).numpy(), x, atol=1e-6)


@pytest.mark.parametrize("onesided", [0, 1])
def test_short_time_transform(onesided: int) -> None:
    windowed = {"s": np.array(4), "w": np.hanning(8)}
    check(node_model("STFT", {"x": [2, 21, 1]}, windowed, opset=17, onesided=onesided))
    plain = {"s": np.array(4), "n": np.array(8)}
    check(node_model("STFT", {"x": [1, 21, 1]}, plain, order=["x", "s", "", "n"], opset=17, onesided=onesided))
