"""The adjoint: exact on affine networks, equal to differences on others, straight through where there is no slope."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto
from small_networks import AFFINE, KINKED, SMOOTH, read

from falsifier.errors import UnsupportedError
from falsifier.network.adjoint import add_adjoint
from falsifier.network.lowering import lower
from falsifier.network.onnxruntime_engine import OnnxruntimeEngine
from falsifier.network.program import WINDOW

Array = NDArray[Any]
LANES = 4


def engine_of(model: ModelProto) -> OnnxruntimeEngine:
    return OnnxruntimeEngine(lower(model))


def slopes(engine: OnnxruntimeEngine, x: Array, d: Array, seed: Array, step: float) -> tuple[Array, Array]:
    """Per lane the derivative of seed * outputs along d: by the adjoint, and by a central difference."""
    _, gradient = engine.vjp(x, seed)
    assert gradient.shape == x.shape
    difference = (engine.outputs(x + step * d) - engine.outputs(x - step * d)) / (2 * step)
    return (gradient * d).sum(axis=1), (difference * seed).sum(axis=1)


def draw(engine: OnnxruntimeEngine, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    x, d = (rng.uniform(-1, 1, (LANES, engine.n)).astype(engine.dtype) for _ in range(2))
    return x, d, rng.uniform(-1, 1, (LANES, engine.m)).astype(engine.dtype)


@pytest.mark.parametrize("name", AFFINE)
def test_affine_networks_exactly(name: str) -> None:
    engine = engine_of(AFFINE[name])
    x, d, seed = draw(engine, np.random.default_rng(0))
    mine, expected = slopes(engine, x, d, seed, step=1.0)
    np.testing.assert_allclose(mine, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_networks_by_differences_in_float64(name: str) -> None:
    engine = engine_of(SMOOTH[name])
    assert engine.dtype == np.float64
    x, d, seed = draw(engine, np.random.default_rng(1))
    mine, expected = slopes(engine, x, d, seed, step=1e-6)
    np.testing.assert_allclose(mine, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", KINKED)
def test_kinked_networks_away_from_the_kinks(name: str) -> None:
    engine = engine_of(KINKED[name])
    rng = np.random.default_rng(2)
    x, d, seed = draw(engine, rng)
    x = np.where(x < 0, x - 0.5, x + 0.5).astype(np.float32)
    mine, expected = slopes(engine, x, d, seed, step=0.25)
    np.testing.assert_allclose(mine, expected, rtol=1e-4, atol=1e-5)


def test_the_derivative_of_relu_at_0_is_0() -> None:
    engine = engine_of(read("net (float[1,2] x) => (float[1,2] y) { z = Relu (x) y = Mul (z, z) }"))
    _, gradient = engine.vjp(np.array([[0.0, 1.0]], np.float32), np.ones((1, 2), np.float32))
    np.testing.assert_array_equal(gradient, [[0, 2]])


@pytest.mark.parametrize("scale", [30.0, 1000.0])
@pytest.mark.parametrize(
    "last",
    [
        "y = Sigmoid (l)",
        "y = Tanh (l)",
        "y = Relu (l)",
        "s = Relu (l) t = Neg (s) y = Reshape (t, shape)",
        "y = Clip (l, low, high)",
        "y = HardSigmoid (l)",
        "y = Elu (l)",
        "s = Sigmoid (l) t = Mul (s, three) y = MatMul (t, v)",
        "s = Tanh (l) t = Mul (s, scale) y = Tanh (t)",
        "o = Mul (l, low) c = Concat <axis = 1> (l, o) s = Softmax <axis = 1> (c) y = MatMul (s, w)",
    ],
)
def test_a_network_that_ends_flat_still_gives_a_direction(last: str, scale: float) -> None:
    """Below a threshold that no slope of float32 reaches, the gradient points where the line's own does."""
    engine = engine_of(
        read(
            "net (float[1,3] x) => (float[1,1] y) <float[3,1] u = {1, -2, 0.5}, float[1,1] v = {2}, "
            f"float[2,1] w = {{1, 0}}, float[1] far = {{-9}}, float[1] scale = {{{scale}}}, float[1] three = {{3}}, "
            "float low = {-1}, float high = {1}, int64[2] shape = {1, 1}> "
            f"{{ a = MatMul (x, u) b = Add (a, far) l = Mul (b, scale) {last} }}"
        )
    )
    x = np.random.default_rng(0).uniform(-1, 1, (4, 3)).astype(np.float32)
    y, gradient = engine.vjp(x, np.ones((4, 1), np.float32))
    assert len(np.unique(y)) == 1
    direction = gradient / np.abs(gradient).max(axis=1, keepdims=True)
    np.testing.assert_allclose(direction, np.tile([[0.5, -1, 0.25]], (4, 1)) * (-1 if "Neg" in last else 1), rtol=1e-5)


def test_uses_add_up_and_unused_inputs_get_zero() -> None:
    engine = engine_of(
        read("net (float[1,2] u, float[1,2] v) => (float[1,2] y) { a = Mul (u, u) b = Add (a, u) y = Add (b, u) }")
    )
    x = np.array([[1.0, 2.0, 5.0, 5.0]], np.float32)
    _, gradient = engine.vjp(x, np.ones((1, 2), np.float32))
    np.testing.assert_array_equal(gradient, [[4, 6, 0, 0]])


def test_a_network_without_a_path_has_gradient_zero() -> None:
    engine = engine_of(read("net (float[1,2] x) => (int64[1,1] y) { y = ArgMax <axis = 1> (x) }"))
    assert engine.differentiable
    y, gradient = engine.vjp(np.array([[1.0, 2.0]], np.float32), np.ones((1, 1), np.float32))
    np.testing.assert_array_equal(y, [[1]])
    np.testing.assert_array_equal(gradient, [[0, 0]])


def test_gradients_pass_integers_that_are_only_placed() -> None:
    engine = engine_of(
        read(
            """net (float[1,3] x) => (float[1,2] y) <int64[2] i = {2,0}> {
            a = Cast <to = 7> (x)
            b = Gather <axis = 1> (a, i)
            c = Cast <to = 1> (b)
            y = Add (c, c)
            }"""
        )
    )
    _, gradient = engine.vjp(np.array([[1.5, 2.5, 3.5]], np.float32), np.array([[1.0, 10.0]], np.float32))
    np.testing.assert_array_equal(gradient, [[20, 0, 2]])


SIGN = "net (float[1,4] x) => (float[1,4] y) { y = Sign (x) }"
STACKED = """net (float[1,4] x) => (float[1,4] y) <float[1] c = {0.1}> {
    a = Sign (x)
    b = Add (a, c)
    y = Sign (b)
    }"""


def test_windows_pass_the_gradient_near_zero_only() -> None:
    """Mean magnitude 2.5: a width of 0.5 reaches to 1.25."""
    engine = engine_of(read(SIGN))
    x = np.tile(np.array([[-1.0, 2.0, -3.0, 4.0]], np.float32), (4, 1))
    window = np.array([np.inf, 0.5, 1.0, 0.0], np.float32)
    seed = np.ones((4, 4), np.float32)
    _, gradient = engine.vjp(x, seed, window)
    np.testing.assert_array_equal(gradient, [[1, 1, 1, 1], [1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]])
    np.testing.assert_array_equal(engine.vjp(x, seed)[1], seed)


def test_an_infinite_window_passes_a_tensor_of_zeros() -> None:
    engine = engine_of(read(SIGN))
    _, gradient = engine.vjp(np.zeros((1, 4), np.float32), np.ones((1, 4), np.float32), np.array([np.inf], np.float32))
    np.testing.assert_array_equal(gradient, np.ones((1, 4)))


def test_a_sign_behind_a_sign_has_no_window() -> None:
    engine = engine_of(read(STACKED))
    x = np.array([[-1.0, 2.0, -3.0, 4.0]], np.float32)
    _, gradient = engine.vjp(x, np.ones((1, 4), np.float32), np.array([0.5], np.float32))
    np.testing.assert_array_equal(gradient, [[1, 0, 0, 0]])


def test_the_window_is_an_input_only_where_something_reads_it() -> None:
    for body, read_by in ((SIGN, True), ("net (float[1,4] x) => (float[1,4] y) { y = Relu (x) }", False)):
        lowered = lower(read(body))
        build = lowered.builder.fork()
        seed = build.input("seed", lowered.y.stored, lowered.y.dtype)
        add_adjoint(build, {lowered.y.name: seed})
        assert (WINDOW in build.program.inputs) is read_by
        assert WINDOW not in lowered.program.inputs


def test_a_primitive_without_adjoint_is_named() -> None:
    lowered = lower(read("net (float[1,4] x) => (float[1,4] y) { y = Relu (x) }"))
    build = lowered.builder.fork()
    strange = build.emit("Fancy", [lowered.y], lowered.y.stored)
    seed = build.input("seed", strange.stored, strange.dtype)
    with pytest.raises(UnsupportedError, match="Fancy"):
        add_adjoint(build, {strange.name: seed})


@pytest.mark.parametrize("channels", [3, 8])  # few channels take another way than many
def test_convolutions_of_every_width(channels: int) -> None:
    from onnx import helper, numpy_helper

    rng = np.random.default_rng(3)
    w = rng.normal(size=(4, channels, 3, 3)).astype(np.float32)
    model = read(f"net (float[1,{channels},6,5] x) => (float[1,4,6,5] y) {{ y = Relu (x) }}")
    del model.graph.node[:]
    model.graph.node.append(helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1]))
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    engine = engine_of(model)
    x, d, seed = draw(engine, rng)
    mine, expected = slopes(engine, x, d, seed, step=1.0)
    np.testing.assert_allclose(mine, expected, rtol=1e-4, atol=1e-4)
