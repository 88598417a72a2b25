"""Outputs and activations from one run, in both engines; maps reduced to channels."""

from __future__ import annotations

import numpy as np
import pytest
from small_networks import read

from falsifier.arrays import to_host
from falsifier.errors import EngineError
from falsifier.network.lowering import Lowered, lower
from falsifier.network.observation import Layer, Observable, Watch
from falsifier.network.onnxruntime_engine import OnnxruntimeEngine
from falsifier.network.single import SingleSampleEngine
from falsifier.network.torch_engine import TorchEngine

CONVOLUTION = read(
    """net (float[1,1,3,3] x) => (float[1,2] y)
    <float[2,1,2,2] w = {1.0,0.0,0.0,0.0,-1.0,0.0,0.0,-1.0}, float[8,2] v =
    {1.0,0.0,0.0,1.0,1.0,0.0,0.0,1.0,1.0,0.0,0.0,1.0,1.0,0.0,0.0,1.0}> {
        c = Conv (x, w)
        t = Tanh (c)
        f = Flatten <axis = 1> (t)
        r = Relu (f)
        y = MatMul (r, v)
    }"""
)
LINEAR = read("net (float[1,2] x) => (float[1,1] y) <float[2,1] w = {1.0,-1.0}> { y = MatMul (x, w) }")
ENGINES = pytest.mark.parametrize("engine", [OnnxruntimeEngine, lambda lowered: TorchEngine(lowered, "cpu")])


@ENGINES
def test_one_run_gives_outputs_and_activations(engine: type[OnnxruntimeEngine]) -> None:
    served = engine(lower(CONVOLUTION))
    assert isinstance(served, Observable)
    assert served.layers == (Layer("t", 8, 2), Layer("r", 8, 8))
    x = np.random.default_rng(0).normal(size=(5, 9)).astype(np.float32)
    observer = served.observer([Watch("t", channels=True), Watch("r"), Watch("t")])
    assert observer.widths == (2, 8, 8)
    outputs, seen = (to_host(a) for a in observer.run(served.asarray(x)))
    np.testing.assert_allclose(outputs, to_host(served.outputs(served.asarray(x))), rtol=1e-6)
    image = x.reshape(5, 3, 3)
    one = image[:, :2, :2]
    two = -image[:, :2, :2] - image[:, 1:, 1:]
    maps = np.tanh(np.stack([one, two], axis=1))
    np.testing.assert_allclose(seen[:, :2], np.abs(maps).max(axis=(2, 3)), rtol=1e-5)
    np.testing.assert_allclose(seen[:, 2:10], np.maximum(maps, 0).reshape(5, 8), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(seen[:, 10:], maps.reshape(5, 8), rtol=1e-5)


@ENGINES
def test_several_observers_do_not_disturb_one_another(engine: type[OnnxruntimeEngine]) -> None:
    served = engine(lower(CONVOLUTION))
    x = served.asarray(np.random.default_rng(0).normal(size=(5, 9)).astype(np.float32))
    asked = [[Watch("t", channels=True)], [Watch("r")], [Watch("c", channels=True), Watch("t")]]
    observers = [served.observer(watched) for watched in asked]
    before = [to_host(observer.run(x)[1]) for observer in observers]
    served.vjp(x, served.asarray(np.ones((5, 2))))
    for observer, seen in zip(observers, before, strict=True):
        np.testing.assert_array_equal(to_host(observer.run(x)[1]), seen)


@ENGINES
def test_watching_changes_nothing_else(engine: type[OnnxruntimeEngine]) -> None:
    served = engine(lower(CONVOLUTION))
    x = served.asarray(np.ones((3, 9)))
    before = to_host(served.vjp(x, served.asarray(np.ones((3, 2))))[1])
    served.observer([Watch("t", channels=True)]).run(x)
    np.testing.assert_array_equal(to_host(served.vjp(x, served.asarray(np.ones((3, 2))))[1]), before)


@ENGINES
def test_names_that_nothing_computes_are_refused(engine: type[OnnxruntimeEngine]) -> None:
    for name in ("nothing", "x", "w"):
        with pytest.raises(EngineError, match=name):
            engine(lower(CONVOLUTION)).observer([Watch(name)])


def test_without_activation_functions_products_are_layers() -> None:
    lowered: Lowered = lower(LINEAR)
    engine = OnnxruntimeEngine(lowered)
    assert engine.layers == (Layer("y", 1, 1),)
    outputs, seen = engine.observer([Watch("y")]).run(np.array([[3.0, 1.0]], np.float32))
    assert outputs.tolist() == seen.tolist() == [[2.0]]


def test_single_samples_show_nothing() -> None:
    assert not hasattr(SingleSampleEngine, "layers")
