"""Every command with files that are none, disks that take nothing, and names of any bytes: one line, status 2, nothing
left behind, no waiting.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import models
import numpy as np
import pytest
from command import ENVIRONMENT, falsifier

from falsifier.cli import main

QUERY = models.declare(1, 1) + models.box([0], [1]) + "(assert (>= Y_0 0.25))\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """y = x on [0, 1] with y >= 0.25 asked, a witness, an instances.csv, a data set; a campaign and a hit of log."""
    place = tmp_path_factory.mktemp("made")
    models.save(models.identity(), place / "net.onnx")
    models.save(models.chain([("Log", [], {})], [1, 1], [1, 1]), place / "log.onnx")
    (place / "prop.vnnlib").write_text(QUERY)
    (place / "witness.txt").write_text("sat\n((X_0 0.5)\n(Y_0 0.5))\n")
    (place / "instances.csv").write_text("net.onnx,prop.vnnlib,2\n")
    np.savez(place / "data.npz", x=np.full((2, 1), 0.5))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        assert main(["campaign", "instances.csv", "--out", "done"]) == 0
        assert main(["fuzz", "log.onnx", "--out", "session", "--max-evaluations", "200", "--lanes", "32"]) == 0
    for hit in sorted((place / "session" / "hits").iterdir())[1:]:
        shutil.rmtree(hit)  # each is run by a process of its own
    return place


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: a copy of that."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)  # a path of few bytes


def _hole(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 41)


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "pipe": (os.mkfifo, "a pipe"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "a device"),
    "socket": (_socket, "a socket"),
    "loop": (lambda path: path.symlink_to(path.name), "form a loop"),
    "folder": (lambda path: path.mkdir(), "folder"),
    "hole": (_hole, "more than"),
}

_SAMPLES = ["--label-property", "range", "--range", "0", "1", "--epsilon", "0.1"]

_VERIFY = ["verify", "prop.vnnlib", "--network", "net.onnx"]
_FURTHER = [*_VERIFY, "--all-witnesses", "2"]

READS: dict[str, list[str]] = {
    "verify, query": ["verify", "BAD", "--network", "net.onnx"],
    "verify, network": ["verify", "prop.vnnlib", "--network", "BAD"],
    "verify, named network": ["verify", "prop.vnnlib", "--network", "N=BAD"],
    "verify, budgets": ["verify", "prop.vnnlib", "--network", "net.onnx", "--budgets", "BAD"],
    "verify, configuration": ["verify", "prop.vnnlib", "--network", "net.onnx", "--then", "x", "--config", "BAD"],
    "check, query": ["check", "BAD", "witness.txt", "--network", "net.onnx"],
    "check, witness": ["check", "prop.vnnlib", "BAD", "--network", "net.onnx"],
    "check, network": ["check", "prop.vnnlib", "witness.txt", "--network", "BAD"],
    "explain": ["explain", "BAD"],
    "convert": ["convert", "BAD"],
    "convert, network": ["convert", "prop.vnnlib", "--network", "BAD"],
    "campaign": ["campaign", "BAD", "--out", "out"],
    "verify, --from": [*_FURTHER, "--from", "BAD"],
    "verify, --nearest": [*_VERIFY, "--nearest", "BAD"],
    "verify, --nearest, array": [*_VERIFY, "--nearest", "BAD.npy"],
    "check, rows": ["check", "done", "--instances", "BAD"],
    "campaign --resume": ["campaign", "BAD", "--out", "done", "--resume"],
    "campaign --workers": ["campaign", "BAD", "--out", "out", "--workers", "2"],
    "campaign, configuration": ["campaign", "instances.csv", "--out", "out", "--then", "x", "--config", "BAD"],
    "adapters": ["adapters", "--config", "BAD"],
    "fuzz, tokens": ["fuzz", "net.onnx", "--objective", "words:witness.txt", "--tokens", "BAD", "--out", "out"],
    "campaign, data": ["campaign", "net.onnx", "--dataset", "BAD", *_SAMPLES, "--out", "out"],
    "campaign, model": ["campaign", "BAD", "--dataset", "data.npz", *_SAMPLES, "--out", "out"],
    "fuzz": ["fuzz", "BAD", "--out", "out"],
    "fuzz, inputs": ["fuzz", "net.onnx", "--inputs", "BAD", "--out", "out"],
    "fuzz, against": ["fuzz", "net.onnx", "--objective", "disagree", "--against", "BAD", "--out", "out"],
    "quantize": ["quantize", "BAD", "--out", "out.onnx"],
    "quantize, inputs": ["quantize", "net.onnx", "--out", "out.onnx", "--inputs", "BAD"],
    "doctor": ["doctor", "BAD"],
}
# of serialised tensors: a folder is no fault, but it is empty
_FOLDERS = {"check, witness", "verify, --from", "verify, --nearest"}

READS_FOLDERS: dict[str, list[str]] = {
    "check": ["check", "BAD", "--instances", "instances.csv"],
    "campaign --resume": ["campaign", "instances.csv", "--out", "BAD", "--resume"],
    "merge": ["merge", "out", "done", "BAD"],
    "report": ["report", "BAD"],
    "report, against": ["report", "done", "--against", "BAD", "--out", "out.html"],
    "export": ["export", "BAD"],
    "replay": ["replay", "BAD"],
}


@pytest.mark.parametrize("command", READS)
@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_file(folder: Path, capsys: pytest.CaptureFixture[str], command: str, kind: str) -> None:
    make, says = BAD[kind]
    make(folder / ("BAD.npy" if "BAD.npy" in READS[command] else "BAD"))
    before = sorted(os.listdir(folder))
    assert main(READS[command]) == 2
    out, err = capsys.readouterr()
    assert out == "" or command == "doctor"
    assert err.count("\n") == 1, err
    assert "BAD" in err
    assert says in err or (kind == "folder" and command in _FOLDERS)
    assert sorted(os.listdir(folder)) == before


def _says_so(folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], name: str) -> None:
    """The command is refused in one line that has the name, and leaves nothing but a lock, which a death frees."""
    before = sorted(folder.rglob("*"))
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1, err
    assert name in err
    assert [path for path in sorted(folder.rglob("*")) if path not in before and path.name != "campaign.lock"] == []


@pytest.mark.parametrize("command", READS_FOLDERS)
@pytest.mark.parametrize("kind", [kind for kind in BAD if kind != "folder"])
def test_what_is_no_folder(folder: Path, capsys: pytest.CaptureFixture[str], command: str, kind: str) -> None:
    BAD[kind][0](folder / "BAD")
    _says_so(folder, capsys, READS_FOLDERS[command], "BAD")


@pytest.mark.parametrize("command", sorted(READS_FOLDERS.keys() - {"check", "replay"}))
@pytest.mark.parametrize("kind", BAD)
def test_a_folder_whose_record_is_none(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str, kind: str
) -> None:
    (folder / "BAD").mkdir()
    os.chdir(folder / "BAD")
    if kind == "hole":  # a database of some size is none to refuse: damage is
        Path("campaign.sqlite").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    else:
        BAD[kind][0](Path("campaign.sqlite"))
    os.chdir(folder)
    _says_so(folder, capsys, READS_FOLDERS[command], "BAD")


@pytest.mark.parametrize("part", ["reproduce.py", "inputs.npz", "hit.json"])
@pytest.mark.parametrize("kind", BAD)
def test_a_hit_of_which_a_part_is_no_file(
    folder: Path, capsys: pytest.CaptureFixture[str], part: str, kind: str
) -> None:
    hit = next((folder / "session").rglob("hit.json")).parent
    (hit / part).unlink()
    os.chdir(hit)
    BAD[kind][0](Path(part))
    status = main(["replay", str(hit)])
    out, err = capsys.readouterr()
    assert status == 2
    assert part in (err if part == "hit.json" else out)
    assert "Traceback" not in err


def test_rows_of_a_campaign_with_what_is_no_file(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    _hole(folder / "hole")
    bad = ["pipe", "loop", "hole", "."]
    rows = [row for name in bad for row in (f"{name},prop.vnnlib,2", f"net.onnx,{name},2")]
    (folder / "instances.csv").write_text("\n".join([*rows, "net.onnx,prop.vnnlib,2\n"]))
    assert main(["campaign", "instances.csv", "--out", "out"]) == 0
    found = [line.split(",")[4] for line in (folder / "out" / "results.csv").read_text().splitlines()]
    assert sorted(found) == ["error"] * len(rows) + ["sat"]


@pytest.mark.parametrize("command", ["replay", "replay, record"])
def test_hits_that_are_none(folder: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    (folder / "hit").mkdir()
    if command == "replay, record":
        os.mkfifo(folder / "hit" / "hit.json")
    assert main(["replay", "hit"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


WRITES: dict[str, list[str]] = {
    "verify --results": ["verify", "prop.vnnlib", "--network", "net.onnx", "--results", "DISK/out"],
    "verify --json": ["verify", "prop.vnnlib", "--network", "net.onnx", "--json", "DISK/out"],
    "verify --assignments": ["verify", "prop.vnnlib", "--network", "net.onnx", "--assignments", "DISK/out"],
    "convert": ["convert", "prop.vnnlib", "--output", "DISK/out"],
    "quantize": ["quantize", "net.onnx", "--to", "float16", "--out", "DISK/out"],
    "campaign": ["campaign", "instances.csv", "--out", "DISK/out"],
    "campaign --as-vnnlib": ["campaign", "net.onnx", "--dataset", "data.npz", *_SAMPLES, "--as-vnnlib", "DISK/out"],
    "fuzz": ["fuzz", "net.onnx", "--out", "DISK/out", "--max-evaluations", "200"],
    "verify --witnesses": [*_FURTHER, "--witnesses", "DISK/out"],
    "campaign --workers": ["campaign", "instances.csv", "--out", "DISK/out", "--workers", "2"],
    "merge": ["merge", "DISK/out", "done"],
    "report": ["report", "done", "--out", "DISK/out.html"],
    "export": ["export", "done", "--out", "DISK/out"],
    "replay": ["replay", "session", "--json", "DISK/out"],
    "fuzz --json": [
        "fuzz",
        "log.onnx",
        "--out",
        "out",
        "--max-evaluations",
        "200",
        "--lanes",
        "32",
        "--json",
        "DISK/out",
    ],
    "prepass --write": ["prepass", "--tool", "tool", "--write", "DISK/out"],
}


_RECORDS = {"results.csv", "session.sqlite", "campaign.sqlite", "campaign.lock"}


def _tool(folder: Path) -> None:
    (folder / "tool").mkdir()
    for name in ("prepare_instance.sh", "run_instance.sh", "install_tool.sh"):
        (folder / "tool" / name).touch()


@pytest.mark.parametrize("command", WRITES)
@pytest.mark.parametrize("disk", ["full", "closed", "a file", "a loop"])
def test_a_place_that_takes_nothing(
    folder: Path, small_disk: Path, capsys: pytest.CaptureFixture[str], command: str, disk: str
) -> None:
    _tool(folder)
    place = folder / "DISK"
    if disk in ("full", "closed"):
        place.symlink_to(small_disk)
        (small_disk / "filling").write_bytes(bytes(64 << 10))
        if disk == "closed":
            subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    elif disk == "a file":
        place.touch()
    else:
        place.symlink_to("DISK")
    status = main(WRITES[command])
    err = capsys.readouterr().err
    assert "Traceback" not in err
    told = [line for line in err.splitlines() if "cannot be" in line or "space" in line]
    if status == 0:  # what takes no room: an empty folder, a copy of no bytes
        assert disk == "full"
        return
    assert status in (1, 2)
    assert told or err.count("\n") == 1, err
    if disk in ("full", "closed"):
        left = [path for path in small_disk.rglob("*") if path.is_file() and path.name != "filling"]
        # an empty record is a whole one; nothing else may be empty, or under the name of something unfinished
        assert {path.name for path in left if path.stat().st_size == 0 or ".part" in path.name} <= _RECORDS


def test_results_that_are_a_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "out.txt").mkdir()
    words = ["verify", "prop.vnnlib", "--network", "net.onnx"]
    for option in ("--results", "--json"):
        assert main([*words, option, "out.txt"]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert main(["convert", "prop.vnnlib", "--output", "out.txt"]) == 2
    assert main(["quantize", "net.onnx", "--to", "float16", "--out", "out.txt"]) == 2
    assert list((folder / "out.txt").iterdir()) == []


def test_names_of_any_bytes(folder: Path) -> None:
    """Blanks, other letters, bytes that are no text: each command, as a process, since stdout is one's."""
    inner = folder / os.fsdecode(b"a b \xc3\xa9 \xff\n\"'")
    inner.mkdir()
    for name in ("net.onnx", "prop.vnnlib", "witness.txt"):
        shutil.copy(folder / name, inner / name)
    net, prop, witness = (str(inner / name) for name in ("net.onnx", "prop.vnnlib", "witness.txt"))
    results = str(inner / "out.txt")
    done = falsifier("verify", prop, "--network", net, "--results", results, "--json", str(inner / "r.json"))
    assert done.returncode == 0, done.stderr
    assert Path(results).read_text().startswith("sat\n")
    assert falsifier("check", prop, witness, "--network", net).stdout.startswith("exact")
    assert falsifier("convert", prop, "--output", results).returncode == 0
    told = subprocess.run(
        [sys.executable, "-P", "-m", "falsifier", "explain", prop], env=ENVIRONMENT, capture_output=True, check=False
    )
    assert told.returncode == 0, told.stderr
    assert b"\xff" in told.stdout
    done = falsifier("verify", f"{prop}.gone", "--network", net)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_a_wall_clock_that_jumps(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jumps = count()
    monkeypatch.setattr(time, "time", lambda: (-1.0) ** next(jumps) * 1e9)
    assert main(["verify", "prop.vnnlib", "--network", "net.onnx", "--timeout", "20", "--results", "out.txt"]) == 0
    assert (folder / "out.txt").read_text().startswith("sat\n")
    assert main(["campaign", "instances.csv", "--out", "out"]) == 0
    assert ",sat," in (folder / "out" / "results.csv").read_text()


def test_two_campaigns_in_one_folder(folder: Path) -> None:
    words = [sys.executable, "-P", "-m", "falsifier", "campaign", "instances.csv", "--out", "out"]
    running = [
        subprocess.Popen(words, cwd=folder, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    told = [process.communicate(timeout=120)[1] for process in running]
    assert sorted(process.returncode for process in running) == [0, 2]
    refused = told[[process.returncode for process in running].index(2)]
    assert refused.startswith("falsifier: out: ")  # holds a record, or is in use
    assert refused.count("\n") == 1
    assert (folder / "out" / "results.csv").read_text().count("\n") == 1


_QUERY_2 = (
    "(vnnlib-version <2.0>)\n(declare-network N (declare-input X float32 [1]) (declare-output Y float32 [1]))\n"
    "(assert (>= X[0] 0.0))\n(assert (<= X[0] 1.0))\n"
)


@pytest.mark.parametrize(
    ("head", "line", "count"),
    [
        (QUERY, "(assert (<= Y_0 9.5))\n", 10**6),
        (_QUERY_2, "(assert (<= Y[0] 9.5))\n", 10**6),
        (_QUERY_2, "(assert (<= (+ X[0] Y[0]) 9.5))\n", 50_000),  # what the reference parser reads
    ],
)
def test_a_text_that_does_not_fit_into_memory(folder: Path, head: str, line: str, count: int) -> None:
    """Many asserts in an address space that holds the text, not what is made of it."""
    with (folder / "many.vnnlib").open("w") as file:
        file.write(head)
        file.write(line * count)
    code = (
        "import resource, sys; from falsifier.cli import main; import falsifier.query.v1, falsifier.query.v2, vnnlib; "
        "used = int(open('/proc/self/statm').read().split()[0]) * 4096 + (60 << 20); "
        "resource.setrlimit(resource.RLIMIT_AS, (used, used)); sys.exit(main(['explain', 'many.vnnlib']))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("falsifier: many.vnnlib: does not fit into memory")
    assert done.stderr.count("\n") == 1


def test_whoever_reads_the_answer_has_no_room(folder: Path) -> None:
    with open("/dev/full", "w") as full:
        for words in (["explain", "prop.vnnlib"], ["convert", "prop.vnnlib"], ["supports", "--onnx-operators"]):
            done = subprocess.run(
                [sys.executable, "-P", "-m", "falsifier", *words],
                cwd=folder,
                env=ENVIRONMENT,
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
            assert done.returncode != 0
            assert "Traceback" not in done.stderr
