"""`verify` and `check` on several networks and hidden tensors, as another program calls them."""

from __future__ import annotations

import re
from pathlib import Path

import models
import numpy as np
import pytest
from command import falsifier
from several_networks import FALLS, HIDDEN, VERSION, asserts, bent, inside, network

from falsifier.cli import main

TEXT = FALLS.replace("(declare-input X_g float32 [1,1]) ", "(declare-input X_g float32 [1,1]) " + HIDDEN)
ANSWER = "sat\n" + "".join(
    rf"{name} float32 \[1,{size}\]\n" + r"\S+\n" * size
    for name, size in (("X_f", 1), ("Y_f", 1), ("X_g", 1), ("H", 2), ("Y_g", 1))
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    models.save(bent(), tmp_path / "f.onnx")
    (tmp_path / "prop.vnnlib").write_text(TEXT)
    return tmp_path


def test_the_answer_and_its_check(folder: Path) -> None:
    """Every network's variables in the file's order, as text and as tensors, and both are accepted again."""
    done = falsifier("verify", "prop.vnnlib", "--network", "f=f.onnx", "--assignments", "d", cwd=folder)
    assert re.fullmatch(ANSWER, done.stdout), done.stderr
    assert sorted(path.stem for path in (folder / "d").iterdir()) == ["H", "X_f", "X_g", "Y_f", "Y_g"]
    (folder / "witness.txt").write_text(done.stdout)
    for witness in ("witness.txt", "d"):
        checked = falsifier("check", "prop.vnnlib", witness, "--network", "f=f.onnx", cwd=folder)
        assert checked.stdout.startswith("exact"), checked.stderr
    swapped = done.stdout.replace("X_f", "_").replace("X_g", "X_f").replace("_ ", "X_g ")
    (folder / "witness.txt").write_text(swapped)
    assert falsifier("check", "prop.vnnlib", "witness.txt", "--network", "f=f.onnx", cwd=folder).returncode == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--network", "g=f.onnx"], "no model is given for network f: add --network f=FILE"),
        (["--network", "f=f.onnx", "--network", "h=f.onnx"], "declares no network 'h', only f, g"),
        (["--network", "f=f.onnx", "--network", "g=other.onnx"], "g is equal to f but another model is given for it"),
        (["--network", "f=f.onnx", "--network", "f=f.onnx"], "network f is given 2 times"),
        (["--network", "f=f.onnx", "--network", "f.onnx"], "declares 2 networks: give each as NAME=FILE"),
    ],
)
def test_models_missing_or_superfluous(folder: Path, arguments: list[str], told: str) -> None:
    models.save(models.identity(), folder / "other.onnx")
    done = falsifier("verify", "prop.vnnlib", *arguments, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert told in done.stderr


def test_an_unbounded_input(folder: Path) -> None:
    """Bad input for who asks, an open question for who reads a results file."""
    text = VERSION + network("f") + network("g") + inside("X_f[0,0]", "0.0", "1.0") + asserts("(> Y_f[0,0] Y_g[0,0])")
    (folder / "prop.vnnlib").write_text(text)
    arguments = ("verify", "prop.vnnlib", "--network", "f=f.onnx", "--network", "g=f.onnx")
    done = falsifier(*arguments, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "the input X_g[0,0] has no lower bound" in done.stderr
    filed = falsifier(*arguments, "--results", "out.txt", cwd=folder)
    assert (filed.returncode, (folder / "out.txt").read_text()) == (0, "unknown\n")
    assert "the input X_g[0,0] has no lower bound" in filed.stderr


def test_truth_values_of_a_model_that_leaves_its_batch_open(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Declared real they are searched and confirmed; every other declaration is told so."""
    made = models.chain([("Greater", [models.constant("c", [0.25])], {})], ["N", 2], ["N", 2])
    made.graph.output[0].CopyFrom(models.tensor("Y", ["N", 2], np.bool_))
    models.save(made, tmp_path / "net.onnx")

    def verify(kind: str, atom: str) -> int:
        (tmp_path / "q.vnnlib").write_text(
            "(vnnlib-version <2.0>)\n(declare-network f\n (declare-input X float32 [1,2])\n"
            f" (declare-output Y {kind} [1,2])\n)\n"
            + "".join(f"(assert (>= X[0,{i}] 0.0))\n(assert (<= X[0,{i}] 1.0))\n" for i in range(2))
            + f"(assert {atom})\n"
        )
        words = [str(tmp_path / "q.vnnlib"), "--network", str(tmp_path / "net.onnx"), "--timeout", "20"]
        return main(["verify", *words])

    assert verify("real", "(and (>= Y[0,1] 1.0) (<= Y[0,0] 0.0))") == 0
    said = capsys.readouterr()
    assert said.out.startswith("sat\n")
    assert "exact" in said.err
    for kind, atom, remedy in (
        ("bool", "(== Y[0,1] 1)", "type 'Bool' (from 'Y') is compared with no number: declare the variable real"),
        ("bool", "(>= Y[0,1] 1.0)", "is compared with no number: declare the variable real"),
        ("uint8", "(== Y[0,1] 1)", "Y is declared uint8, the ONNX tensor has bool: declare it real"),
    ):
        assert verify(kind, atom) == 2
        assert remedy in capsys.readouterr().err
