"""`verify` beyond a first witness: the results file holds one at once, further ones go into a folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest
from command import ENVIRONMENT, falsifier

from falsifier.cli import main

SEVERAL = "(assert (or (and (>= Y_0 0.25)) (and (>= Y_1 0.5)) (and (>= Y_2 0.75))))\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """y = x on [-1, 1]^3, three thresholds."""
    models.save(models.identity(3), tmp_path / "net.onnx")
    (tmp_path / "prop.vnnlib").write_text(models.declare(3, 3) + models.box([-1] * 3, [1] * 3) + SEVERAL)
    return tmp_path


def verify(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return falsifier("verify", "prop.vnnlib", "--network", "net.onnx", *more, cwd=folder)


def index(folder: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((folder / "more/index.json").read_text())
    return loaded


def test_a_folder_of_witnesses_with_an_index(folder: Path) -> None:
    done = verify(folder, "--all-witnesses", "5", "--witnesses", "more", "--results", "r.txt", "--json", "r.json")
    assert done.returncode == 0
    assert done.stderr.endswith("; 3 witnesses\n")
    made = index(folder)
    assert sorted(entry["disjunct"] for entry in made["witnesses"]) == [0, 1, 2]
    assert {"file", "class", "margin", "disjunct", "distance"} == set(made["witnesses"][0])
    assert sorted(os.listdir(folder / "more")) == [*(entry["file"] for entry in made["witnesses"]), "index.json"]
    assert done.stdout == (folder / "r.txt").read_text() == "sat\n" + (folder / "more" / made["best"]).read_text()
    assert len(json.loads((folder / "r.json").read_text())["witnesses"]) == 3
    checked = falsifier("check", "prop.vnnlib", "more", "--network", "net.onnx", cwd=folder)
    assert (checked.returncode, checked.stderr) == (0, "falsifier: 3 exact\n")


def test_a_folder_that_takes_nothing_costs_no_answer(folder: Path) -> None:
    (folder / "more/0001.counterexample").mkdir(parents=True)
    done = verify(folder, "--deepen", "--witnesses", "more", "--results", "r.txt")
    assert (done.returncode, done.stderr) == (2, "falsifier: more: cannot be written (Is a directory)\n")
    assert done.stdout.startswith("sat\n((X_0 ")
    assert done.stdout == (folder / "r.txt").read_text()
    assert not (folder / "more/index.json").exists()  # it would name a file that is not there


def test_distinct_by_distance(folder: Path) -> None:
    verify(folder, "--all-witnesses", "4", "--distinct", "distance", "--apart", "0.4", "--witnesses", "more")
    assert [entry["distance"] >= 0.4 for entry in index(folder)["witnesses"][1:]] == [True] * 3


def test_the_deepest(folder: Path) -> None:
    """The greatest margin is 0.75, of the first disjunct."""
    (folder / "start.txt").write_text("sat\n((X_0 0.5)\n(X_1 -0.5)\n(X_2 0))\n")
    options = ["--deepen", "--witnesses", "more", "--results", "r.txt", "--max-evaluations", "3000"]
    done = verify(folder, *options, "--from", "start.txt")
    first, best = index(folder)["witnesses"]
    assert best["margin"] == 0.75
    assert first["margin"] == 0.25
    assert done.stderr.endswith("; margin 0.75, of the first witness 0.25\n")
    assert index(folder)["best"] == best["file"]
    assert done.stdout == (folder / "r.txt").read_text() == "sat\n" + (folder / "more" / best["file"]).read_text()


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_the_nearest_to_a_point_and_to_a_witness(folder: Path, norm: str) -> None:
    """From (-0.25, 0.25, 0.5) the nearest are (-0.25, 0.5, 0.5) and (-0.25, 0.25, 0.75)."""
    np.save(folder / "point.npy", np.array([-0.25, 0.25, 0.5]))
    (folder / "witness.txt").write_text("sat\n((X_0 -0.25)\n(X_1 0.25)\n(X_2 0.5))\n")
    place = "point.npy" if norm == "l2" else "witness.txt"
    done = verify(folder, "--nearest", place, "--norm", norm, "--max-evaluations", "3000")
    assert float(done.stderr.split("; distance ")[1].split(",")[0]) == pytest.approx(0.25, rel=1e-5)


def test_from_a_witness_that_is_there(folder: Path) -> None:
    (folder / "start.txt").write_text("sat\n((X_0 0.5)\n(X_1 -0.5)\n(X_2 0))\n")
    verify(folder, "--all-witnesses", "2", "--witnesses", "more", "--from", "start.txt", "--max-evaluations", "500")
    first = (folder / "more/0001.counterexample").read_text()
    assert first.startswith("((X_0 0.5)\n(X_1 -0.5)\n(X_2 0.0)\n")


def test_a_killed_run_leaves_its_first_witness(folder: Path) -> None:
    """At most three disjuncts can be satisfied; the fourth keeps the search busy until it is killed."""
    never = SEVERAL.replace("(or", "(or (and (>= Y_0 2.0) (<= Y_1 7.0))")
    (folder / "prop.vnnlib").write_text(models.declare(3, 3) + models.box([-1] * 3, [1] * 3) + never)
    words = ["verify", "prop.vnnlib", "--network", "net.onnx", "--all-witnesses", "9", "--witnesses", "more"]
    command = [sys.executable, "-P", "-m", "falsifier", *words, "--results", "r.txt", "--timeout", "100"]
    running = subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            if (folder / "more/index.json").exists():
                break
            time.sleep(0.1)
        assert running.poll() is None
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    assert (folder / "r.txt").read_text().startswith("sat\n((X_0 ")
    checked = falsifier("check", "prop.vnnlib", "more", "--network", "net.onnx", cwd=folder)
    assert checked.returncode == 0


def test_a_signal_ends_a_refinement_with_the_best_so_far(folder: Path) -> None:
    never = SEVERAL.replace("(or", "(or (and (>= Y_0 2.0) (<= Y_1 7.0))")
    (folder / "prop.vnnlib").write_text(models.declare(3, 3) + models.box([-1] * 3, [1] * 3) + never)
    words = ["verify", "prop.vnnlib", "--network", "net.onnx", "--all-witnesses", "9", "--witnesses", "more"]
    command = [sys.executable, "-P", "-m", "falsifier", *words, "--results", "r.txt", "--timeout", "100"]
    running = subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
    for _ in range(600):
        if (folder / "more/index.json").exists():
            break
        time.sleep(0.1)
    running.send_signal(signal.SIGTERM)
    stdout, _ = running.communicate(timeout=60)
    assert running.returncode == 0
    assert stdout == (folder / "r.txt").read_text()
    assert stdout.startswith("sat\n")


def test_without_a_witness_nothing_is_written(folder: Path) -> None:
    text = models.declare(3, 3) + models.box([-1] * 3, [1] * 3) + "(assert (>= Y_0 2))\n"
    (folder / "prop.vnnlib").write_text(text)
    done = verify(folder, "--all-witnesses", "2", "--witnesses", "more", "--max-evaluations", "100")
    assert done.stdout == "unknown\n"
    assert os.listdir(folder / "more") == []


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (["--distinct", "distance"], "--distinct goes with --all-witnesses"),
        (["--all-witnesses", "2", "--apart", "0.5"], "--apart goes with --distinct distance"),
        (["--all-witnesses", "2", "--deepen"], "choose one of them"),
        (["--all-witnesses", "0"], "not a positive number"),
        (["--norm", "l2"], "--norm goes with --nearest"),
        (["--witnesses", "more"], "--witnesses goes with"),
        (["--from", "start.txt"], "--from goes with"),
        (["--deepen", "--from", "start.txt"], "is no witness of this query: (>= Y_0 0.25) fails by"),
        (["--deepen", "--from", "none.txt"], "cannot be read"),
        (["--deepen", "--witnesses", "net.onnx"], "cannot be made"),
        (["--deepen", "--witnesses", "old"], "holds witnesses already"),
        (["--nearest", "none.npy"], "cannot be read"),
        (["--nearest", "short.npy"], "has 2 numbers, the inputs 3"),
        (["--nearest", "net.onnx"], "a 1.0 witness has the form"),
    ],
)
def test_bad_arguments_are_one_line(
    folder: Path, more: list[str], text: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "start.txt").write_text("((X_0 0)(X_1 0)(X_2 0))\n")
    np.save(folder / "short.npy", np.zeros(2))
    (folder / "old").mkdir()
    (folder / "old/index.json").write_text("{}")
    monkeypatch.chdir(folder)
    assert main(["verify", "prop.vnnlib", "--network", "net.onnx", *more]) == 2
    stdout, stderr = capfd.readouterr()
    assert stdout == ""
    assert text in stderr
    assert stderr.count("\n") == 1
