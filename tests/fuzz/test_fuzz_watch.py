"""What the batched program sees of broken tensors, against the original one sample at a time."""

from __future__ import annotations

from collections.abc import Callable

import fuzz_networks
import models
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from falsifier.errors import InputError
from falsifier.fuzz.exposed import Exposed
from falsifier.fuzz.rewriting import half_tensors
from falsifier.fuzz.single import SingleWatch
from falsifier.fuzz.watch import Watch, kinds_in_parts, run_in_parts
from falsifier.network import load


def _points(n: int) -> np.ndarray:
    special = [0.0, -0.0, 1.0, -1.0, 1e-45, 1e-30, 3e38, -3e38, 0.5, 200.0]
    rng = np.random.default_rng(0)
    return rng.choice(np.array(special, np.float32), (60, n))


def _half() -> onnx.ModelProto:
    """Products in half precision: 300 * 300 overflows there, and nowhere else."""
    nodes = [
        helper.make_node("Cast", ["X"], ["h"], to=TensorProto.FLOAT16),
        helper.make_node("Mul", ["h", "k"], ["p"]),
        helper.make_node("Cast", ["p"], ["Y"], to=TensorProto.FLOAT),
    ]
    return models.model(
        nodes, [models.tensor("X", [1, 2])], [models.tensor("Y", [1, 2])], [models.constant("k", [400.0], np.float16)]
    )


def _chain(*ops: str) -> Callable[[], onnx.ModelProto]:
    return lambda: models.chain([(op, [], {}) for op in ops], [1, 2], [1, 2])


@pytest.mark.parametrize(
    "make",
    [
        _chain("Sqrt", "Relu"),
        _chain("Log", "Neg", "Exp"),
        _chain("Reciprocal", "Sigmoid"),
        _chain("Exp", "Softmax"),
        _chain("Acos"),
        _half,
        lambda: fuzz_networks.faulty("standardised").model,
    ],
)
def test_broken_tensors_are_those_of_the_original(make: Callable[[], onnx.ModelProto]) -> None:
    network = load(make())
    watch = Watch(network.lowered, finite=True, halves=half_tensors(network.proto()))
    exposed = Exposed(network)
    x = _points(network.reference.n)
    seen = run_in_parts(watch, x, 16)
    nan, infinite = kinds_in_parts(watch, x, 16)
    some = 0
    for lane, point in enumerate(x):
        kinds = {kind for broken in exposed.broken(point) for _, kind in broken.tensors}
        assert seen.broken[lane].any() == bool(kinds)
        assert nan[lane].any() == ("nan" in kinds)
        assert infinite[lane].any() == ("inf" in kinds)
        some += bool(kinds)
    assert 0 < some <= len(x)


def test_an_integer_division_by_zero_ends_no_batch() -> None:
    faulty = fuzz_networks.faulty("integer_division", 1)
    network = load(faulty.model)
    wanted = next(
        onnx.numpy_helper.to_array(i) for i in faulty.model.graph.initializer if i.dims and np.prod(i.dims) == 2
    )
    x = np.array([[1.0, 2.0], wanted[0], [5.0, 6.0]], np.float32)
    watch = Watch(network.lowered, finite=True)
    assert watch.run(x).broken.any(axis=1).tolist() == [False, True, False]
    (broken,) = Exposed(network).broken(x[1])
    assert broken.kind == "error"
    assert "division by zero" in broken.message


def test_one_sample_at_a_time_sees_the_same() -> None:
    network = load(_chain("Sqrt", "Relu")())
    x = _points(2)
    batched, single = Watch(network.lowered, finite=True).run(x), SingleWatch(network, finite=True).run(x)
    np.testing.assert_array_equal(batched.broken.any(axis=1), single.broken.any(axis=1))
    np.testing.assert_array_equal(batched.outputs, single.outputs)


def test_named_tensors_are_shown() -> None:
    network = load(_chain("Neg", "Exp")())
    x = np.array([[1.0, 2.0]], np.float32)
    for watch in (Watch(network.lowered, tensors=["t0"]), SingleWatch(network, tensors=["t0"])):
        np.testing.assert_array_equal(watch.run(x).activations["t0"], -x)
    with pytest.raises(InputError, match="no tensor 'nowhere'"):
        Watch(network.lowered, tensors=["nowhere"])
