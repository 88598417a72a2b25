"""No command writes over a file that it reads, whatever the file is read for, and no file twice."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import models
import numpy as np
import onnx
import pytest
from command import ROOT

from falsifier.cli import main

SCRIPTS = ROOT / "vnncomp_scripts"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An instance whose weights lie beside the model, with files for every option that reads one."""
    monkeypatch.chdir(tmp_path)
    onnx.save_model(
        models.affine(np.eye(2)), "net.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    text = models.declare(2, 2) + models.box([0, 0], [1, 1]) + "(assert (>= Y_0 0.5))\n"
    Path("q.vnnlib").write_text(text)
    np.save("budgets.npy", np.ones(2))
    np.save("point.npy", np.ones(2))
    Path("settings.toml").write_text("[vnncomp_tool]\n")
    Path("found.txt").write_text("sat\n((X_0 0.75)\n(X_1 0.5)\n(Y_0 0.75)\n(Y_1 0.5))\n")
    Path("link").symlink_to("weights.bin")
    os.link("weights.bin", "again")
    return tmp_path


READ = {
    "weights.bin": [],
    "link": [],
    "again": [],
    "net.onnx": [],
    "q.vnnlib": [],
    "budgets.npy": ["--budgets", "budgets.npy"],
    "point.npy": ["--nearest", "point.npy"],
    "found.txt": ["--deepen", "--from", "found.txt"],
    "settings.toml": ["--then", "vnncomp_tool", "--config", "settings.toml"],
}


@pytest.mark.parametrize("option", ["--results", "--json"])
@pytest.mark.parametrize("name", READ)
def test_verify(folder: Path, capsys: pytest.CaptureFixture[str], name: str, option: str) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    words = ["verify", "q.vnnlib", "--network", "net.onnx", "--timeout", "5", *READ[name], option, name]
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"falsifier: {option} {name}: a file of the ")
    assert said.err.endswith(", which would be lost: name another\n")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_weights_are_named_with_their_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "q.vnnlib", "--network", "net.onnx", "--results", "weights.bin"]) == 2
    assert "a file of the model net.onnx, which would be lost" in capsys.readouterr().err


def test_one_file_for_two_answers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["verify", "q.vnnlib", "--network", "net.onnx", "--results", "out", "--json", "./out"]
    assert main(words) == 2
    assert "--json ./out: is what --results names too" in capsys.readouterr().err
    assert not (folder / "out").exists()
    assert main([*words[:4], "--results", os.devnull, "--json", os.devnull, "--timeout", "5"]) == 0


@pytest.mark.parametrize(
    ("option", "names"), [("--serialise-assignments", ("X.pb",)), ("--witnesses", ("0001.counterexample",))]
)
def test_folders_that_hold_what_is_read(
    folder: Path, capsys: pytest.CaptureFixture[str], option: str, names: tuple[str, ...]
) -> None:
    given = folder / "given"
    given.mkdir()
    for name in names:
        shutil.copy("found.txt", given / name)
    start = given if option == "--serialise-assignments" else given / names[0]
    words = ["verify", "q.vnnlib", "--network", "net.onnx", "--deepen", "--from", str(start), option, str(given)]
    assert main(words) == 2
    assert "which is read, would be lost there" in capsys.readouterr().err


def test_other_files_in_the_folder_may_be_replaced(folder: Path) -> None:
    for _ in range(2):
        words = ["verify", "q.vnnlib", "--network", "net.onnx", "--timeout", "20", "--results", "out", "--json", "j"]
        assert main(words) == 0
    assert (folder / "out").read_text().startswith("sat\n")
    assert json.loads((folder / "j").read_text())["verdict"] == "sat"


@pytest.mark.parametrize(
    "words",
    [
        ["convert", "q.vnnlib", "--network", "net.onnx", "-o", "weights.bin"],
        ["quantize", "net.onnx", "--to", "float16", "-o", "weights.bin"],
        ["fuzz", "net.onnx", "--json", "weights.bin"],
        ["fuzz", "net.onnx", "--objective", "disagree", "--against", "net.onnx", "--json", "link"],
    ],
    ids=["convert", "quantize", "fuzz", "against"],
)
def test_weights_are_not_written_over(folder: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    before = Path("weights.bin").read_bytes()
    assert main(words) == 2
    assert "a file of the model net.onnx, which would be lost: name another" in capsys.readouterr().err
    assert Path("weights.bin").read_bytes() == before


_FUZZ = ["fuzz", "net.onnx", "--objective", "range:-5,0.5", "--range", "0,1", "--causes", "1", "--quiet"]


def test_replay_spares_the_models_that_a_record_names(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*_FUZZ, "--max-evaluations", "5000", "--out", "s"]) == 0
    capsys.readouterr()
    for name in ("net.onnx", "weights.bin", "s/session.sqlite", "s/report.json"):
        before = Path(name).read_bytes()
        assert main(["replay", "s", "--json", name]) == 2
        assert f"--json {name}: a file of the " in capsys.readouterr().err
        assert Path(name).read_bytes() == before
    assert main(["replay", "s", "--json", "outcome.json"]) == 1


def test_fuzz_spares_its_session_and_reports_of_others(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "s").mkdir()
    (folder / "s" / "report.json").write_text("{}")
    assert main([*_FUZZ, "--max-evaluations", "5000", "--out", "s"]) == 2
    assert "s: holds a report.json of something else, which would be lost" in capsys.readouterr().err
    assert main([*_FUZZ, "--max-evaluations", "5000", "--out", "t"]) == 0
    capsys.readouterr()
    assert main([*_FUZZ, "--max-evaluations", "6000", "--out", "t", "--resume", "--json", "t/session.sqlite"]) == 2
    assert "a file of the session, which would be lost" in capsys.readouterr().err


def test_report_spares_what_the_campaign_was_about(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("rows.csv").write_text("net.onnx,q.vnnlib,5\n")
    assert main(["campaign", "rows.csv", "--out", "night", "--category", "c"]) == 0
    capsys.readouterr()
    witness = "night/c/net_q.counterexample.gz"
    for name in (witness, "net.onnx", "weights.bin", "q.vnnlib", "rows.csv", "night/results.csv"):
        before = Path(name).read_bytes()
        assert main(["report", "night", "--out", name]) == 2
        assert f"--out {name}: a file of the " in capsys.readouterr().err
        assert Path(name).read_bytes() == before


def test_queries_of_samples_replace_no_other_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("data.npz", x=np.full((2, 2), 0.5), y=np.array([0, 1]))
    words = ["campaign", "net.onnx", "--dataset", "data.npz", "--epsilon", "0.1", "--timeout", "5"]
    (folder / "dir").mkdir()
    for name in ("instances.csv", "sample_1.vnnlib"):
        (folder / "dir" / name).write_text("mine\n")
        assert main([*words, "--as-vnnlib", "dir", "--out", "a"]) == 2
        assert f"--as-vnnlib dir: holds another {name}, which would be lost" in capsys.readouterr().err
        assert sorted(os.listdir("dir")) == [name]
        (folder / "dir" / name).unlink()
    for out in ("b", "c"):  # the same questions again
        assert main([*words, "--as-vnnlib", "dir", "--out", out]) == 0
    words[5] = "0.2"
    assert main([*words, "--as-vnnlib", "dir", "--out", "d"]) == 2


@pytest.mark.parametrize("name", ["q.vnnlib", "net.onnx"])
def test_scripts(folder: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert main(["prepass", "--tool", str(SCRIPTS), "--write", "both"]) == 0
    before = Path(name).read_bytes()
    for script in (SCRIPTS / "run_instance.sh", folder / "both" / "run_instance.sh"):
        words = ["bash", str(script), "v1", "c", "net.onnx", "q.vnnlib", f"./{name}", "5"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert "is a file of the instance" in done.stderr
        assert Path(name).read_bytes() == before
