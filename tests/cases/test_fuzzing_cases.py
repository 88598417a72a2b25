"""Cases with known answers for fuzzing without a query: NaN in part of the box, a copy that rounds and saturates."""

from __future__ import annotations

from pathlib import Path

import models
import numpy as np
import onnx

from falsifier.fuzz.run import Report, fuzz
from falsifier.fuzz.settings import Settings
from falsifier.query import read


def _fuzzed(model: onnx.ModelProto, tmp_path: Path, **options: object) -> Report:
    path = models.save(model, tmp_path / "model.onnx")
    defaults: dict[str, object] = {"out": tmp_path / "session", "max_evaluations": 30_000, "seconds": 1e9}
    return fuzz(Settings(path, **(defaults | options)))  # type: ignore[arg-type]


def test_nan_of_a_root_is_reported_with_its_tensor(tmp_path: Path) -> None:
    report = _fuzzed(models.chain([("Sqrt", [], {})], [1, 1], [1, 1]), tmp_path, ranges={"": (-1.0, 1.0)})
    (hit,) = report.hits.values()
    assert hit.finding.details["tensor"] == "Y"
    assert hit.finding.details["kind"] == "nan"
    assert -1 <= hit.point[0] < 0


def test_the_first_broken_tensor_is_the_one_before_relu(tmp_path: Path) -> None:
    model = models.chain([("Sqrt", [], {}), ("Relu", [], {})], [1, 1], [1, 1])
    report = _fuzzed(model, tmp_path, ranges={"": (-1.0, 1.0)})
    (hit,) = report.hits.values()
    assert hit.finding.details["tensor"] == "t0"
    assert hit.finding.details["op"] == "Sqrt"
    assert ["Y", "nan"] in hit.finding.details["broken_tensors"]


def _gemm() -> models.Step:
    return models.gemm([[1], [0]], [0, 0.52])


def _rounded() -> onnx.ModelProto:
    c = models.constant
    return models.chain(
        [
            ("QuantizeLinear", [c("s", 0.1), c("z", 0, np.int8)], {}),
            ("DequantizeLinear", [c("s2", 0.1), c("z2", 0, np.int8)], {}),
            _gemm(),
        ],
        [1, 1],
        [1, 2],
    )


def test_a_rounded_copy_wins_another_class(tmp_path: Path) -> None:
    """Where x rounds down to 0.5 and is above 0.52: nowhere else up to 1."""
    report = _fuzzed(
        models.chain([_gemm()], [1, 1], [1, 2]),
        tmp_path,
        objective="disagree",
        against=models.save(_rounded(), tmp_path / "rounded.onnx"),
        ranges={"": (0.0, 1.0)},
        minimise=False,
        as_vnnlib=True,
    )
    (hit,) = report.hits.values()
    assert hit.finding.cause == "class-0-against-1"
    assert 0.52 < hit.point[0] <= 0.5500001
    query = read(report.folders[hit.finding.cause] / "query.vnnlib")
    assert [len(n.inputs) for n in query.networks] == [1, 1]  # the reference parser takes it, both networks declared


def test_a_rounded_copy_saturates(tmp_path: Path) -> None:
    """12.7 is its largest number: the difference exceeds 5 above 17.7."""
    report = _fuzzed(
        models.chain([_gemm()], [1, 1], [1, 2]),
        tmp_path,
        objective="disagree",
        tolerance=5.0,
        against=models.save(_rounded(), tmp_path / "rounded.onnx"),
        ranges={"": (0.0, 20.0)},
    )
    (hit,) = report.hits.values()
    assert hit.finding.cause == "output-0"
    assert 17.7 < hit.point[0] <= 20
