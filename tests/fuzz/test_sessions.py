"""Sessions on disk: resumed, killed, refused where they do not fit; the command and its exit status."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest

from falsifier.errors import InputError
from falsifier.fuzz.entries import Entries
from falsifier.fuzz.run import Stop, fuzz
from falsifier.fuzz.settings import Settings

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small network of two outputs; NaN where the first input is negative."""
    rng = np.random.default_rng(0)
    ops: list[models.Step] = [
        models.gemm(np.eye(3) + 0.1 * rng.normal(size=(3, 3)), name="1"),
        ("Sqrt", [], {}),
        models.gemm(rng.normal(size=(2, 3)), name="2"),
    ]
    return models.save(models.chain(ops, [1, 3], [1, 2]), tmp_path_factory.mktemp("sessions") / "model.onnx")


def settings(model: Path, out: Path | None, **options: object) -> Settings:
    defaults: dict[str, object] = {"out": out, "seconds": 1e9, "max_evaluations": 5000, "lanes": 64}
    return Settings(model, **(defaults | options))  # type: ignore[arg-type]


def kept(folder: Path) -> int:
    database = sqlite3.connect(folder / "session.sqlite")
    try:
        return int(database.execute("select count(*) from entries").fetchone()[0])
    finally:
        database.close()


def test_a_session_goes_on_where_it_ended(model: Path, tmp_path: Path) -> None:
    first = fuzz(settings(model, tmp_path / "s"))
    assert set(first.hits) == {"nan-t1"}
    entries = kept(tmp_path / "s")
    assert entries == first.progress.entries - 1 > 5  # the start is not among them
    again = fuzz(settings(model, tmp_path / "s", resume=True))
    assert not again.hits  # known from before
    assert set(again.records) == {"nan-t1"}
    assert again.progress.covered >= first.progress.covered
    assert kept(tmp_path / "s") >= entries


def test_sessions_that_do_not_fit_are_said(model: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no session to resume"):
        fuzz(settings(model, tmp_path / "s", resume=True))
    fuzz(settings(model, tmp_path / "s", max_evaluations=100))
    with pytest.raises(InputError, match="holds a session already"):
        fuzz(settings(model, tmp_path / "s"))
    for changed, said in (
        ({"objective": "range:0,1"}, "was begun with --objective nonfinite, now it is range:0,1: give the same"),
        ({"ranges": {"": (0.0, 1.0)}}, r"was begun with --range \S.*, now it is 0,1: give the same"),
        ({"coverage": "none", "radius": None}, "was begun with --coverage nearest, now it is none"),
    ):
        with pytest.raises(InputError, match=said):
            fuzz(settings(model, tmp_path / "s", resume=True, **changed))


def test_a_session_against_another_model_is_another(tmp_path: Path) -> None:
    first, second, third = (
        models.save(models.affine([[1.0, 2.0], [2.0, k]]), tmp_path / f"{k:g}.onnx") for k in (1.0, 1.5, 1.75)
    )
    given: dict[str, Any] = {"objective": "disagree", "out": tmp_path / "s", "max_evaluations": 100, "seconds": 1e9}
    fuzz(Settings(first, against=second, **given))
    with pytest.raises(InputError, match="was begun with another --against: give the same, or another --out"):
        fuzz(Settings(first, against=third, resume=True, **given))
    with sqlite3.connect(tmp_path / "s" / "session.sqlite") as database:  # as a release wrote it that kept no digest
        (text,) = database.execute("select value from meta where key = 'identity'").fetchone()
        known = {name: value for name, value in json.loads(text).items() if name != "against"}
        database.execute("update meta set value = ? where key = 'identity'", (json.dumps(known),))
    database.close()
    fuzz(Settings(first, against=third, resume=True, **given))


@pytest.fixture(scope="module")
def session(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a session with entries and a hit."""
    out = tmp_path_factory.mktemp("session") / "s"
    fuzz(settings(model, out, max_evaluations=1000, threshold=1e-4))
    return out


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _overwritten(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[100 : len(data) : 7] = bytes(len(range(100, len(data), 7)))
    path.write_bytes(data)


def _text(path: Path) -> None:
    path.write_bytes(b"not a database, whatever its name says" * 50)


def _changed(statement: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with closing(sqlite3.connect(path)) as database, database:
            database.execute(statement)

    return change


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_cut, "is damaged"),
        (_overwritten, "is damaged"),
        (_text, "is damaged (file is not a database)"),
        (_changed("update entries set point = x'00' where id = (select max(id) from entries)"), "is damaged (entry "),
        (_changed("update entries set vector = 'text' where id = (select max(id) from entries)"), "is damaged (entry "),
        (_changed("update meta set value = '{' where key = 'progress'"), "is damaged"),
        (_changed("update meta set value = 'many' where key = 'runs'"), "is damaged ('many' runs)"),
        (_changed("update hits set record = '['"), "is damaged"),
        (_changed("drop table meta"), "is no session of falsifier fuzz: choose another --out"),
        (_changed("alter table entries rename column vector to other"), "cannot be used"),
    ],
)
def test_a_damaged_session_is_said_with_its_file_and_a_remedy(
    model: Path, session: Path, tmp_path: Path, damage: Callable[[Path], None], said: str
) -> None:
    shutil.copytree(session, tmp_path / "s")
    database = tmp_path / "s" / "session.sqlite"
    damage(database)
    before = database.read_bytes()
    with pytest.raises(InputError) as raised:
        fuzz(settings(model, tmp_path / "s", resume=True))
    text = str(raised.value)
    assert text.startswith(f"{database}: {said}"), text
    assert "another process" not in text
    assert "another --out" in text
    assert len(text.splitlines()) == 1
    if "no session" in said:
        assert database.read_bytes() == before


def test_a_session_in_use_is_said(model: Path, session: Path, tmp_path: Path) -> None:
    shutil.copytree(session, tmp_path / "s")
    with closing(sqlite3.connect(tmp_path / "s" / "session.sqlite", isolation_level=None)) as database:
        database.execute("pragma locking_mode = exclusive")
        database.execute("begin exclusive")
        with pytest.raises(InputError, match="another process is using it"):
            fuzz(settings(model, tmp_path / "s", resume=True))


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "falsifier", *arguments]


ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_signals_lose_no_more_than_a_second(model: Path, tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "s"
    process = subprocess.Popen(
        command("fuzz", str(model), "--out", str(out), "--budget", "100", "--quiet", "--threshold", "1e-4"),
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not ((out / "session.sqlite").exists() and list(out.glob("hits/*/hit.json"))):
        time.sleep(0.1)
    time.sleep(2.0)  # four times the span between two commits
    process.send_signal(number)
    stdout, _ = process.communicate(timeout=60)
    entries = kept(out)
    assert entries > 10
    if number is signal.SIGTERM:
        assert process.returncode == 0
        assert "a signal asked for it" in stdout
        assert json.loads((out / "report.json").read_text())["stop"] == "signal"
    report = fuzz(settings(model, out, resume=True, threshold=1e-4, max_evaluations=200))
    assert report.progress.entries >= entries
    assert set(report.records) == {"nan-t1"}


@pytest.mark.parametrize("objective", ["nonfinite", "range:-1000,1000"])
@pytest.mark.parametrize("most", [64, 997, 1000])
def test_a_cap_is_a_cap(model: Path, objective: str, most: int) -> None:
    """Also with mutators that evaluate points of their own; what is left does not do for one more child."""
    report = fuzz(settings(model, None, objective=objective, max_evaluations=most))
    assert most - 9 < report.progress.evaluations <= most
    assert report.stop is Stop.EVALUATIONS


def test_a_cap_below_the_starts_is_refused(model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "starts.npz", np.random.default_rng(0).uniform(size=(50, 1, 3)))
    with pytest.raises(InputError, match="--max-evaluations 49: the 50 starts alone would be more"):
        fuzz(settings(model, tmp_path / "s", inputs=tmp_path / "starts.npz", max_evaluations=49))
    assert not (tmp_path / "s").exists()
    report = fuzz(settings(model, tmp_path / "s", inputs=tmp_path / "starts.npz", max_evaluations=50))
    assert report.progress.evaluations == 50


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"prompt_length": 3}, "--prompt-length belongs to --objective words:FILE"),
        ({"generate": 3, "sample_seed": 1}, "--generate and --sample belong to --objective words:FILE"),
        ({"temperature": 0.5, "objective": "range:0,1"}, "--temperature belongs to --objective words:FILE"),
        ({"objective": "words:x", "radius": 1.0}, "--radius belongs to networks of numbers"),
        ({"objective": "words:x", "ranges": {"": (0.0, 1.0)}, "mutators": ("noise",)}, "--range and --mutators belong"),
        ({"objective": "words:x", "temperature": 0.5}, "--temperature belongs to --sample"),
        ({"against": "m.onnx"}, "--against belongs to --objective disagree"),
        ({"tolerance": 0.1, "objective": "top1"}, "--tolerance belongs to --objective disagree"),
        ({"coverage": "neurons", "threshold": 1.0}, "--threshold belongs to --coverage nearest"),
        ({"coverage": "none", "cover": ("t1",)}, "--cover belongs to a coverage, and there is none"),
    ],
)
def test_settings_that_say_nothing_here_are_refused(model: Path, options: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        fuzz(settings(model, None, **options))


@pytest.mark.parametrize(
    "options",
    [
        {"lanes": 0},
        {"max_evaluations": 0},
        {"max_evaluations": 1.5},
        {"causes": True},
        {"replays": -1},
        {"rng_seed": -1},
        {"seconds": float("nan")},
    ],
)
def test_counts_that_are_none_are_refused(model: Path, options: dict[str, object]) -> None:
    (name,) = options
    with pytest.raises(InputError, match=name):
        fuzz(settings(model, None, **options))


def test_the_command_and_its_exit_status(model: Path, tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(*arguments), env=ENVIRONMENT, cwd=tmp_path, capture_output=True, text=True, check=False
        )

    few = ("--max-evaluations", "3000", "--lanes", "64")
    done = run("fuzz", str(model), *few)
    assert done.returncode == 0, done.stderr
    assert "NaN in tensor 't1', of node 't1' (Sqrt) [model.fuzz/hits/nan-t1]" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 cause in 3")
    assert "the evaluations are used up" in done.stdout
    assert run("fuzz", str(model), *few, "--out", "b", "--exit-code").returncode == 1
    replayed = run("replay", "model.fuzz")
    assert replayed.returncode == 1
    assert "1 of 1 hit reproduces" in replayed.stdout
    done = run("fuzz", str(model), *few, "--out", "c", "--objective", "range:-1000,1000", "--json", "-")
    assert json.loads(done.stdout)["causes"] == []
    for arguments, said in (
        (("fuzz", "nothing.onnx"), "cannot be read"),
        (("fuzz", str(model), "--objective", "nonsense"), "no objective 'nonsense': choose one of nonfinite, disagree"),
        (("fuzz", str(model), "--against", str(model)), "belongs to --objective disagree"),
        (("fuzz", str(model), "--generate", "3"), "--generate belongs to --objective words:FILE"),
        (("quantize", str(model), "--to", "float16", "--per-channel"), "belong to --to int8"),
        (("replay", "model.fuzz", "--model", f"other={model}"), "--model other=: these hits have model"),
        (("fuzz", str(model), "--radius", "0.1"), "give them with --inputs"),
        (("fuzz", str(model), "--tolerance", "much"), "neither argmax nor a number"),
        (("replay", "nothing"), "there is no such folder"),
    ):
        done = run(*arguments)
        assert done.returncode == 2, arguments
        assert said in done.stderr, done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_entries_are_evicted_with_lineage_kept() -> None:
    starts = np.zeros((2, 1), np.float32)
    entries = Entries(starts, starts.copy(), limit=100)
    rng = np.random.default_rng(0)
    for i in range(500):
        parent = np.array([rng.integers(0, len(entries))])
        entries.add(np.full((1, 1), i, np.float32), np.zeros((1, 1), np.float32), parent, np.array([float(i)]))
    assert len(entries) <= 100
    assert entries.admitted == 502
    assert entries.evicted == 502 - len(entries)
    assert set(entries.oldest[: len(entries)].tolist()) <= {0, 1}
    known = entries.parent[: len(entries)]
    assert (known < np.arange(len(entries))).all()
    assert len(np.unique(entries.ids[: len(entries)])) == len(entries)
    assert (entries.points[: len(entries)] == 499).any()  # the best score stays
