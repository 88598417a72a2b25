"""Networks whose only output is a class: `top1` and `disagree` compare the class itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import models
import numpy as np
import onnx
import pytest
from command import falsifier

from falsifier.errors import InputError
from falsifier.fuzz.build import build
from falsifier.fuzz.quantize import quantize
from falsifier.fuzz.replay import Outcome, replay
from falsifier.fuzz.run import fuzz
from falsifier.fuzz.settings import Settings
from falsifier.network import load
from falsifier.network.class_output import class_elements

BOUNDED: dict[str, Any] = {"max_evaluations": 4000, "seconds": 1e9, "as_vnnlib": True}


def classifier(path: Path, dtype: Any) -> Path:
    """X `[1, 8]` to the class of the greatest of four scores, `[1]`, which only its inner tensors show."""
    rng = np.random.default_rng(0)
    steps: list[models.Step] = [
        models.gemm(rng.normal(size=(16, 8)), rng.normal(size=16), name="1"),
        ("Relu", [], {}),
        models.gemm(rng.normal(size=(4, 16)), name="2"),
        ("ArgMax", [], {"axis": 1, "keepdims": 0}),
    ]
    if dtype != np.int64:
        steps.append(("Cast", [], {"to": onnx.TensorProto.FLOAT}))
    model = models.chain(steps, [1, 8], [1])
    model.graph.output[0].CopyFrom(models.tensor("Y", [1], dtype))
    return models.save(model, path)


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_another_class_than_the_starts(tmp_path: Path, dtype: Any) -> None:
    model = classifier(tmp_path / "m.onnx", dtype)
    starts = np.random.default_rng(1).uniform(-1, 1, (5, 8)).astype(np.float32)
    settings = Settings(model, "top1", inputs={"X": starts}, radius=0.5, out=tmp_path / "s", causes=1, **BOUNDED)
    report = fuzz(settings)
    assert report.hits
    for cause, hit in report.hits.items():
        details = hit.finding.details
        assert hit.stable
        assert details["class"] != details["label"]
        assert cause == f"class-{details['label']:g}-to-{details['class']:g}"
        folder = report.folders[cause]
        assert replay(folder).outcome is Outcome.REPRODUCES
        judged = falsifier(
            "check", str(folder / "query.vnnlib"), str(folder / "witness.txt"), "--network", f"f={model}"
        )
        assert judged.stdout.startswith("exact"), judged.stdout + judged.stderr


def test_the_scores_behind_the_class_lead_to_it(tmp_path: Path) -> None:
    model = classifier(tmp_path / "m.onnx", np.int64)
    starts = np.random.default_rng(1).uniform(-1, 1, (5, 8)).astype(np.float32)
    fuzzer = build(Settings(model, "top1", inputs={"X": starts}, radius=0.5))
    objective: Any = fuzzer.objective
    oldest = np.arange(5)
    score = objective.judge(starts, fuzzer.run(starts), oldest).score
    value, up = objective.uphill(starts, oldest)
    np.testing.assert_allclose(value, score)
    assert (score < 0).all()
    step = (starts + 1e-3 * up / np.abs(up).max(axis=1, keepdims=True)).astype(np.float32)
    assert (objective.judge(step, fuzzer.run(step), oldest).score > score).all()


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_a_copy_that_says_another_class(tmp_path: Path, dtype: Any) -> None:
    model = classifier(tmp_path / "m.onnx", dtype)
    copy = tmp_path / "int8.onnx"
    quantize(model, copy, "int8")
    report = fuzz(Settings(model, "disagree", copy, out=tmp_path / "s", causes=1, **BOUNDED))
    (hit,), (folder,) = report.hits.values(), report.folders.values()
    assert hit.stable
    details = hit.finding.details
    assert details["class"] != details["against_class"]
    assert (
        hit.finding.summary
        == f"class {details['class']:g} of m.onnx against class {details['against_class']:g} of int8.onnx"
    )
    assert replay(folder).outcome is Outcome.REPRODUCES
    assert replay(folder, {"against": model}).outcome is Outcome.GONE
    query, witness = str(folder / "query.vnnlib"), str(folder / "witness.txt")
    judged = falsifier("check", query, witness, "--network", f"f={model}", "--network", f"g={copy}")
    assert judged.stdout.startswith("exact"), judged.stdout + judged.stderr


def test_one_score_is_no_class(tmp_path: Path) -> None:
    model = models.save(models.affine([[1.0, 2.0]]), tmp_path / "one.onnx")
    with pytest.raises(InputError, match="no classes: use the objective range"):
        build(Settings(model, "top1", inputs={"X": np.zeros((1, 2))}, radius=0.1))
    with pytest.raises(InputError, match="no classes: give a tolerance"):
        build(Settings(model, "disagree", model))


def segmenter(path: Path, dtype: Any = np.int64) -> Path:
    """X `[1, 1, 3, 3]` to the greatest of four scores of each pixel, `[1, 3, 3]`."""
    rng = np.random.default_rng(0)
    weight = models.constant("w", rng.normal(size=(4, 1, 1, 1)))
    bias = models.constant("b", rng.normal(size=4) / 4)
    steps: list[models.Step] = [("Conv", [weight, bias], {}), ("ArgMax", [], {"axis": 1, "keepdims": 0})]
    if dtype != np.int64:
        steps.append(("Cast", [], {"to": onnx.TensorProto.FLOAT}))
    model = models.chain(steps, [1, 1, 3, 3], [1, 3, 3])
    model.graph.output[0].CopyFrom(models.tensor("Y", [1, 3, 3], dtype))
    return models.save(model, path)


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_maps_of_classes_are_compared_class_by_class(tmp_path: Path, dtype: Any) -> None:
    """An argmax over the numbers of classes would compare which pixel has the last class."""
    model = segmenter(tmp_path / "m.onnx", dtype)
    starts = np.random.default_rng(1).uniform(-1, 1, (2, 1, 3, 3)).astype(np.float32)
    settings = Settings(model, "top1", inputs={"X": starts}, radius=0.5, out=tmp_path / "s", causes=1, **BOUNDED)
    report = fuzz(settings)
    reference = load(model).reference
    for cause, hit in report.hits.items():
        details = hit.finding.details
        at, start = details["element"], starts[details["start"]].ravel()
        assert reference.run_flat(start)[at] == details["label"] != details["class"]
        assert reference.run_flat(hit.point.astype(np.float32))[at] == details["class"]
        assert f"in Y[0,{at // 3},{at % 3}]" in hit.finding.summary
        folder = report.folders[cause]
        assert replay(folder).outcome is Outcome.REPRODUCES
        judged = falsifier(
            "check", str(folder / "query.vnnlib"), str(folder / "witness.txt"), "--network", f"f={model}"
        )
        assert judged.stdout.startswith("exact"), judged.stdout + judged.stderr
    assert report.hits
    with pytest.raises(InputError, match="gives 9 classes for a sample, labels say one"):
        build(Settings(model, "top1", inputs={"X": starts, "labels": np.zeros(2, int)}, radius=0.5))


def test_maps_of_classes_that_disagree(tmp_path: Path) -> None:
    model, copy = segmenter(tmp_path / "m.onnx"), tmp_path / "int8.onnx"
    quantize(model, copy, "int8")
    report = fuzz(Settings(model, "disagree", copy, out=tmp_path / "s", causes=1, **BOUNDED))
    (folder, *_), (hit, *_) = list(report.folders.values()), list(report.hits.values())
    assert replay(folder).outcome is Outcome.REPRODUCES
    at = hit.finding.details["element"]
    assert (
        f" of m.onnx against class {hit.finding.details['against_class']:g} of int8.onnx, in Y[0,"
        in hit.finding.summary
    )
    own, other = load(model).reference.run_flat(hit.point), load(copy).reference.run_flat(hit.point)
    assert own[at] != other[at]


def test_a_decision_for_each_class_is_a_score(tmp_path: Path) -> None:
    """Scores above 0 as numbers: which of them is the first to be 1 is what an argmax says, as before."""
    steps: list[models.Step] = [
        ("Greater", [models.constant("zero", [0.0])], {}),
        ("Cast", [], {"to": onnx.TensorProto.FLOAT}),
    ]
    model = models.save(models.chain(steps, [1, 3], [1, 3]), tmp_path / "m.onnx")
    assert class_elements(load(model)) == 0
    assert class_elements(load(segmenter(tmp_path / "map.onnx"))) == 9
    assert class_elements(load(classifier(tmp_path / "one.onnx", np.int64))) == 1
