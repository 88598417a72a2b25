"""The record of `falsifier campaign` from outside: killed and resumed, in use, damaged, exported, dealt and merged."""

from __future__ import annotations

import contextlib
import csv
import gzip
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest
from command import ENVIRONMENT, ROOT, falsifier

from falsifier.campaign.lock import FolderLock
from falsifier.cli import main

WORDS = ("campaign", "instances.csv", "--out", "out", "--category", "c")
GOLDEN = Path(__file__).resolve().parents[1] / "golden"
TABLES_1 = ("campaign", "instance", "attempt", "witness", "progress")
CAP = ("--max-evaluations", "3000")


def table(folder: Path, networks: int = 3, each: int = 8, timeout: float = 1000) -> None:
    """Queries about networks that are not quite linear: of each network every fourth query has no witness."""
    rows = []
    for k in range(networks):
        weight = [[1.0, 1.0 + k, 0.0], [0.0, -1.0, 2.0]]
        models.save(models.chain([models.gemm(weight), ("Relu", [], {})], [1, 3], [1, 2]), folder / f"net{k}.onnx")
        for i in range(each):
            bound = 3 + k if i % 4 == 3 else (2 + k) * (0.5 + 0.06 * i)
            text = models.declare(3, 2) + models.box([0] * 3, [1] * 3) + f"(assert (>= Y_0 {bound}))\n"
            (folder / f"q{k}_{i}.vnnlib").write_text(text)
            rows.append(f"net{k}.onnx,q{k}_{i}.vnnlib,{timeout}\n")
    (folder / "instances.csv").write_text("".join(rows))


def results(folder: Path) -> dict[str, str]:
    with (folder / "results.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert all(len(row) == 6 for row in rows)
    answers = {row[2]: row[4] for row in rows}
    assert len(answers) == len(rows)
    return answers


Run = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A command in this process, in the test's folder: its status, and its lines on stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, list[str]]:
        capsys.readouterr()
        return main(words), capsys.readouterr().err.splitlines()

    return run


def start(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "falsifier", *WORDS, *words]
    return subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stderr=subprocess.DEVNULL)


def kill_when(process: subprocess.Popen[bytes], ready: Callable[[], bool]) -> None:
    """Kill a campaign as soon as something holds, or let it come to its end."""
    begun = time.monotonic()
    while process.poll() is None and not ready() and time.monotonic() - begun < 60:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait(30)


def lines(folder: Path) -> int:
    try:
        return (folder / "out" / "results.csv").read_bytes().count(b"\n")
    except OSError:
        return 0


def test_killed_five_times_and_resumed_it_says_what_it_would_have_said(
    tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    table(tmp_path)
    assert run(*WORDS[:3], "whole", *WORDS[4:], *CAP)[0] == 0
    whole = results(tmp_path / "whole")
    database = tmp_path / "out" / "campaign.sqlite"
    moments: list[Callable[[], bool]] = [
        database.exists,
        lambda: lines(tmp_path) > 0,
        lambda: lines(tmp_path) > seen,
        lambda: (tmp_path / "out" / "c" / "net1_q1_0.counterexample.gz.part").exists(),
        lambda: lines(tmp_path) > seen,
    ]
    seen = 0
    for i, moment in enumerate(moments):
        with start(tmp_path, *CAP, *(["--resume"] if i else [])) as process:
            kill_when(process, moment)
        kept = results(tmp_path / "out") if lines(tmp_path) else {}
        assert len(kept) >= seen
        assert kept.items() <= whole.items()
        seen = len(kept)
        for path in (tmp_path / "out").glob("c/*.gz"):
            assert gzip.decompress(path.read_bytes()).endswith(b"))\n")
        with contextlib.closing(sqlite3.connect(database)) as opened:
            assert opened.execute("pragma integrity_check").fetchone() == ("ok",)
    with contextlib.closing(sqlite3.connect(database)) as opened:
        cut = opened.execute("select count(distinct session) from attempt where verdict is null").fetchone()[0]
        assert cut >= 2  # sessions that were in the middle of something
    assert run(*WORDS, *CAP, "--resume")[0] == 0
    assert results(tmp_path / "out") == whole
    assert not list((tmp_path / "out").rglob("*.part"))
    for query, verdict in whole.items():
        number, name = query[1], query.removesuffix(".vnnlib")
        witness = tmp_path / "out" / "c" / f"net{number}_{name}.counterexample.gz"
        assert witness.exists() == (verdict == "sat")
        if verdict == "sat":
            assert main(["check", str(tmp_path / query), str(witness), f"--network={tmp_path}/net{number}.onnx"]) == 0
            assert capsys.readouterr().out.startswith("exact")
    _, said = run(*WORDS, *CAP, "--resume")
    assert said[0] == "falsifier: out: 24 of 24 instances have their answer, 0 are run"


def test_resumed_over_other_files_new_rows_and_errors(tmp_path: Path, run: Run) -> None:
    table(tmp_path, networks=1, each=4)
    (tmp_path / "q0_2.vnnlib").rename(tmp_path / "away")
    run(*WORDS, *CAP)
    assert results(tmp_path / "out")["q0_2.vnnlib"] == "error"
    (tmp_path / "away").rename(tmp_path / "q0_2.vnnlib")
    (tmp_path / "q0_0.vnnlib").write_text((tmp_path / "q0_3.vnnlib").read_text())
    with (tmp_path / "instances.csv").open("a") as file:
        file.write("net0.onnx,./q0_1.vnnlib,5\n")
    status, (line,) = run(*WORDS, *CAP)
    assert status == 2
    assert "holds a record already: go on with --resume" in line
    status, said = run(*WORDS, *CAP, "--resume", "--retry", "unknown", "--rng-seed", "3")
    assert status == 0
    assert said[:2] == [
        "falsifier: out: goes on with --rng-seed 3 (0 before); what is decided stays",
        "falsifier: out: 1 of 5 instances has its answer, 4 are run (1 new, 2 with files or options that have changed)",
    ]
    assert results(tmp_path / "out") == {
        "q0_0.vnnlib": "unknown",
        "q0_1.vnnlib": "sat",
        "q0_2.vnnlib": "sat",
        "q0_3.vnnlib": "unknown",
        "./q0_1.vnnlib": "error",  # the same pair in other words
    }
    assert not (tmp_path / "out" / "c" / "net0_q0_0.counterexample.gz").exists()
    status, (line,) = run(*WORDS, *CAP, "--resume", "--require", "exact")
    assert status == 2
    assert "out: was begun with --require correct, now it is exact: give the same" in line
    status, (line,) = run(*WORDS, "--retry", "unknown")
    assert (status, line) == (2, "falsifier: --retry belongs to --resume, which is not given")


def test_a_folder_in_use_is_refused_by_name_and_free_for_readers(tmp_path: Path, run: Run) -> None:
    table(tmp_path, networks=1, each=4)
    assert run(*WORDS, *CAP)[0] == 0
    with FolderLock(tmp_path / "out"):
        for words in ((*WORDS, *CAP, "--resume"), ("export", "out")):
            done = falsifier(*words, cwd=tmp_path)
            assert done.returncode == 2
            (line,) = done.stderr.splitlines()
            assert line.startswith(f"falsifier: out: is in use by process {os.getpid()} on ")
        assert run("export", "out", "--out", "copy")[0] == 0
    assert results(tmp_path / "copy") == results(tmp_path / "out")
    assert run(*WORDS, *CAP, "--resume")[0] == 0  # the lock went with its holder


def test_exports_are_made_up_from_the_record(tmp_path: Path, run: Run) -> None:
    table(tmp_path, networks=1, each=4)
    assert run(*WORDS, *CAP)[0] == 0
    out = tmp_path / "out"
    before = {p.relative_to(out): p.read_bytes() for p in [out / "results.csv", *out.glob("c/*")]}
    assert len(before) == 4
    (out / "results.csv").write_text("lost\n")
    next(out.glob("c/*")).unlink()
    assert run("export", "out") == (0, ["falsifier: 4 rows and 3 witnesses are in out"])
    assert {p.relative_to(out): p.read_bytes() for p in [out / "results.csv", *out.glob("c/*")]} == before
    for target in ("out/c/..", "copy"):
        (tmp_path / "copy").mkdir(exist_ok=True)
        (tmp_path / "copy" / "results.csv").write_text("precious\n")
        status, (line,) = run("export", "out", "--out", target)
        assert status == 2
        assert "holds results already" in line


def test_a_record_of_the_first_release_is_gone_on_with(tmp_path: Path, run: Run) -> None:
    """Its tables, and the settings that it knew: those that came later were not given."""
    table(tmp_path, networks=1, each=4)
    assert run(*WORDS, *CAP)[0] == 0
    path = tmp_path / "out" / "campaign.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as new:
        rows = {name: new.execute(f"select * from {name}").fetchall() for name in TABLES_1}
        columns = {name: [c[1] for c in new.execute(f"pragma table_info({name})")] for name in TABLES_1}
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as old:
        old.executescript((GOLDEN / "campaign_record_1.sql").read_text())
        for name in TABLES_1:
            known = [c[1] for c in old.execute(f"pragma table_info({name})")]
            for row in rows[name]:
                values = dict(zip(columns[name], row, strict=True))
                if values.get("key") in ("settings", "sessions", "falsifier"):
                    values["value"] = _as_first_written(values["key"], json.loads(values["value"]))
                old.execute(
                    f"insert into {name} ({', '.join(known)}) values ({', '.join('?' * len(known))})",
                    [values[column] for column in known],
                )
        old.commit()
    before = results(tmp_path / "out")
    status, said = run(*WORDS, *CAP, "--resume")
    assert status == 0
    assert re.fullmatch(
        r"falsifier: out: goes on with falsifier \S+ \(0\.0\.1 before\); what is decided stays", said[0]
    )
    assert said[1] == "falsifier: out: 4 of 4 instances have their answer, 0 are run"
    assert results(tmp_path / "out") == before
    assert run("export", "out", "--out", "copy")[0] == 0
    assert results(tmp_path / "copy") == before


def _as_first_written(key: str, value: Any) -> str:
    if key == "falsifier":
        return json.dumps("0.0.1")
    for settings in [value] if key == "settings" else [session["settings"] for session in value]:
        del settings["budgets"]
    return json.dumps(value)


def _of_another_version(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("update campaign set value = '99' where key = 'schema'")
        database.commit()


def _another_programs(path: Path) -> None:
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("create table photo (name)")


def _truncated(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 4096 // 2 * 4096])


def _leading_elsewhere(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("update witness set path = '../../outside.gz'")
        database.commit()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (_of_another_version, "is a record of version 99, this falsifier reads version 1"),
        (_another_programs, "it holds other tables"),
        (lambda path: path.write_bytes(b"no database " * 1000), "is no record of a campaign, or a damaged one"),
        (_truncated, "damaged"),
        (lambda path: path.write_bytes(path.read_bytes()[:5000]), "damaged"),
        (_leading_elsewhere, "outside of its folder"),
    ],
)
def test_a_record_that_cannot_be_used_is_one_line(
    tmp_path: Path, spoil: Callable[[Path], object], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table(tmp_path, networks=1, each=4)
    words = ["campaign", str(tmp_path / "instances.csv"), "--out", str(tmp_path / "out"), *CAP]
    assert main(words) == 0
    spoil(tmp_path / "out" / "campaign.sqlite")
    capsys.readouterr()
    for command in ([*words, "--resume"], ["export", str(tmp_path / "out")]):
        assert main(command) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "campaign.sqlite: " in line or "the record" in line
        assert says in line
    assert not (tmp_path.parent / "outside.gz").exists()


@pytest.mark.parametrize(
    "words", [("export", "none"), ("export", "."), ("merge", "out", "none"), ("merge", "all", ".")]
)
def test_a_folder_without_a_record_is_one_line(run: Run, words: tuple[str, ...]) -> None:
    status, (line,) = run(*words)
    assert status == 2
    assert "holds no record of a campaign" in line


@pytest.mark.parametrize("kilobytes", [8, 60])
def test_a_full_disk_is_one_line_and_leaves_nothing_half_written(tmp_path: Path, run: Run, kilobytes: int) -> None:
    """No file may grow beyond a few kilobytes: the record cannot be made, or not be gone on with."""
    table(tmp_path, networks=1, each=12)
    code = (
        f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({kilobytes << 10}, {kilobytes << 10}))\n"
        f"import sys; from falsifier.cli import main; sys.exit(main({[*WORDS, *CAP]!r}))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("falsifier: out/campaign.sqlite: cannot be used: ")
    assert not list((tmp_path / "out").rglob("*.part"))
    assert run(*WORDS, *CAP, "--resume")[0] == 0
    assert len(results(tmp_path / "out")) == 12


def test_shards_run_apart_and_merged_are_the_whole(tmp_path: Path, run: Run) -> None:
    table(tmp_path, each=5)
    for i in (1, 2):
        assert run(*WORDS[:3], f"part{i}", *WORDS[4:], *CAP, "--shard", f"{i}/2")[0] == 0
    parts = [results(tmp_path / f"part{i}") for i in (1, 2)]
    assert sorted(map(len, parts)) in ([7, 8], [5, 10])
    status, said = run("merge", "all", "part1", "part2")
    assert status == 0
    assert said[-1].startswith("falsifier: 15 answers: ")
    merged = results(tmp_path / "all")
    assert merged == parts[0] | parts[1]
    assert list(merged) == [f"q{k}_{i}.vnnlib" for k in range(3) for i in range(5)]
    status, (line,) = run(*WORDS[:3], "part1", *WORDS[4:], *CAP, "--resume", "--shard", "2/2")
    assert status == 2
    assert "was begun with --shard 1/2, now there is --shard 2/2" in line
    status, said = run(*WORDS[:3], "all", *WORDS[4:], *CAP, "--resume")
    assert said[0] == "falsifier: all: 15 of 15 instances have their answer, 0 are run"


def test_samples_go_on_too_and_another_distance_is_another_question(tmp_path: Path, run: Run) -> None:
    table(tmp_path, networks=1, each=0)
    np.savez(tmp_path / "x.npz", x=np.array([[0.5, 0.5, 0.25], [0.9, 0.9, 0.0]]))
    words = ("campaign", "net0.onnx", "--dataset", "x.npz", "--out", "out", *CAP, "--epsilon")
    assert run(*words, "0.25")[0] == 0
    assert results(tmp_path / "out") == {"sample_0.vnnlib": "sat", "sample_1.vnnlib": "unknown"}
    assert run(*words, "0.25", "--resume")[1][0].endswith("2 of 2 instances have their answer, 0 are run")
    _, said = run(*words, "0.95", "--resume")
    assert said[0].endswith("0 of 2 instances have their answer, 2 are run (2 with files or options that have changed)")
    assert set(results(tmp_path / "out").values()) == {"sat"}


@pytest.mark.parametrize("part", ["3/2", "0/2", "1", "one/2", "1/"])
def test_parts_that_there_are_not(run: Run, part: str) -> None:
    status, (line,) = run(*WORDS, "--shard", part)
    assert status == 2
    assert "is not i/n, the i-th of n parts" in line


def test_the_database_is_opened_by_campaigns_alone() -> None:
    """Start-up is part of the product."""
    code = "import sys, falsifier.cli.verify, falsifier.falsify; sys.exit('sqlite3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, cwd=ROOT, check=False).returncode == 0
