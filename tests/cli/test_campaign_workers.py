"""`falsifier campaign --workers`: what its options ask for, and that nothing outlives it, however it ends."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import models
import pytest
from command import ENVIRONMENT, falsifier

WEIGHT = [[1.0, 1.0, 0.0], [0.0, -1.0, 2.0]]


def plan(folder: Path, bounds: list[float], limit: float) -> Path:
    """Queries Y_0 >= bound about the sum of two inputs in [0, 1], for each of two networks."""
    rows = []
    for name, factor in [("one", 1.0), ("two", 2.0)]:
        weight = [[factor * value for value in row] for row in WEIGHT]
        models.save(models.affine(weight), folder / f"{name}.onnx")
        for i, bound in enumerate(bounds):
            text = models.declare(3, 2) + models.box([0] * 3, [1] * 3) + f"(assert (>= Y_0 {factor * bound}))\n"
            (folder / f"{name}{i}.vnnlib").write_text(text)
            rows.append(f"{name}.onnx,{name}{i}.vnnlib,{limit}\n")
    path = folder / "instances.csv"
    path.write_text("".join(rows))
    return path


def verdicts(folder: Path) -> dict[str, str]:
    with (folder / "results.csv").open(newline="") as file:
        return {row[2]: row[4] for row in csv.reader(file)}


def workers_of(process: int) -> list[int]:
    """The worker processes that a process started."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            parent = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
            words = Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue
        if parent == process and b"executors.worker" in words:
            found.append(int(name))
    return found


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def test_two_workers_and_this_process_alone_say_the_same(tmp_path: Path) -> None:
    plan(tmp_path, [1.5, 1.75, 1.9, 2.5], 60)
    words = ["campaign", "instances.csv", "--max-evaluations", "2000", "--device", "cpu"]
    alone = falsifier(*words, "--out", "alone", cwd=tmp_path)
    shared = falsifier(*words, "--out", "shared", "--workers", "2", "--worker-memory", "2G", cwd=tmp_path)
    assert (alone.returncode, shared.returncode) == (0, 0), shared.stderr
    assert verdicts(tmp_path / "alone") == verdicts(tmp_path / "shared")
    assert shared.stderr.splitlines()[-1].startswith("falsifier: 8 instances: 6 sat, 2 unknown")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_with_the_campaign(tmp_path: Path, number: signal.Signals) -> None:
    path = plan(tmp_path, [1.5, 1.75, 2.5, 3.5], 1000)
    words = [sys.executable, "-P", "-m", "falsifier", "campaign", str(path), "--out", "out", "--workers", "2"]
    with subprocess.Popen(words, cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as process:
        table = tmp_path / "out" / "results.csv"
        begun = time.monotonic()
        while not (table.exists() and table.read_bytes().count(b"\n") >= 4) and time.monotonic() - begun < 60:
            time.sleep(0.01)
        workers = workers_of(process.pid)
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
    assert process.returncode == (-number if number is signal.SIGKILL else 128 + number)
    assert len(workers) == 2
    begun = time.monotonic()
    while any(map(alive, workers)) and time.monotonic() - begun < 30:
        time.sleep(0.01)
    assert not any(map(alive, workers))
    if number is not signal.SIGKILL:
        assert "interrupted: 4 of 8 instances are decided" in said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--workers", "0"], "not a positive number"),
        (["--workers", "2", "--worker-memory", "much"], "'much' is not a size: write 500M or 4G"),
        (["--workers", "2", "--worker-grace", "-1"], "not a number of seconds"),
        (["--worker-memory", "2G"], "--worker-memory goes with --workers"),
        (["--executor", "processes"], "--executor goes with --workers"),
        (["--address", "auto"], "--address belongs to --executor ray"),
    ],
)
def test_options_that_do_not_fit_are_one_line(tmp_path: Path, words: list[str], says: str) -> None:
    plan(tmp_path, [1.5], 5)
    done = falsifier("campaign", "instances.csv", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert says in done.stderr
    assert not (tmp_path / "campaign").exists()
