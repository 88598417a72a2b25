"""Tool folders behind the hand-off, and `falsifier prepass` as such a folder itself."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from command import ENVIRONMENT, falsifier
from fake_solvers import still_running, tool
from falsifier_adapters.vnncomp_tool import VnncompTool

from falsifier.testing.adapters import AdapterContract, small_instance

SCRIPTS = Path(__file__).resolve().parents[2] / "vnncomp_scripts"


class TestContract(AdapterContract):
    """This package's own scripts are such a folder."""

    seconds = 3.0

    def make(self, settings: dict[str, Any]) -> VnncompTool:
        return VnncompTool({"dir": str(SCRIPTS), "prepare": False, **settings})


def prepass(folder: Path, answer: str, query: str = "holds", budget: str = "0", timeout: str = "4\r") -> Any:
    """The finished command and the text of the results file."""
    other = tool(folder / "tool", answer)
    instance = small_instance(folder, query)
    results = folder / "out.txt"
    words = ["v1", "some", str(instance.networks[0].path), str(instance.query), str(results), timeout]
    done = falsifier("prepass", "--tool", str(other), "--budget", budget, *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert still_running(folder) == []
    return results.read_text(), done.stderr


def test_what_falls_to_the_search_never_reaches_the_tool(tmp_path: Path) -> None:
    text, _ = prepass(tmp_path, "hanging", "violated", "50%", "60")
    assert text.startswith("sat\n((X_0 ")
    assert not (tmp_path / "tool" / "ran").exists()


def test_the_tool_gets_what_is_open_and_what_is_left(tmp_path: Path) -> None:
    text, _ = prepass(tmp_path, "unsat", timeout="100")
    assert text == "unsat\n"
    version, category, network, query, results, seconds = (tmp_path / "tool" / "ran").read_text().split()
    assert (version, category) == ("v1", "some")
    assert Path(network).name == "small.onnx"
    assert Path(query).name == "small.vnnlib"
    assert Path(results).name == "results.txt"
    assert 60 < int(seconds) < 100
    assert not (tmp_path / "tool" / "prepared").exists()


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        ("wrong sat", "claims sat, which the replay refuses"),
        ("garbage", "which is no verdict"),
        ("failing", "ended with status 3: no licence"),
        ("deaf", "was stopped at the deadline"),
        ("silent", "gave no answer"),
    ],
)
def test_a_tool_that_misbehaves(tmp_path: Path, answer: str, line: str) -> None:
    text, err = prepass(tmp_path, answer)
    assert text in ("unknown\n", "timeout\n")
    assert line in err


def test_preparing_is_the_tool_s(tmp_path: Path) -> None:
    other = tool(tmp_path / "tool", "unsat")
    done = falsifier("prepass", "--tool", str(other), "v1", "some", "a.onnx", "b.vnnlib")
    assert done.returncode == 0, done.stderr
    assert (other / "prepared").read_text() == "v1 some a.onnx b.vnnlib\n"


def test_a_folder_is_written(tmp_path: Path) -> None:
    other = tool(tmp_path / "tool", "unsat")
    folder = tmp_path / "both"
    options = ["--budget", "5%", "--workers", "1"]
    assert falsifier("prepass", "--tool", str(other), *options, "--write", str(folder)).returncode == 0
    assert "--budget 5% --workers 1 " in (folder / "run_instance.sh").read_text()
    instance = small_instance(tmp_path, "holds")
    named = [str(instance.networks[0].path), str(instance.query)]
    for script, rest in (("install_tool.sh", []), ("prepare_instance.sh", ["some", *named])):
        done = subprocess.run([str(folder / script), "v1", *rest], env=ENVIRONMENT, check=False)
        assert done.returncode == 0
    assert (other / "prepared").exists()
    command = [str(folder / "run_instance.sh"), "v1", "some", *named, "out.txt", "10"]
    done = subprocess.run(command, env=ENVIRONMENT, cwd=tmp_path, check=False)
    assert done.returncode == 0
    assert (tmp_path / "out.txt").read_text() == "unsat\n"
    again = falsifier("prepass", "--tool", str(other), "--write", str(folder))
    assert again.returncode == 2
    assert "exists already" in again.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["v1", "some"], "give the arguments of prepare_instance.sh"),
        (["--budget", "fast", "v1", "c", "o", "v"], "--budget 'fast': give seconds"),
        (["--budget", "120%", "v1", "c", "o", "v"], "--budget '120%'"),
    ],
)
def test_wrong_arguments(tmp_path: Path, words: list[str], message: str) -> None:
    done = falsifier("prepass", "--tool", str(tool(tmp_path / "tool", "unsat")), *words)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_folder_without_scripts(tmp_path: Path) -> None:
    done = falsifier("prepass", "--tool", str(tmp_path), "v1", "c", "o", "v")
    assert done.returncode == 2
    assert "holds no prepare_instance.sh" in done.stderr
