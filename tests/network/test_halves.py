"""Pulling: outputs and the gradient of a seed that depends on them, without a second forward run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from analytic_engine import AnalyticEngine
from numpy.typing import NDArray
from small_networks import AFFINE, KINKED, SMOOTH, read

from falsifier.network import work
from falsifier.network.engine import Pulling, pulled
from falsifier.network.lowering import lower
from falsifier.network.onnxruntime_engine import OnnxruntimeEngine

Array = NDArray[Any]
NETWORKS = AFFINE | KINKED | SMOOTH
STEPPED = """net (float[1,3] x) => (float[1,2] y) <float[3,4] v = {1.0,2.0,-1.0,0.5,1.0,-1.0,3.0,1.0,0.0,1.0,1.0,-2.0},
    float[4,2] w = {1.0,-1.0,1.0,1.0,2.0,0.0,-1.0,1.0}, float c = {0.1}> {
    a = MatMul (x, v)
    s = Sign (a)
    d = Add (s, c)
    t = Sign (d)
    y = MatMul (t, w)
    }"""


@pytest.fixture
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small networks count as large ones."""
    monkeypatch.setattr(work, "_SMALL", 0)


def squared(y: Array) -> Array:
    """The seed of the sum of squares / 2."""
    return y


def apart(engine: OnnxruntimeEngine, x: Array, window: Array | None = None) -> tuple[Array, Array]:
    return engine.outputs(x), engine.vjp(x, squared(engine.outputs(x)), window)[1]


def no_second_run(*_: Any) -> Any:
    raise AssertionError("a run beside the halves")


@pytest.mark.usefixtures("any_size")
@pytest.mark.parametrize("name", NETWORKS)
def test_halves_are_the_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = OnnxruntimeEngine(lower(NETWORKS[name]))
    x = np.random.default_rng(0).uniform(-1, 1, (5, engine.n)).astype(engine.dtype)
    expected = apart(engine, x)
    for other in ("outputs", "vjp"):
        monkeypatch.setattr(engine, other, no_second_run)
    for mine, theirs in zip(engine.pull(x, squared), expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def test_a_small_network_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """What halves share would take longer to hand over than the run takes."""
    engine, x = OnnxruntimeEngine(lower(read(STEPPED))), np.ones((2, 3), np.float32)
    expected = apart(engine, x)
    monkeypatch.setattr(engine, "_halves", None)
    for mine, theirs in zip(engine.pull(x, squared), expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.usefixtures("any_size")
def test_windows_reach_the_reverse_half() -> None:
    engine = OnnxruntimeEngine(lower(read(STEPPED)))
    x = np.tile(np.array([[1.0, 0.0, 0.0]], np.float32), (2, 1))
    window = np.array([np.inf, 0.5], np.float32)
    _, gradient = engine.pull(x, squared, window)
    np.testing.assert_array_equal(gradient, apart(engine, x, window)[1])
    assert (gradient[0] != gradient[1]).any()


@pytest.mark.usefixtures("any_size")
def test_no_lanes_are_no_gradient() -> None:
    y, gradient = OnnxruntimeEngine(lower(read(STEPPED))).pull(np.zeros((0, 3), np.float32), squared)
    assert y.shape == (0, 2)
    assert gradient.shape == (0, 3)


def test_an_engine_that_does_not_pull_runs_twice() -> None:
    engine, x = AnalyticEngine([[1.0, 2.0]], [[0.0, 1.0]]), np.array([[1.0, 3.0]])
    assert not isinstance(engine, Pulling)
    y, gradient = pulled(engine, x, squared)
    np.testing.assert_array_equal(y, [[16]])
    np.testing.assert_array_equal(gradient, [[16, 128]])
    assert engine.runs == [1, 1]


@pytest.mark.usefixtures("any_size")
def test_tiny_seeds_lose_no_digit() -> None:
    """A sure classifier's: below the smallest normal number each would be rounded, and take a hundred times as long."""
    engine = OnnxruntimeEngine(lower(read(STEPPED)))
    rng = np.random.default_rng(3)
    x, seed = rng.normal(size=(4, 3)).astype(np.float32), rng.normal(size=(4, 2)).astype(np.float32)
    _, plain = engine.vjp(x, seed)
    down = np.array([0, -100, -70, -90])[:, None]
    for found in (engine.vjp(x, np.ldexp(seed, down))[1], engine.pull(x, lambda _: np.ldexp(seed, down))[1]):
        np.testing.assert_array_equal(found, np.ldexp(plain, down))
    _, lowest = engine.vjp(x, np.full((4, 2), 2.0**-149, np.float32))
    np.testing.assert_array_equal(lowest, np.ldexp(engine.vjp(x, np.ones((4, 2), np.float32))[1], -149))
    broken = np.array([[np.nan, 0], [np.inf, 0], [0, 0], [1, 0]], np.float32)
    found = engine.vjp(x, broken)[1]
    assert not np.isfinite(found[:2]).all()
    assert not found[2].any()
    np.testing.assert_array_equal(found[3], engine.vjp(x[3:], broken[3:])[1][0])
