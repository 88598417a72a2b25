"""`convert`: both directions through files and streams, what a network declares, refusals that leave nothing behind."""

from __future__ import annotations

from pathlib import Path

import models
import pytest
from command import falsifier

from falsifier.cli import main

ONE = models.declare(2, 1) + models.box(["-1e-1", "0"], ["5e-1", ".5"]) + "(assert (>= Y_0 2e-1))\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """y = x0 + x1, and a query in 1.0."""
    models.save(models.affine([[1, 1]]), tmp_path / "net.onnx")
    (tmp_path / "one.vnnlib").write_text(ONE)
    return tmp_path


def test_there_and_back(folder: Path) -> None:
    there = falsifier("convert", "one.vnnlib", "-o", "two.vnnlib", "--network", "net.onnx", cwd=folder)
    assert (there.returncode, there.stdout, there.stderr) == (0, "", "")
    two = (folder / "two.vnnlib").read_text()
    assert "(declare-input X float32 [1,2])" in two
    assert "(assert (>= X[0,0] -0.1))" in two
    for query in ("one.vnnlib", "two.vnnlib"):
        assert falsifier("verify", query, "--network", "net.onnx", cwd=folder).stdout.startswith("sat\n")
    back = falsifier("convert", "two.vnnlib", cwd=folder)
    assert back.stdout == (
        models.declare(2, 1) + models.box(["-0.1", "0.0"], ["0.5", "0.5"]) + "(assert (>= Y_0 0.2))\n"
    )
    assert sorted(path.name for path in folder.iterdir()) == ["net.onnx", "one.vnnlib", "two.vnnlib"]


def test_without_a_network(folder: Path) -> None:
    assert (
        "(declare-input X real [2])\n    (declare-output Y real [1])"
        in falsifier("convert", "one.vnnlib", cwd=folder).stdout
    )


def test_the_version_it_has_is_written_plainly(folder: Path) -> None:
    (folder / "one.vnnlib").write_text("; a remark\n" + ONE.replace("\n", "\r\n\t"))
    assert falsifier("convert", "one.vnnlib", "--to", "1.0", cwd=folder).stdout == ONE


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["strict.vnnlib"], "strict.vnnlib: cannot be written as 1.0: (< Y 1.0) is strict"),
        (["one.vnnlib", "--network", "wide.onnx"], "one.vnnlib: declares 2 inputs X, the network has 3"),
        (["one.vnnlib", "--network", "two.onnx"], "two.onnx: has 2 outputs, a 1.0 query is about a network with one"),
        (["one.vnnlib", "--network", "none.onnx"], "none.onnx"),
        (["strict.vnnlib", "--network", "net.onnx"], "strict.vnnlib: --network is for writing 1.0 as 2.0"),
        (["missing.vnnlib"], "missing.vnnlib: cannot be read"),
        (["one.vnnlib", "--to", "3.0"], "3.0"),
    ],
)
def test_what_cannot_be_done_leaves_the_file_alone(folder: Path, arguments: list[str], reason: str) -> None:
    (folder / "strict.vnnlib").write_text(
        "(vnnlib-version <2.0>)\n(declare-network N\n  (declare-input X real [1])\n  (declare-output Y real [])\n)\n"
        "(assert (< Y 1.0))\n"
    )
    models.save(models.identity(3), folder / "wide.onnx")
    models.save(models.two_outputs(), folder / "two.onnx")
    (folder / "out.vnnlib").write_text("what was there")
    done = falsifier("convert", *arguments, "-o", "out.vnnlib", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert reason in done.stderr
    assert (folder / "out.vnnlib").read_text() == "what was there"


def test_a_folder_that_is_not_there(folder: Path) -> None:
    done = falsifier("convert", "one.vnnlib", "-o", "no/out.vnnlib", cwd=folder)
    assert done.returncode == 2
    assert (
        done.stderr == "falsifier: no/out.vnnlib: the query (--output) cannot be written (No such file or directory)\n"
    )


@pytest.mark.parametrize("name", ["one.vnnlib", "net.onnx", "link", "./one.vnnlib"])
def test_what_it_reads_is_not_written_over(folder: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "link").symlink_to("one.vnnlib")
    before = (folder / "one.vnnlib").read_bytes(), (folder / "net.onnx").read_bytes()
    words = ["convert", f"{folder}/one.vnnlib", "--network", f"{folder}/net.onnx", "-o", f"{folder}/{name}"]
    assert main(words) == 2
    err = capsys.readouterr().err
    assert f"--output {folder}/{name}: a file of the instance, which would be lost: name another" in err
    assert ((folder / "one.vnnlib").read_bytes(), (folder / "net.onnx").read_bytes()) == before
