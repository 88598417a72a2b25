"""Hits: replayed, named, deduplicated, made small, saved, run again."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import models
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from falsifier.cli import main
from falsifier.errors import InputError
from falsifier.fuzz.build import build
from falsifier.fuzz.minimise import Minimiser
from falsifier.fuzz.replay import Outcome, hit_folders, replay
from falsifier.fuzz.run import Report, Stop, fuzz
from falsifier.fuzz.settings import Settings
from falsifier.fuzz.space import make_space
from falsifier.network.reference import TensorInfo


def _two_faults() -> onnx.ModelProto:
    """sqrt of the first input; 1 / the second; the third is of no account."""
    nodes = [
        helper.make_node("Split", ["X"], ["a", "b", "c"], axis=1),
        helper.make_node("Sqrt", ["a"], ["root"], name="taking_roots"),
        helper.make_node("Reciprocal", ["b"], ["inverse"]),
        helper.make_node("Concat", ["root", "inverse", "c"], ["joined"], axis=1),
        helper.make_node("Relu", ["joined"], ["Y"]),
    ]
    return models.model(nodes, [models.tensor("X", [1, 3])], [models.tensor("Y", [1, 3])])


def _fuzzed(tmp_path: Path, model: onnx.ModelProto, **options: object) -> Report:
    path = models.save(model, tmp_path / "model.onnx")
    defaults = {"out": tmp_path / "session", "seconds": 1e9, "max_evaluations": 20_000, "lanes": 128}
    return fuzz(Settings(path, **(defaults | options)))  # type: ignore[arg-type]


def test_the_extra_is_named_where_it_would_have_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("falsifier.fuzz.coverage.kept.missing_of_extra", lambda: "faiss")
    report = _fuzzed(tmp_path, _two_faults(), out=None, max_evaluations=1000)
    assert not [note for note in report.notes if "extra" in note]
    monkeypatch.setattr("falsifier.fuzz.build._WITHOUT_EXTRA", 4)
    report = _fuzzed(tmp_path, _two_faults(), out=None, max_evaluations=1000)
    (note,) = [note for note in report.notes if "extra" in note]
    assert ": faiss, of the extra [fuzz], would search more" in note


def test_a_session_is_asked_for_before_anything_is_told_of_it(tmp_path: Path) -> None:
    path = models.save(_two_faults(), tmp_path / "model.onnx")
    with pytest.raises(InputError, match="holds no session to resume"):
        build(Settings(path, out=tmp_path / "session", resume=True))


def test_causes_are_named_and_kept_apart(tmp_path: Path) -> None:
    starts = {"X": np.array([[0.5, 0.5, 0.5]], np.float32)}
    report = _fuzzed(tmp_path, _two_faults(), inputs=starts, radius=0.75)
    assert report.stop is Stop.EVALUATIONS
    assert set(report.hits) == {"nan-root", "inf-inverse"}
    assert report.hits["nan-root"].finding.details["node"] == "taking_roots"
    for cause, hit in report.hits.items():
        assert hit.stable
        assert hit.replays == 10
        assert hit.minimised
        assert (hit.point != hit.ancestor).sum() == 1, cause  # two of three coordinates do not matter
        assert np.abs(hit.point - hit.ancestor).max() <= 0.75
    assert abs(report.hits["nan-root"].point[0]) < 0.01  # just below 0: the smallest change


def test_a_folder_holds_all_that_is_needed(tmp_path: Path) -> None:
    report = _fuzzed(tmp_path, _two_faults(), inputs={"X": np.full((1, 3), 0.5)}, radius=0.75, causes=2)
    folder = report.folders["nan-root"]
    record = json.loads((folder / "hit.json").read_text())
    assert record["cause"] == "nan-root"
    assert record["stable"] is True
    assert record["changed_dimensions"] == 1
    point = np.load(folder / "inputs.npz")["X"]
    tensor = onnx.TensorProto.FromString((folder / record["inputs"][0]["tensor"]).read_bytes())
    np.testing.assert_array_equal(numpy_helper.to_array(tensor), point)
    assert point.shape == (1, 3)
    script = (folder / "reproduce.py").read_text()
    assert len(script.splitlines()) <= 21
    assert "falsifier" not in script
    done = subprocess.run([sys.executable, str(folder / "reproduce.py")], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "nan" in done.stdout


def test_replay_judges_the_model_as_it_is_now(tmp_path: Path) -> None:
    report = _fuzzed(tmp_path, _two_faults(), inputs={"X": np.full((1, 3), 0.5)}, radius=0.75, causes=2)
    assert len(report.folders) == 2
    folders = hit_folders(tmp_path / "session")
    assert {replay(f).outcome for f in folders} == {Outcome.REPRODUCES}
    repaired = _two_faults()
    repaired.graph.node[1].op_type = "Relu"
    models.save(repaired, tmp_path / "model.onnx")
    outcomes = {f.name: replay(f).outcome for f in folders}
    assert outcomes == {"nan-root": Outcome.GONE, "inf-inverse": Outcome.REPRODUCES}
    renamed = _two_faults()
    renamed.graph.node[1].output[0] = renamed.graph.node[3].input[0] = "other"
    other = models.save(renamed, tmp_path / "renamed.onnx")
    found = replay(tmp_path / "session" / "hits" / "nan-root", {"model": other})
    assert found.outcome is Outcome.BROKEN
    assert "no tensor 'root' any more" in found.text


def test_a_hit_that_was_moved_away_from_its_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _fuzzed(tmp_path, _two_faults(), inputs={"X": np.full((1, 3), 0.5)}, radius=0.75, causes=2)
    (tmp_path / "deep" / "else").mkdir(parents=True)
    moved = (tmp_path / "session").rename(tmp_path / "deep" / "else" / "session")
    folder = moved / "hits" / "inf-inverse"
    (folder / "model.onnx").unlink(missing_ok=True)
    done = subprocess.run([sys.executable, str(folder / "reproduce.py")], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "model.onnx: there is no such model" in line
    assert main(["replay", str(folder)]) == 2
    out = capsys.readouterr().out
    assert "model.onnx: there is no such model: say where it is with --model FILE" in out
    assert "0 of 1 hit reproduce, 1 cannot be run" in out
    assert main(["replay", str(folder), "--model", str(tmp_path / "model.onnx")]) == 1


def test_a_hit_that_does_not_replay_is_reported_as_such(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("RandomUniformLike", ["X"], ["r"], low=-1.0, high=1.0),
        helper.make_node("Add", ["X", "r"], ["s"]),
        helper.make_node("Sqrt", ["s"], ["Y"]),
    ]
    model = models.model(nodes, [models.tensor("X", [1, 1])], [models.tensor("Y", [1, 1])])
    report = _fuzzed(tmp_path, model, max_evaluations=300, lanes=16, replays=20, ranges={"": (-0.01, 0.01)})
    (hit,) = report.hits.values()
    assert not hit.stable
    assert 0 < hit.replayed < 20
    assert json.loads((report.folders["nan-Y"] / "hit.json").read_text())["stable"] is False


def test_a_packed_model_is_unpacked_for_the_script(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx.gz"
    path.write_bytes(gzip.compress(models.chain([("Sqrt", [], {})], [1, 1], [1, 1]).SerializeToString()))
    report = fuzz(Settings(path, out=tmp_path / "s", seconds=1e9, max_evaluations=2000, lanes=64))
    (folder,) = report.folders.values()
    assert (folder / "model.onnx").exists()
    done = subprocess.run([sys.executable, str(folder / "reproduce.py")], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert replay(folder).outcome is Outcome.REPRODUCES


def test_minimising_is_deterministic_and_bounded() -> None:
    """A hit iff coordinates 2 and 5 sum to more than 1."""
    space = make_space([TensorInfo("X", (8,), np.dtype(np.float32))], ranges={"": (-4.0, 4.0)})
    asked = 0

    def holds(x: np.ndarray) -> bool:
        nonlocal asked
        asked += 1
        return bool(x[2] + x[5] > 1)

    point = np.linspace(-3, 3, 8).astype(np.float32)
    point[2], point[5] = 1.7, 2.3
    small = Minimiser(space, holds, 500).minimise(point, np.zeros(8, np.float32))
    assert asked <= 500
    assert np.flatnonzero(small).size == 1
    assert 1 < small.sum() < 1.01
    again = Minimiser(space, holds, 500).minimise(point, np.zeros(8, np.float32))
    np.testing.assert_array_equal(small, again)


def test_minimising_stays_within_the_radius() -> None:
    """Rounding to fewer digits is no way out of the ball."""
    start = np.array([[-0.39, 0.61]], np.float32)
    space = make_space([TensorInfo("X", (1, 2), np.dtype(np.float32))], starts=start, radius=0.5)
    small = Minimiser(space, lambda x: bool(x[0] < -0.8)).minimise(np.array([-0.88, 0.9], np.float32), start[0])
    assert small[0] < -0.8
    assert np.abs(small.astype(np.float64) - start[0]).max() <= 0.5


def test_folders_without_hits_are_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such folder"):
        hit_folders(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no hits"):
        hit_folders(tmp_path / "empty")
