"""Activations written out with exponentials: values of their parts, slopes that do not vanish."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from small_networks import read

from falsifier.network.lowering import lower
from falsifier.network.onnxruntime_engine import OnnxruntimeEngine
from falsifier.network.reference import Reference

Floats = NDArray[np.float64]
ONES = "float one = {1.0}, float two = {2.0}, float minus = {-2.0}"


def sigmoid_slope(x: Floats) -> Floats:
    return 1 / (2 + np.exp(x) + np.exp(-x))


def tanh_slope(x: Floats) -> Floats:
    return 1 / np.cosh(x) ** 2


WRITTEN: dict[str, tuple[str, Callable[[Floats], Floats], float]] = {
    "one over": ("n = Neg (x) e = Exp (n) d = Add (e, one) y = Div (one, d)", sigmoid_slope, 200),
    "reciprocal": ("n = Neg (x) e = Exp (n) d = Add (one, e) y = Reciprocal (d)", sigmoid_slope, 200),
    "exponential over": ("e = Exp (x) d = Add (e, one) y = Div (e, d)", sigmoid_slope, 88),
    "falling": ("e = Exp (x) d = Add (e, one) y = Div (one, d)", lambda x: -sigmoid_slope(x), 200),
    "twice a sigmoid": (
        "m = Mul (x, minus) e = Exp (m) d = Add (e, one) q = Div (two, d) y = Sub (q, one)",
        tanh_slope,
        200,
    ),
    "one exponential": (
        "m = Mul (x, two) e = Exp (m) a = Sub (e, one) b = Add (e, one) y = Div (a, b)",
        tanh_slope,
        44,
    ),
    "four exponentials": (
        "n = Neg (x) p = Exp (x) q = Exp (n) a = Sub (p, q) k = Neg (x) r = Exp (x) s = Exp (k) b = Add (s, r) "
        "y = Div (a, b)",
        tanh_slope,
        88,
    ),
}


def engine_of(body: str, count: int = 1) -> tuple[OnnxruntimeEngine, Reference]:
    model = read(f"net (float[1,{count}] x) => (float[1,{count}] y) <{ONES}> {{ {body} }}")
    return OnnxruntimeEngine(lower(model)), Reference(model.SerializeToString())


@pytest.mark.parametrize("kind", WRITTEN)
def test_slopes_near_the_middle_are_those_of_the_function(kind: str) -> None:
    body, slope, _ = WRITTEN[kind]
    engine, reference = engine_of(body)
    x = np.linspace(-6, 6, 41, dtype=np.float32)[:, None]
    y, gradient = engine.vjp(x, np.full_like(x, 3))
    assert y.tolist() == [reference.run_flat(point).tolist() for point in x]
    np.testing.assert_allclose(gradient, 3 * slope(x.astype(np.float64)), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", WRITTEN)
def test_far_from_the_middle_a_slope_is_small_and_not_zero(kind: str) -> None:
    body, slope, far = WRITTEN[kind]
    engine, _ = engine_of(body)
    x = np.array([[-far], [-far / 2], [far / 2], [far]], np.float32)
    _, gradient = engine.vjp(x, np.ones_like(x))
    assert (np.sign(gradient) == np.sign(slope(np.zeros(1)))).all()
    assert (np.abs(gradient) < 1e-8).all()
    assert (np.abs(gradient) > 1e-10).all()


SOFTMAX = {
    "as it is": "e = Exp (x)",
    "from the largest": "m = ReduceMax <axes = [1]> (x) z = Sub (x, m) e = Exp (z)",
}


@pytest.mark.parametrize("kind", SOFTMAX)
def test_a_softmax_far_from_a_tie_points_to_the_class_that_is_asked_for(kind: str) -> None:
    body = SOFTMAX[kind] + " axis = Constant <value_ints = [1]> () t = ReduceSum (e, axis) y = Div (e, t)"
    engine, _ = engine_of(body, 3)
    x = np.array([[80.0, -30.0, -40.0]], np.float32)
    y, gradient = engine.vjp(x, np.array([[0.0, 0.0, 1.0]], np.float32))
    assert y.tolist() == [[1, 0, 0]]
    assert gradient[0, 2] > 0
    assert gradient[0, 0] < 0
    close = np.array([[0.5, -0.25, 0.125]], np.float32)
    p = np.exp(close) / np.exp(close).sum()
    seed = np.array([[0.5, -1.0, 2.0]], np.float32)
    np.testing.assert_allclose(engine.vjp(close, seed)[1], p * (seed - (p * seed).sum()), rtol=1e-5)


@pytest.mark.parametrize(
    "body",
    [
        "e = Exp (x) d = Add (e, minus) y = Div (one, d)",
        "e = Exp (x) d = Add (e, one) y = Div (x, d)",
        "e = Exp (x) a = Sub (e, two) b = Add (e, one) y = Div (a, b)",
        "n = Neg (x) e = Exp (x) f = Exp (n) a = Sub (e, f) b = Add (e, e) y = Div (a, b)",
    ],
)
def test_what_only_looks_alike_keeps_the_slopes_of_its_parts(body: str) -> None:
    engine, _ = engine_of(body)
    x = np.linspace(1, 3, 9, dtype=np.float32)[:, None]
    h = np.float32(1 / 512)
    _, gradient = engine.vjp(x, np.ones_like(x))
    by_difference = (engine.outputs(x + h) - engine.outputs(x - h)) / (2 * h)
    np.testing.assert_allclose(gradient, by_difference, rtol=2e-3, atol=1e-3)
