"""Inner tensors: read from the same forward pass by the reference and by engines, refused where they disturb it."""

from __future__ import annotations

from pathlib import Path

import models
import numpy as np
import pytest

from falsifier.errors import EngineError, InputError
from falsifier.network import Network, load
from falsifier.network.hidden_reference import HiddenReference
from falsifier.network.onnxruntime_engine import OnnxruntimeEngine
from falsifier.network.reference import Reference

# X [1, 2] -> t0 = X W (MatMul) -> t1 = t0 + b -> t2 = max(t1, 0) -> Y = t2 V
NET = models.chain(
    [
        ("MatMul", [models.constant("W", [[1, -1, 2], [1, 1, 0]])], {}),
        ("Add", [models.constant("b", [0, 0.5, -1])], {}),
        ("Relu", [], {}),
        ("MatMul", [models.constant("V", [[1], [2], [4]])], {}),
    ],
    [1, 2],
    [1, 1],
)
X = models.floats([[1, 2]])
INNER: dict[str, list[float]] = {"t0": [3, 1, 2], "t1": [3, 1.5, 1], "t2": [3, 1.5, 1], "Y": [10], "X": [1, 2]}


def network(*names: str) -> Network:
    return load(NET).shaped([(1, 2)], names)


@pytest.mark.parametrize("name", INNER)
def test_every_tensor_can_be_read(name: str) -> None:
    """Also the product that engines compute together with the sum, an output, and an input."""
    reference = network(name).reference
    (hidden,), (output,) = reference.observe([X])
    assert hidden.ravel().tolist() == INNER[name]
    assert output.tolist() == [[10]]
    assert [(info.size, info.dtype.name) for info in reference.hidden] == [(len(INNER[name]), "float32")]
    assert reference.run_flat(X[0]).tolist() == [*INNER[name], 10]
    assert reference.m == len(INNER[name]) + 1
    engine = OnnxruntimeEngine(network(name).lowered)
    assert engine.outputs(np.stack([X[0], X[0]])).tolist() == [[*INNER[name], 10]] * 2


def test_several_in_the_order_asked_for() -> None:
    both = network("t2", "t0", "t2")
    expected = [*INNER["t2"], *INNER["t0"], *INNER["t2"], 10]
    assert both.reference.run_flat(X[0]).tolist() == expected
    assert OnnxruntimeEngine(both.lowered).outputs(X)[0].tolist() == expected


def test_a_constant_inside_is_read_like_any_other() -> None:
    steps: list[models.Step] = [("Shape", [], {}), ("Cast", [], {"to": 1}), ("Neg", [], {})]
    constant = load(models.chain(steps, [1, 2], [2])).shaped([(1, 2)], ["t1"])
    assert constant.reference.run_flat(X[0]).tolist() == [1, 2, -1, -2]


def test_an_unknown_name() -> None:
    with pytest.raises(InputError, match="no tensor 'relu_7', which the query declares hidden; it has t0, t1, t2, Y"):
        _ = network("relu_7").reference


def test_a_copy_that_computes_other_outputs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a further output keeps operators from being fused."""
    reference = network("t2").reference
    assert isinstance(reference, HiddenReference)
    other = models.chain([("Identity", [], {})], [1, 2], [1, 2])
    monkeypatch.setattr(reference, "_copy", Reference(other.SerializeToString()))
    with pytest.raises(EngineError, match="computes other outputs"):
        reference.observe([X])


def test_external_data_is_found(tmp_path: Path) -> None:
    import onnx

    path = tmp_path / "net.onnx"
    copy = onnx.ModelProto.FromString(NET.SerializeToString())  # saving takes the weights out of a model
    onnx.save_model(copy, path, save_as_external_data=True, size_threshold=0, location="net.data")
    assert (tmp_path / "net.data").exists()
    assert load(path).shaped([(1, 2)], ["t1"]).reference.run_flat(X[0]).tolist() == [*INNER["t1"], 10]
