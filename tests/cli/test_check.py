"""`check`: anybody's witness, judged by the door."""

from __future__ import annotations

from pathlib import Path

import models
import pytest
from command import falsifier

TEXT = models.declare(1, 1) + models.box(["0.1"], ["0.3"]) + "(assert (>= Y_0 0.2))\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """y = x, y >= 0.2 on [0.1, 0.3]."""
    models.save(models.identity(), tmp_path / "net.onnx")
    (tmp_path / "prop.vnnlib").write_text(TEXT)
    return tmp_path


@pytest.mark.parametrize(
    ("witness", "word"),
    [
        ("sat\n((X_0 0.25)\n(Y_0 0.25))\n", "exact - every assertion holds as written"),
        ("((X_0 0.25) (Y_0 99))", "exact"),  # what a file says of outputs does not count
        ("((X_0 .25))", "exact"),
        ("((X_0 0.30000001192092896)(Y_0 0.3))", "correct - holds only under the published rule"),
        ("((X_0 0.30005)(Y_0 0.30005))", "rejected - (<= X_0 0.3) fails by 5e-05"),
        ("((X_0 0.15)(Y_0 0.25))", "rejected - (>= Y_0 0.2) fails by 0.05"),
        ("((X_0 1e999)(Y_0 0.25))", "rejected - X: a value is not finite"),
    ],
)
def test_verdicts(folder: Path, witness: str, word: str) -> None:
    (folder / "witness.txt").write_text(witness)
    done = falsifier("check", "prop.vnnlib", "witness.txt", "--network", "net.onnx", cwd=folder)
    assert done.returncode == 0
    assert done.stdout.startswith(word)
    assert done.stdout.count("\n") == 1


def test_a_folder_of_tensors(folder: Path) -> None:
    falsifier("verify", "prop.vnnlib", "--network", "net.onnx", "--assignments", "tensors", cwd=folder)
    done = falsifier("check", "prop.vnnlib", "tensors", "--network", "net.onnx", cwd=folder)
    assert done.stdout.startswith("exact")


@pytest.mark.parametrize("witness", ["unsat\n", "", "((X_0 nan)(Y_0 1))", "((X_1 0))", "X float32 [1]\n0\n"])
def test_unusable_witness(folder: Path, witness: str) -> None:
    (folder / "witness.txt").write_text(witness)
    done = falsifier("check", "prop.vnnlib", "witness.txt", "--network", "net.onnx", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("word", ["unsat", "unknown", "timeout", "error"])
def test_a_results_file_without_a_witness_says_so(folder: Path, word: str) -> None:
    (folder / "witness.txt").write_text(f"{word}\n")
    done = falsifier("check", "prop.vnnlib", "witness.txt", "--network", "net.onnx", cwd=folder)
    assert done.stderr.startswith(f"falsifier: witness.txt: says '{word}' and holds no witness")


@pytest.mark.parametrize(
    "arguments", [["missing.txt", "--network", "net.onnx"], ["prop.vnnlib"], ["empty", "--network", "net.onnx"]]
)
def test_unusable_arguments(folder: Path, arguments: list[str]) -> None:
    (folder / "empty").mkdir()
    done = falsifier("check", "prop.vnnlib", *arguments, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
