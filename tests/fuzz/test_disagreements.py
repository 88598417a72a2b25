"""Two models that should agree, properties of outputs, and the queries that hits stand for."""

from __future__ import annotations

import re
from pathlib import Path

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
from falsifier.query import read
from falsifier.witness.text import read_witness


def network(outputs: int = 4) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    return models.chain(
        [
            models.gemm(rng.normal(size=(16, 8)), rng.normal(size=16), name="1"),
            ("Relu", [], {}),
            models.gemm(rng.normal(size=(outputs, 16)), name="2"),
        ],
        [1, 8],
        [1, outputs],
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("disagreements")
    models.save(network(), folder / "model.onnx")
    for kind in ("float16", "int8"):
        quantize(folder / "model.onnx", folder / f"{kind}.onnx", kind)
    return folder


@pytest.mark.parametrize("kind", ["float16", "int8"])
def test_copies_disagree_somewhere(folder: Path, tmp_path: Path, kind: str) -> None:
    settings = Settings(
        folder / "model.onnx",
        "disagree",
        folder / f"{kind}.onnx",
        out=tmp_path / "s",
        max_evaluations=60_000,
        seconds=1e9,
        causes=1,
    )
    report = fuzz(settings)
    (hit,) = report.hits.values()
    assert hit.stable
    assert hit.finding.details["class"] != hit.finding.details["against_class"]
    said = hit.finding.summary
    assert (
        f" of model.onnx against class {hit.finding.details['against_class']} of {kind}.onnx: the first gives them "
        in said
    )
    assert " there" not in said
    (folder_of_hit,) = report.folders.values()
    assert replay(folder_of_hit).outcome is Outcome.REPRODUCES
    assert replay(folder_of_hit, {"against": folder / "model.onnx"}).outcome is Outcome.GONE


def test_the_copies_are_what_they_are_called(folder: Path) -> None:
    half = onnx.load_model(folder / "float16.onnx")
    assert any(i.data_type == onnx.TensorProto.FLOAT16 for i in half.graph.initializer)
    assert half.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    whole = onnx.load_model(folder / "int8.onnx")
    assert {"QuantizeLinear", "DequantizeLinear"} <= {n.op_type for n in whole.graph.node}
    with pytest.raises(InputError, match="use float16 or int8"):
        quantize(folder / "model.onnx", folder / "x.onnx", "int4")
    for kind, said in (("float16", "in half precision"), ("int8", "quantised")):
        with pytest.raises(InputError, match=rf"{kind}\.onnx: is {said} already: give the model"):
            quantize(folder / f"{kind}.onnx", folder / "twice.onnx", kind)
    with pytest.raises(InputError, match=r"int8\.onnx: is quantised already"):
        quantize(folder / "int8.onnx", folder / "twice.onnx", "float16")
    assert not (folder / "twice.onnx").exists()


def test_models_of_other_sizes_cannot_be_compared(folder: Path, tmp_path: Path) -> None:
    other = models.save(network(3), tmp_path / "other.onnx")
    with pytest.raises(InputError, match="cannot be compared"):
        build(Settings(folder / "model.onnx", "disagree", other))
    with pytest.raises(InputError, match="--against"):
        build(Settings(folder / "model.onnx", "disagree"))


def test_a_range_and_its_query(folder: Path, tmp_path: Path) -> None:
    from falsifier import falsify

    settings = Settings(
        folder / "model.onnx", "range:-6,1000", out=tmp_path / "s", max_evaluations=60_000, seconds=1e9, as_vnnlib=True
    )
    report = fuzz(settings)
    (hit,) = [h for h in report.hits.values() if h.finding.details["side"] == "below"][:1]
    assert hit.finding.summary.startswith(f"output Y[0,{hit.finding.details['element']}] is ")
    where = report.folders[hit.finding.cause]
    text = (where / "query.vnnlib").read_text()
    assert text.count("(assert (>= X0_0") == 8
    result = falsify(folder / "model.onnx", where / "query.vnnlib", timeout=20)
    assert result.verdict.value == "sat"
    lines = (where / "witness.txt").read_text().splitlines()
    assert lines[0] == "sat"
    assert [float(v) for v in lines[2:10]] == [float(v) for v in hit.point]


@pytest.mark.parametrize(("kind", "tolerance"), [("int8", None), ("float16", 1e-4)])
def test_a_disagreement_as_a_query_about_two_networks(
    folder: Path, tmp_path: Path, kind: str, tolerance: float | None
) -> None:
    """The hit is a witness of its query, by the door; the search finds one, which the door accepts as well."""
    own, other = folder / "model.onnx", folder / f"{kind}.onnx"
    settings = Settings(
        own, "disagree", other, tolerance, out=tmp_path / "s", max_evaluations=60_000, seconds=1e9, causes=1,
        as_vnnlib=True,
    )  # fmt: skip
    (where,) = fuzz(settings).folders.values()
    query = str(where / "query.vnnlib")
    networks = ["--network", f"f={own}", "--network", f"g={other}"]
    judged = falsifier("check", query, str(where / "witness.txt"), *networks)
    assert judged.stdout.startswith("exact"), judged.stdout + judged.stderr
    itself = falsifier("check", query, str(where / "witness.txt"), "--network", f"f={own}", "--network", f"g={own}")
    assert itself.stdout.startswith("rejected")
    found = falsifier("verify", query, *networks, "--timeout", "60", "--results", str(tmp_path / "results.txt"))
    assert found.stdout.startswith("sat\n"), found.stderr
    assert falsifier("check", query, str(tmp_path / "results.txt"), *networks).stdout.startswith("exact")


def test_a_witness_of_tiny_numbers_is_read_back(tmp_path: Path) -> None:
    """2.0 has no exponents: what is below 1e-6 is written out."""
    model = models.save(models.chain([("Neg", [], {})], [1, 2], [1, 2]), tmp_path / "neg.onnx")
    settings = Settings(
        model, "range:-1e-7,1", ranges={"": (-1e-6, 1e-6)}, out=tmp_path / "s", max_evaluations=2000, seconds=1e9,
        as_vnnlib=True,
    )  # fmt: skip
    report = fuzz(settings)
    for cause, where in report.folders.items():
        text = (where / "witness.txt").read_text()
        assert "e-" not in text
        assignment = read_witness(read(where / "query.vnnlib"), text)
        np.testing.assert_array_equal(assignment.inputs[0].astype(np.float32), report.hits[cause].point)
    assert report.folders


def test_another_class_around_starts(folder: Path, tmp_path: Path) -> None:
    starts = np.random.default_rng(1).uniform(-1, 1, (5, 8)).astype(np.float32)
    settings = Settings(
        folder / "model.onnx",
        "top1",
        inputs={"X": starts},
        radius=0.5,
        out=tmp_path / "s",
        max_evaluations=60_000,
        seconds=1e9,
        as_vnnlib=True,
    )
    report = fuzz(settings)
    assert report.hits
    for hit in report.hits.values():
        assert np.abs(hit.point.astype(np.float64) - hit.ancestor.astype(np.float64)).max() <= 0.5
        assert any(np.array_equal(hit.ancestor, s) for s in starts)
    assert all((f / "query.vnnlib").exists() for f in report.folders.values())


def test_nan_has_no_query(tmp_path: Path) -> None:
    model = models.save(models.chain([("Sqrt", [], {})], [1, 1], [1, 1]), tmp_path / "sqrt.onnx")
    report = fuzz(Settings(model, out=tmp_path / "s", max_evaluations=2000, seconds=1e9, as_vnnlib=True))
    (where,) = report.folders.values()
    assert not (where / "query.vnnlib").exists()
    assert "no query" in (where / "no_query.txt").read_text()


def test_models_of_one_name_are_told_apart_by_their_folders(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    own, other = folder / "model.onnx", tmp_path / "new" / "model.onnx"
    other.write_bytes((folder / "int8.onnx").read_bytes())
    report = fuzz(Settings(own, "disagree", other, 1e-3, max_evaluations=60_000, seconds=1e9, causes=1))
    (hit, *_) = report.hits.values()
    assert re.match(rf"output Y\[0,\d\] differs by .*: \S+ of {own} against \S+ of {other} ", hit.finding.summary)
