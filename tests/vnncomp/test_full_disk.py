"""The competition's scripts on a disk that takes no more: one line, a valid answer as far as there is room, no process
and no folder left behind.
"""

from __future__ import annotations

import subprocess
import uuid
from pathlib import Path

import models
import pytest
from command import falsifier
from scripts import SCRIPTS, STALE, Outcome, environment, finish, start

WIDE = 2000  # inputs: the witness takes 25 kB, a small disk has 8


@pytest.fixture(params=["off", "warm"])
def worker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Whether a prepared worker answers, and the folder that it waits in."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    if request.param == "off":
        monkeypatch.setenv("FALSIFIER_WORKER", "off")
    return str(request.param)


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """Whether the sum of many inputs in [0, 1] reaches 0.25."""
    models.save(models.affine([[1.0] * WIDE]), tmp_path / "net.onnx")
    text = models.declare(WIDE, 1) + models.box([0] * WIDE, [1] * WIDE) + "(assert (>= Y_0 0.25))\n"
    (tmp_path / "prop.vnnlib").write_text(text)
    return tmp_path


def prepare(folder: Path, mark: str) -> list[str]:
    """What prepare_instance.sh said."""
    words = [str(SCRIPTS / "prepare_instance.sh"), "v1", "test", "net.onnx", "prop.vnnlib"]
    done = subprocess.run(
        words, cwd=folder, env=environment(mark), stderr=subprocess.PIPE, text=True, timeout=60, check=False
    )
    assert done.returncode == 0
    return said(done.stderr)


def said(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if not line.startswith("+")]


def run(folder: Path, results: str, worker: str, timeout: str = "20") -> Outcome:
    """A run, prepared if there is to be a worker."""
    mark = str(uuid.uuid4())
    if worker == "warm":
        assert prepare(folder, mark) == []
    return finish(start(["net.onnx", "prop.vnnlib", results, timeout], folder, mark), folder, mark, results)


def test_a_witness_for_which_there_is_no_room(wide: Path, small_disk: Path, worker: str) -> None:
    (small_disk / "out.txt").write_text(STALE)
    outcome = run(wide, "disk/out.txt", worker)
    assert (outcome.status, outcome.results) == (0, "error\n")
    (line,) = [line for line in said(outcome.stderr) if "after" not in line]
    assert line == "falsifier: disk/out.txt: the results cannot be written (No space left on device)"
    assert outcome.alive() == []
    assert sorted(path.name for path in small_disk.iterdir()) == ["filling", "out.txt"]


def test_an_answer_fits_where_the_provisional_one_did(wide: Path, small_disk: Path, worker: str) -> None:
    """Without a free byte: the file has room for a word."""
    query = (wide / "prop.vnnlib").read_text().replace("(>= Y_0 0.25)", "(<= Y_0 -0.25)")
    (wide / "prop.vnnlib").write_text(query)
    (small_disk / "out.txt").write_text(STALE)
    (small_disk / "filling").write_bytes(bytes(60 << 10))
    outcome = run(wide, "disk/out.txt", worker, "1.5")
    assert outcome.status == 0
    assert outcome.results in ("timeout\n", "unknown\n")
    assert not [line for line in said(outcome.stderr) if "space" in line]
    assert outcome.alive() == []


def test_results_that_cannot_even_begin(wide: Path, small_disk: Path) -> None:
    (small_disk / "filling").write_bytes(bytes(64 << 10))
    outcome = run(wide, "disk/out.txt", "off")
    assert outcome.status != 0
    (line,) = said(outcome.stderr)
    assert line == "run_instance.sh: cannot write the results file 'disk/out.txt'"
    assert outcome.alive() == []


def test_workers_that_find_no_room(wide: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None waits, nothing of it is left, and the run answers by itself."""
    (small_disk / "filling").write_bytes(bytes(64 << 10))
    for name in ("XDG_RUNTIME_DIR", "TMPDIR"):
        monkeypatch.setenv(name, str(small_disk))
    mark = str(uuid.uuid4())
    assert prepare(wide, mark) == []
    assert Outcome(0, "", None, mark).alive() == []
    assert [path for path in small_disk.rglob("*") if path.is_file()] == [small_disk / "filling"]
    outcome = finish(start(["net.onnx", "prop.vnnlib", "out.txt", "20"], wide, mark), wide, mark)
    assert (outcome.status, outcome.word) == (0, "sat")
    assert outcome.alive() == []


def test_an_answer_is_printed_where_its_file_takes_nothing(wide: Path, small_disk: Path) -> None:
    words = ["verify", "prop.vnnlib", "--network", "net.onnx", "--results", "disk/out.txt"]
    done = falsifier(*words, cwd=wide)
    assert done.returncode == 2
    assert done.stdout.startswith("sat\n((X_0 ")
    assert done.stderr.splitlines()[-1].endswith("out.txt: the results cannot be written (No space left on device)")
    assert (small_disk / "out.txt").read_text() == "error\n"
