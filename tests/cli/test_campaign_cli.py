"""`falsifier campaign` as a process: its folder, its lines, its exit status, and what a kill leaves behind."""

from __future__ import annotations

import csv
import gzip
import signal
import subprocess
import sys
import time
from pathlib import Path

import models
import numpy as np
import pytest
from command import ENVIRONMENT, falsifier

WEIGHT = [[1.0, 1.0, 0.0], [0.0, -1.0, 2.0]]


def family(folder: Path, bounds: list[float], timeout: float = 5) -> Path:
    """Queries Y_0 >= bound about a sum of two inputs in [0, 1], over a network that is not quite linear."""
    models.save(models.chain([models.gemm(WEIGHT), ("Relu", [], {})], [1, 3], [1, 2]), folder / "net.onnx")
    for i, bound in enumerate(bounds):
        text = models.declare(3, 2) + models.box([0] * 3, [1] * 3) + f"(assert (>= Y_0 {bound}))\n"
        (folder / f"q{i}.vnnlib").write_text(text)
    path = folder / "instances.csv"
    path.write_text("".join(f"net.onnx,q{i}.vnnlib,{timeout}\n" for i in range(len(bounds))))
    return path


def results(folder: Path) -> list[list[str]]:
    with (folder / "results.csv").open(newline="") as file:
        return list(csv.reader(file))


def test_a_campaign_from_files_to_files(tmp_path: Path) -> None:
    path = family(tmp_path, [1.5, 1.9, 2.5])
    path.write_text(path.read_text() + "net.onnx,none.vnnlib,5\nnet.onnx,q0.vnnlib,5\n")
    done = falsifier(
        "campaign", str(path), "--out", "out", "--max-evaluations", "3000", "--category", "sums", cwd=tmp_path
    )
    assert done.returncode == 0
    assert done.stdout == ""
    rows = results(tmp_path / "out")
    assert {(row[0], row[1]) for row in rows} == {("sums", "net.onnx")}
    assert [(row[2], row[4]) for row in rows] == [
        ("q0.vnnlib", "sat"),
        ("q1.vnnlib", "sat"),
        ("q2.vnnlib", "unknown"),
        ("none.vnnlib", "error"),
        ("q0.vnnlib", "error"),
    ]
    assert sorted(p.name for p in (tmp_path / "out" / "sums").iterdir()) == [
        "net_q0.counterexample.gz",
        "net_q1.counterexample.gz",
    ]
    for i in range(2):
        witness = tmp_path / "out" / "sums" / f"net_q{i}.counterexample.gz"
        judged = falsifier(
            "check", str(tmp_path / f"q{i}.vnnlib"), str(witness), "--network", str(tmp_path / "net.onnx")
        )
        assert judged.stdout.startswith("exact")
    errors = [line for line in done.stderr.splitlines() if "instances.csv:" in line]
    assert len(errors) == 2
    assert done.stderr.splitlines()[-1].startswith("falsifier: 5 instances: 2 error, 2 sat, 1 unknown")


def test_budgets_of_a_table(tmp_path: Path) -> None:
    path = family(tmp_path, [1.5, 1.9])
    np.save(tmp_path / "budgets.npy", np.array([0.3, 0.3, np.inf]))
    words = ["campaign", str(path), "--max-evaluations", "2000", "--budgets", "budgets.npy"]
    done = falsifier(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {row[2]: row[4] for row in results(tmp_path / "campaign")} == {"q0.vnnlib": "sat", "q1.vnnlib": "unknown"}


def test_a_table_without_one_usable_row_is_bad_input(tmp_path: Path) -> None:
    """Its rows are written all the same."""
    path = family(tmp_path, [1.5])
    path.write_text("net.onnx,none.vnnlib,5\nnet.onnx\nnet.onnx,q0.vnnlib,soon\n")
    done = falsifier("campaign", str(path), cwd=tmp_path)
    assert done.returncode == 2
    assert [row[4] for row in results(tmp_path / "campaign")] == ["error"] * 3
    assert len([line for line in done.stderr.splitlines() if "instances.csv:" in line]) == 3
    assert done.stderr.splitlines()[-1].startswith("falsifier: 3 instances: 3 error")


def test_the_same_cap_gives_the_same_witnesses(tmp_path: Path) -> None:
    path = family(tmp_path, [1.5, 1.75, 1.9, 1.99])
    for out in ("one", "two"):
        falsifier("campaign", str(path), "--out", out, "--max-evaluations", "3000", "--category", "c", cwd=tmp_path)
    for i in range(4):
        texts = {(tmp_path / out / "c" / f"net_q{i}.counterexample.gz").read_bytes() for out in ("one", "two")}
        assert len(texts) == 1


def test_samples_in_place_of_queries(tmp_path: Path) -> None:
    family(tmp_path, [])
    x = np.array([[0.5, 0.5, 0.25], [0.5, 0.5, 0.75], [0.9, 0.9, 0.0]])
    np.savez(tmp_path / "images.npz", x=x)
    words = ["campaign", "net.onnx", "--dataset", "images.npz", "--epsilon", "0.25", "--max-evaluations", "2000"]
    done = falsifier(*words, "--out", "out", "--as-vnnlib", "queries", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(row[2:5:2] for row in results(tmp_path / "out")) == [
        ["sample_0.vnnlib", "sat"],
        ["sample_1.vnnlib", "sat"],
        ["sample_2.vnnlib", "unknown"],
    ]
    assert len(list((tmp_path / "queries").iterdir())) == 4
    witness = str(tmp_path / "out" / "images" / "net_sample_0.counterexample.gz")
    judged = falsifier("check", "queries/sample_0.vnnlib", witness, "--network", "net.onnx", cwd=tmp_path)
    assert judged.stdout.startswith("exact")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["none.csv"], "none.csv: cannot be read"),
        (["empty.csv"], "no instances in it"),
        (["x.npz"], "for a model give samples with --dataset"),
        (["instances.csv", "--timeout", "0"], "not a positive number"),
        (["instances.csv", "--device", "tpu"], "unknown device"),
        (["instances.csv", "--portfolio", "none"], "unknown portfolio"),
        (["instances.csv", "--category", "../a"], "a name without slashes"),
        (["instances.csv", "--epsilon", "0.1"], "--epsilon belongs to --dataset"),
        (["instances.csv", "net.onnx", "--dataset", "x.npz", "--epsilon", "1"], "one model, 2 files"),
        (["net.onnx", "--dataset", "none.npz", "--epsilon", "1"], "none.npz: cannot be read"),
        (["net.onnx", "--dataset", "x.npz"], "give --epsilon or --budgets"),
        (["net.onnx", "--dataset", "x.npz", "--epsilon", "-1"], "not a distance"),
        (["net.onnx", "--dataset", "x.npz", "--epsilon", "1", "--label-property", "margin"], "--margin go together"),
        (["net.onnx", "--dataset", "x.npz", "--epsilon", "1", "--range", "0", "1"], "--range go together"),
        (["net.onnx", "--dataset", "x.npz", "--epsilon", "1", "--clip", "1", "0"], "the lower end comes first"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, words: list[str], says: str) -> None:
    family(tmp_path, [1.5])
    (tmp_path / "empty.csv").write_text("\n")
    np.savez(tmp_path / "x.npz", x=np.zeros((2, 3)))
    done = falsifier("campaign", *words, "--out", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert says in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_what_was_decided_outlives_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    path = family(tmp_path, [*np.linspace(1, 1.95, 40).tolist(), *[2.5 + i for i in range(10)]], timeout=1000)
    words = [sys.executable, "-P", "-m", "falsifier", "campaign", str(path), "--out", "out", "--category", "c"]
    with subprocess.Popen(words, cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as process:
        table = tmp_path / "out" / "results.csv"
        begun = time.monotonic()
        while not (table.exists() and table.read_bytes().count(b"\n") >= 5) and time.monotonic() - begun < 60:
            time.sleep(0.01)
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
    assert process.returncode == (-number if number is signal.SIGKILL else 128 + number)
    assert table.read_bytes().endswith(b"\n")
    rows = results(tmp_path / "out")
    assert len(rows) >= 5
    assert all(len(row) == 6 and row[4] == "sat" for row in rows)
    for row in rows:
        witness = tmp_path / "out" / "c" / f"net_{row[2].removesuffix('.vnnlib')}.counterexample.gz"
        text = gzip.decompress(witness.read_bytes()).decode()
        assert text.startswith("((X_0 ")
        assert text.endswith("))\n")
    if number is not signal.SIGKILL:
        assert f"{len(rows)} of 50 instances are decided" in said


def test_results_of_another_run_are_kept(tmp_path: Path) -> None:
    path = family(tmp_path, [1.5])
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "results.csv").write_text("precious\n")
    done = falsifier("campaign", str(path), "--out", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert "exists: choose another folder" in done.stderr
    assert (tmp_path / "out" / "results.csv").read_text() == "precious\n"
