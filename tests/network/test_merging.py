"""Several programs as one: every part gives what it gives alone, and weights that are shared are there once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto
from small_networks import AFFINE, KINKED, SMOOTH, read

from falsifier.network.lowering import Lowered, lower
from falsifier.network.merging import merge
from falsifier.network.onnxruntime_engine import OnnxruntimeEngine
from falsifier.network.torch_engine import TorchEngine

Array = NDArray[Any]
NETWORKS = {**AFFINE, **KINKED, **SMOOTH}
STEPS = read(
    "net (float[1,3] x) => (float[1,2] y) <float[3,2] w = {1,-2,3,1,-1,2}> { h = Sign (x)  y = MatMul (h, w) }"
)
MIXED = read(
    """net (int64[2] i, float16[1] h) => (float[2] p, float16[1] q) {
    p = Cast <to = 1> (i)
    q = Relu (h)
    }"""
)


def engines(*models: ModelProto, torch: bool = False) -> tuple[Any, list[Any]]:
    """The engine of the merge, and those of the parts."""
    known: dict[int, Lowered] = {}
    parts = [known.setdefault(id(model), lower(model)) for model in models]
    make: Any = TorchEngine if torch else OnnxruntimeEngine
    options = ("cpu",) if torch else ()
    return make(merge(parts), *options), [make(part, *options) for part in parts]


def cut(values: Array, sizes: list[int]) -> list[Array]:
    return np.split(values, np.cumsum(sizes)[:-1], axis=1)


def check(joint: Any, alone: list[Any]) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (4, joint.n)).astype(joint.dtype)
    seed = rng.uniform(-1, 1, (4, joint.m)).astype(joint.dtype)
    assert (joint.n, joint.m) == (sum(e.n for e in alone), sum(e.m for e in alone))
    assert joint.dtype == np.result_type(*(e.dtype for e in alone))
    pieces = cut(x, [e.n for e in alone])
    seeds = cut(seed, [e.m for e in alone])
    y, gradient = (np.asarray(part) for part in joint.vjp(joint.asarray(x), joint.asarray(seed)))
    results = [e.vjp(e.asarray(a), e.asarray(s)) for e, a, s in zip(alone, pieces, seeds, strict=True)]
    for at, together in enumerate((y, gradient)):
        expected = np.concatenate([np.asarray(result[at]) for result in results], axis=1)
        np.testing.assert_allclose(together, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_twice_the_same_network(name: str) -> None:
    joint, alone = engines(NETWORKS[name], NETWORKS[name])
    check(joint, alone)


@pytest.mark.parametrize("torch", [False, True])
def test_networks_of_all_kinds_and_types(torch: bool) -> None:
    some = [AFFINE["mean over the batch axis"], MIXED, next(iter(SMOOTH.values())), STEPS, next(iter(KINKED.values()))]
    joint, alone = engines(*some, some[0], torch=torch)
    assert joint.stepped
    check(joint, alone)


def test_windows_reach_every_part() -> None:
    joint, alone = engines(STEPS, STEPS)
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(2, 6)
    seed, window = np.ones((2, 4), np.float32), np.array([0.5, np.inf], np.float32)
    _, gradient = joint.vjp(x, seed, window)
    for engine, part, mine in zip(alone, cut(x, [3, 3]), cut(gradient, [3, 3]), strict=True):
        _, expected = engine.vjp(part, seed[:, :2], window)
        np.testing.assert_allclose(mine, expected, atol=1e-6)
    assert (gradient[0] == 0).any()


def test_constants_of_a_shared_model_are_there_once() -> None:
    part = lower(AFFINE["reshape to a fixed leading one"])
    other = lower(AFFINE["reshape to a fixed leading one"])
    shared, apart = merge([part, part]).program.constants, merge([part, other]).program.constants
    assert len(apart) - len(shared) == len(part.program.constants)
    matrices = [id(array) for array in shared.values() if array.shape == (1, 2)]
    assert len(matrices) == len(set(matrices)) == 1


def test_tensors_are_known_by_the_number_of_their_network() -> None:
    joint, alone = engines(STEPS, STEPS)
    x = np.arange(-3, 3, dtype=np.float32).reshape(1, 6)
    found = joint.activations(x, ["0:h", "1:h"])
    assert found["0:h"].tolist() == [[-1, -1, -1]]
    assert found["1:h"].tolist() == alone[1].activations(x[:, 3:], ["h"])["h"].tolist() == [[0, 1, 1]]
