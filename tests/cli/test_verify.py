"""`verify`: the standard's lines on stdout, everything else on stderr, exit status 0, 2 or 1."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest
from bad_input import BAD, spoil
from command import ENVIRONMENT
from command import falsifier as command

from falsifier import InputError, Result, falsify
from falsifier.cli import main
from falsifier.cli.verify import Verification, _sha256, parser
from falsifier.query import read
from falsifier.witness.tensors import read_tensors
from falsifier.witness.text import read_witness

SLOW = """
import ctypes
import sys


class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "onnxruntime":
            ctypes.PyDLL(None).usleep(999_999)


sys.meta_path.insert(0, Slow())
"""
NEVER = "(assert (<= Y_0 -0.5))\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A network y = x and the query y >= 0.25 on [0, 1]."""
    models.save(models.identity(), tmp_path / "net.onnx")
    (tmp_path / "prop.vnnlib").write_text(models.declare(1, 1) + models.box([0], [1]) + "(assert (>= Y_0 0.25))\n")
    return tmp_path


@pytest.fixture
def folder_v2(tmp_path: Path) -> Path:
    """The two-output network of the 2.0 format, with a scalar and types as declared."""
    models.save(models.two_outputs(), tmp_path / "net.onnx")
    (tmp_path / "prop.vnnlib").write_text(
        "(vnnlib-version <2.0>)\n(declare-network N\n  (declare-input X float32 [1,1])\n"
        "  (declare-output A float32 [1])\n  (declare-output B real [])\n)\n"
        "(assert (>= X[0,0] 0.0))\n(assert (<= X[0,0] 1.0))\n(assert (>= A[0] -0.25))\n"
        "(assert (<= B 0.1))\n(assert (> B 0.05))\n"
    )
    return tmp_path


@pytest.mark.parametrize("reaped", [True, False])
def test_an_orphan_gives_no_answer(folder: Path, reaped: bool) -> None:
    """The caller was killed before this process came to its first line: the file may be another run's by now."""
    (folder / "out.txt").write_text("timeout\n")
    with subprocess.Popen([sys.executable, "-c", ""]) as caller:
        os.waitid(os.P_PID, caller.pid, os.WEXITED | os.WNOWAIT)
        if reaped:
            caller.wait()
        since = f"--since={caller.pid}"
        done = command("verify", since, "prop.vnnlib", "--network", "net.onnx", "--results", "out.txt", cwd=folder)
    assert (folder / "out.txt").read_text() == "timeout\n"
    assert (done.returncode, done.stdout) == (2, "")
    assert "has ended" in done.stderr


def test_sat_in_1_0(folder: Path) -> None:
    done = command("verify", "prop.vnnlib", "--network", "net.onnx", cwd=folder)
    assert done.returncode == 0
    first, rest = done.stdout.split("\n", 1)
    assert first == "sat"
    assert rest.startswith("((X_0 ")
    assert read_witness(read(folder / "prop.vnnlib"), rest).inputs[0][0] >= 0.25
    assert "sat (exact) after" in done.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["net.onnx", "prop.vnnlib"]


@pytest.mark.parametrize("network", ["N=net.onnx", "net.onnx", "X=net.onnx"])
def test_a_1_0_query_takes_any_name(folder: Path, network: str) -> None:
    assert command("verify", "prop.vnnlib", "--network", network, cwd=folder).stdout.startswith("sat\n")


@pytest.mark.parametrize("network", ["N=net.onnx", "net.onnx"])
def test_sat_in_2_0(folder_v2: Path, network: str) -> None:
    done = command("verify", "prop.vnnlib", "--network", network, "--timeout", "20.0", cwd=folder_v2)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert [lines[i] for i in (0, 1, 3, 5)] == ["sat", "X float32 [1,1]", "A float32 [1]", "B real []"]
    assert len(lines) == 7
    x, a, b = (np.float32(lines[i]) for i in (2, 4, 6))
    assert 0.1 < x <= 0.2
    assert (a, b) == (-x, x / np.float32(2))


@pytest.mark.parametrize("option", ["--serialise-assignments", "--assignments"])
def test_serialised_assignments(folder_v2: Path, option: str) -> None:
    done = command("verify", "prop.vnnlib", "--network", "N=net.onnx", option, "out/dir", cwd=folder_v2)
    assert sorted(path.name for path in (folder_v2 / "out/dir").iterdir()) == ["A.pb", "B.pb", "X.pb"]
    query = read(folder_v2 / "prop.vnnlib")
    from_tensors = read_tensors(query, folder_v2 / "out/dir")
    from_text = read_witness(query, done.stdout)
    assert from_tensors.inputs[0].astype(np.float64).tolist() == from_text.inputs[0].tolist()


def test_unsat(folder: Path) -> None:
    (folder / "prop.vnnlib").write_text(models.declare(1, 1) + models.box([0.6], [0.4]) + "(assert (>= Y_0 0))\n")
    done = command("verify", "prop.vnnlib", "--network", "net.onnx", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "unsat\n")
    assert "empty" in done.stderr


def never(folder: Path) -> None:
    (folder / "prop.vnnlib").write_text(models.declare(1, 1) + models.box([0], [1]) + NEVER)


def test_timed_out(folder: Path) -> None:
    started = time.monotonic()
    assert command("verify", "prop.vnnlib", "--network", "net.onnx", cwd=folder).stdout.startswith("sat\n")
    limit = max(1.5, 3 * (time.monotonic() - started))  # longer than libraries take to load, however busy the machine
    never(folder)
    done = command("verify", "prop.vnnlib", "--network", "net.onnx", "--timeout", f"{limit:.2f}", cwd=folder)
    assert done.returncode == 0
    assert done.stdout in ("timed-out\n", "unknown\n")


def test_max_evaluations_ends_the_search(folder: Path) -> None:
    never(folder)
    done = command(
        "verify", "prop.vnnlib", "--network", "net.onnx", "--max-evaluations", "200", "--json", "-", cwd=folder
    )
    result = json.loads(done.stdout)
    assert result["verdict"] == "unknown"
    assert result["evaluations"] <= 200


def test_json(folder: Path) -> None:
    arguments = ["verify", "prop.vnnlib", "--network", "net.onnx", "--json", "result.json", "--rng-seed", "7"]
    done = command(*arguments, cwd=folder)
    assert done.stdout.startswith("sat\n")
    result = json.loads((folder / "result.json").read_text())
    assert {name: result[name] for name in ("verdict", "class", "reason", "rng_seed")} == {
        "verdict": "sat",
        "class": "exact",
        "reason": "confirmed",
        "rng_seed": 7,
    }
    assert result["evaluations"] >= 1
    assert result["stage"]
    assert result["engine"]
    assert len(result["margins"]) == 1
    assert set(result["seconds"]) == {"read", "load", "compile", "search"}
    assert set(result["sha256"]) == {"prop.vnnlib", "net.onnx"}
    assert all(len(digest) == 64 for digest in result["sha256"].values())
    assert result["witness"]["inputs"] == result["witness"]["outputs"]


def test_large_files_are_hashed_within_the_limit_or_not_at_all(tmp_path: Path) -> None:
    for size, kept in ((1 << 20) - 1, True), (1 << 21, False):
        (tmp_path / "file").write_bytes(bytes(size))
        late, whole = (_sha256(tmp_path / "file", time.monotonic() + left) for left in (-1, 60))
        assert whole == sha256(bytes(size)).hexdigest()
        assert late == (whole if kept else None)


def test_time_is_kept_to_hash_large_files(tmp_path: Path) -> None:
    with (tmp_path / "net.onnx").open("wb") as file:
        file.truncate(1 << 30)  # takes no room on the disk
    words = [str(tmp_path / "prop.vnnlib"), f"--network={tmp_path / 'net.onnx'}", "--timeout=60"]
    ends = [Verification(parser().parse_args([*words, *more]), 0.0, None) for more in ((), ("--json=-",))]
    plain, hashing = (run.end - run.deadline for run in ends)
    assert plain + 2 <= hashing <= plain + 6


def test_same_seed_same_witness(folder: Path) -> None:
    text = models.declare(1, 1) + models.box([0], [1]) + "(assert (>= Y_0 0.99))\n(assert (<= Y_0 0.9901))\n"
    (folder / "prop.vnnlib").write_text(text)
    arguments = ["verify", "prop.vnnlib", "--network", "net.onnx", "--max-evaluations", "100000", "--rng-seed", "3"]
    answers = {command(*arguments, cwd=folder).stdout for _ in range(2)}
    assert len(answers) == 1
    assert answers.pop().startswith("sat\n")


EDGE = "(assert (>= Y_0 0.3))\n"


def test_require_exact(folder: Path) -> None:
    """Only float32(0.3), which lies 1.2e-8 outside the bound as written, meets the query."""
    (folder / "prop.vnnlib").write_text(models.declare(1, 1) + models.box(["0.1"], ["0.3"]) + EDGE)
    arguments = ["verify", "prop.vnnlib", "--network", "net.onnx", "--max-evaluations", "100000"]
    lenient = command(*arguments, cwd=folder)
    assert lenient.stdout.startswith("sat\n((X_0 0.30000001192092896)\n")
    assert "sat (correct) after" in lenient.stderr
    strict = command(*arguments, "--require", "exact", cwd=folder)
    assert strict.stdout == "unknown\n"
    assert "1.19e-08" in strict.stderr
    assert "0.3000" not in strict.stderr


@pytest.mark.parametrize("limit", ["0.05", "0.6"])
def test_a_limit_that_passes_while_libraries_load(folder: Path, limit: str) -> None:
    """An import that holds the interpreter's lock for a second: the answer is that of any other deadline."""
    (folder / "slow.py").write_text(SLOW)
    words = ["verify", "prop.vnnlib", "--network", "net.onnx", "--timeout", limit, "--results", "out.txt"]
    done = subprocess.run(
        [sys.executable, "-c", f"import slow, sys; sys.argv[1:] = {words!r}; from falsifier.cli import entry; entry()"],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "timed-out\n"), done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("falsifier: timeout after ")
    assert line.endswith(": the time limit was reached")
    assert (folder / "out.txt").read_text() == "timeout\n"


def test_results_file_holds_the_competition_s_words(folder: Path) -> None:
    never(folder)
    command("verify", "prop.vnnlib", "--network", "net.onnx", "--timeout", "0.01", "--results", "out.txt", cwd=folder)
    assert (folder / "out.txt").read_text() in ("timeout\n", "unknown\n")


@pytest.mark.parametrize("name", BAD)
def test_bad_input(folder: Path, name: str) -> None:
    network, query = spoil(name, folder)
    before = {path.name: path.is_file() and path.read_bytes() for path in folder.iterdir()}
    done = command("verify", query, "--network", network, "--json", "r.json", "--assignments", "d", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert {path.name: path.is_file() and path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--network", "net.onnx", "--network", "N=net.onnx"],
        ["--network", "net.onnx", "--timeout", "0"],
        ["--network", "net.onnx", "--timeout", "soon"],
        ["--network", "net.onnx", "--rng-seed", "-1"],
        ["--network", "net.onnx", "--max-evaluations", "0"],
        ["--network", "net.onnx", "--require", "sound"],
        ["--network", "net.onnx", "--device", "tpu"],
        ["--network", "net.onnx", "--results", "missing/out.txt"],
        ["--network", "net.onnx", "--json", "net.onnx/out.json"],
        ["--network", "net.onnx", "--json", "missing/deep/out.json"],
        ["--network", "net.onnx", "--assignments", "net.onnx/dir"],
        ["--network", "net.onnx", "--assignments", "net.onnx"],
        ["--network", "net.onnx", "--json", "."],
    ],
)
def test_bad_arguments(folder: Path, arguments: list[str]) -> None:
    done = command("verify", "prop.vnnlib", *arguments, cwd=folder)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith("falsifier: ")
    assert "Traceback" not in done.stderr
    assert not (folder / "missing").exists()


def test_wrong_names_in_2_0(folder_v2: Path) -> None:
    done = command("verify", "prop.vnnlib", "--network", "M=net.onnx", cwd=folder_v2)
    assert (done.returncode, done.stdout) == (2, "")
    assert "declares no network 'M', only N" in done.stderr


def test_gzip_is_read_in_place(folder: Path) -> None:
    for name in ("net.onnx", "prop.vnnlib"):
        (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes()))
        (folder / name).unlink()
    done = command("verify", "prop.vnnlib.gz", "--network", "net.onnx.gz", cwd=folder)
    assert done.stdout.startswith("sat\n")
    assert sorted(path.name for path in folder.iterdir()) == ["net.onnx.gz", "prop.vnnlib.gz"]


def _waits_for(process: int, number: signal.Signals) -> bool:
    """Whether its guard holds back a signal, which one thread of it takes."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    blocked = next((line.split()[1] for line in lines if line.startswith("SigBlk:")), "0")
    return bool(int(blocked, 16) >> (number - 1) & 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(folder: Path, number: signal.Signals) -> None:
    never(folder)
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "falsifier", "verify", "prop.vnnlib", "--network", "net.onnx"],
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not _waits_for(process.pid, number):  # however long it takes to start
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (128 + number, "unknown\n")
    assert "interrupted" in err
    assert "Traceback" not in err


def test_an_internal_error_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> Result:
        raise RuntimeError("a bug")

    monkeypatch.setattr(sys.modules["falsifier.falsify"], "Prepared", broken)
    monkeypatch.chdir(folder)
    with pytest.raises(RuntimeError, match="a bug"):
        main(["verify", "prop.vnnlib", "--network", "net.onnx", "--results", "out.txt"])
    assert (folder / "out.txt").read_text() == "error\n"


def test_an_answer_survives_what_fails_after_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise InputError("r.json: cannot be written")

    monkeypatch.setattr("falsifier.cli.verify.Verification._write_json", broken)
    monkeypatch.chdir(folder)
    arguments = ["verify", "prop.vnnlib", "--network", "net.onnx", "--results", "out.txt", "--json", "r.json"]
    assert main([*arguments, "--timeout", "inf"]) == 2
    assert (folder / "out.txt").read_text().startswith("sat\n((X_0 ")


def test_a_witness_survives_a_later_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "prop.vnnlib").write_text(models.declare(1, 1) + models.box([0], [1]) + "(assert (>= Y_0 0.25))\n")

    def broken(*arguments: Any, report: Callable[[Result], None], **options: Any) -> Result:
        report(falsify(*arguments, **options))
        raise RuntimeError("a bug")

    monkeypatch.setattr(sys.modules["falsifier.falsify"], "falsify", broken)
    monkeypatch.chdir(folder)
    assert main(["verify", "prop.vnnlib", "--network", "net.onnx", "--results", "out.txt"]) == 0
    assert (folder / "out.txt").read_text() == capsys.readouterr().out
    assert (folder / "out.txt").read_text().startswith("sat\n((X_0 ")
