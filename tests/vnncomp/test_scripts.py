"""The competition's scripts: a valid answer in the results file whatever happens, status 0, nothing left running."""

from __future__ import annotations

import gzip
import signal
import subprocess
import time
import uuid
from pathlib import Path

import models
import pytest
from bad_input import BAD, spoil
from bad_queries import MISTAKES, UNKNOWN, models_for
from fake_solvers import solver
from scripts import SCRIPTS, STALE, environment, finish, run_instance, start
from several_networks import FALLS, bent

from falsifier.query import parse, read
from falsifier.query.convert import to_2
from falsifier.query.write import write
from falsifier.witness.text import read_witness

OPEN = ("timeout", "unknown")


@pytest.fixture
def never(tmp_path: Path) -> Path:
    """A folder with a query that no input satisfies: relu(x) + 1 <= 0."""
    net = models.chain([("Relu", [], {}), ("Add", [models.constant("one", [1.0])], {})], [1, 1], [1, 1])
    models.save(net, tmp_path / "net.onnx")
    text = models.declare(1, 1) + models.box([-1], [1]) + "(assert (<= Y_0 0.0))\n"
    (tmp_path / "prop.vnnlib").write_text(text)
    return tmp_path


@pytest.fixture
def easy(tmp_path: Path) -> Path:
    """A folder with a query that the centre of the box satisfies: x >= 0 on [0, 1]."""
    models.save(models.identity(), tmp_path / "net.onnx")
    (tmp_path / "prop.vnnlib").write_text(models.declare(1, 1) + models.box([0], [1]) + "(assert (>= Y_0 0.25))\n")
    return tmp_path


def test_sat_with_a_witness(easy: Path) -> None:
    outcome = run_instance("net.onnx", "prop.vnnlib", "20", easy)
    assert (outcome.status, outcome.word) == (0, "sat")
    witness = read_witness(read(easy / "prop.vnnlib"), outcome.results or "")
    assert 0.25 <= witness.inputs[0][0] <= 1
    assert sorted(path.name for path in easy.iterdir()) == ["net.onnx", "out.txt", "prop.vnnlib"]
    assert outcome.alive() == []


@pytest.mark.parametrize("timeout", ["0.2", "1", "3", "1.5\r"])
def test_stale_sat_never_survives(never: Path, timeout: str) -> None:
    outcome = run_instance("net.onnx", "prop.vnnlib", timeout, never)
    assert outcome.status == 0
    assert outcome.word in OPEN
    assert outcome.alive() == []


def test_unsat_on_an_empty_input_set(easy: Path) -> None:
    (easy / "prop.vnnlib").write_text(models.declare(1, 1) + models.box([0.6], [0.4]) + "(assert (>= Y_0 0.0))\n")
    outcome = run_instance("net.onnx", "prop.vnnlib", "20", easy)
    assert (outcome.status, outcome.results) == (0, "unsat\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("after", [0.05, 0.3, 1.0])
def test_a_signal_leaves_a_valid_file_and_no_process(never: Path, after: float, number: signal.Signals) -> None:
    mark = str(uuid.uuid4())
    (never / "out.txt").write_text(STALE)
    process = start(["net.onnx", "prop.vnnlib", "out.txt", "30"], never, mark)
    time.sleep(after)
    process.send_signal(number)
    outcome = finish(process, never, mark)
    assert outcome.alive() == []
    assert sorted(path.name for path in never.iterdir()) == ["net.onnx", "out.txt", "prop.vnnlib"]
    if outcome.results == STALE:  # the signal came before the script's first line ran
        assert outcome.status != 0
    else:
        assert outcome.status == 0
        assert outcome.word in OPEN


@pytest.mark.parametrize("results", ["missing/out.txt", "prop.vnnlib/out.txt"])
def test_unwritable_results_are_told_at_once(never: Path, results: str) -> None:
    (never / "trap").touch()
    outcome = run_instance("net.onnx", "prop.vnnlib", "30", never, results)
    assert outcome.status != 0
    told = [line for line in outcome.stderr.splitlines() if not line.startswith("+")]
    assert len(told) == 1
    assert results in told[0]
    assert "verify" not in outcome.stderr  # no search was started
    assert outcome.alive() == []


def test_blanks_other_letters_and_gzip(easy: Path) -> None:
    folder = easy / "p q"
    folder.mkdir()
    (folder / "prop é.vnnlib.gz").write_bytes(gzip.compress((easy / "prop.vnnlib").read_bytes()))
    (folder / "net.onnx.gz").write_bytes(gzip.compress((easy / "net.onnx").read_bytes()))
    before = sorted(path.name for path in folder.iterdir())
    outcome = run_instance("./p q/net.onnx.gz", "./p q/prop é.vnnlib.gz", "20\r", easy, "the result.txt")
    assert (outcome.status, outcome.word) == (0, "sat")
    assert sorted(path.name for path in folder.iterdir()) == before


def test_networks_as_a_python_literal(easy: Path) -> None:
    outcome = run_instance("[('f', './net.onnx')]", "prop.vnnlib", "20", easy)
    assert (outcome.status, outcome.word) == (0, "sat")


@pytest.mark.parametrize(
    "literal",
    [
        "[('f', './net.onnx'), ('g', './net.onnx')]",
        "[('g', './copy.onnx'), ('f', 'net.onnx')]\r",
        "[('f', './copy.onnx.gz'), ('g', 'net.onnx')]",
        "[('f', './net.onnx')]",
    ],
)
def test_two_copies_of_a_network(tmp_path: Path, literal: str) -> None:
    """The copy's own file may be given or not; it counts as the same by what it holds."""
    data = bent().SerializeToString()
    for name, content in (("net.onnx", data), ("copy.onnx", data), ("copy.onnx.gz", gzip.compress(data))):
        (tmp_path / name).write_bytes(content)
    (tmp_path / "prop.vnnlib").write_text(FALLS)
    outcome = run_instance(literal, "prop.vnnlib", "20", tmp_path)
    assert (outcome.status, outcome.word) == (0, "sat")
    x, v = (values[0] for values in read_witness(read(tmp_path / "prop.vnnlib"), outcome.results or "").inputs)
    assert 2 < x <= 3
    assert v < x


@pytest.mark.parametrize(
    "literal", ["net.onnx[", "[('f', 'net.onnx'), ('h', 'net.onnx')]", "[('g', 'net.onnx')]", "[]", "[('f', 'g')]"]
)
def test_networks_that_do_not_fit_the_query(tmp_path: Path, literal: str) -> None:
    (tmp_path / "net.onnx").write_bytes(bent().SerializeToString())
    (tmp_path / "prop.vnnlib").write_text(FALLS)
    outcome = run_instance(literal, "prop.vnnlib", "20", tmp_path)
    assert (outcome.status, outcome.results) == (0, "error\n")


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_an_error_in_the_file(easy: Path, name: str) -> None:
    outcome = run_instance(*spoil(name, easy), "20", easy)
    assert (outcome.status, outcome.results) == (0, "unknown\n" if name == "unbounded input" else "error\n")
    assert "Traceback" not in outcome.stderr
    told = [line for line in outcome.stderr.splitlines() if not line.startswith("+")]
    assert len(told) == 1, outcome.stderr


@pytest.mark.parametrize("timeout", ["", "soon", "-3", "nan"])
def test_bad_time_limit(easy: Path, timeout: str) -> None:
    outcome = run_instance("net.onnx", "prop.vnnlib", timeout, easy)
    assert (outcome.status, outcome.results) == (0, "error\n")


def test_rng_seed_comes_from_the_environment(easy: Path) -> None:
    environment_ = environment() | {"FALSIFIER_RNG_SEED": "no number"}
    command = [str(SCRIPTS / "run_instance.sh"), "v1", "test", "net.onnx", "prop.vnnlib", "out.txt", "20"]
    done = subprocess.run(command, cwd=easy, env=environment_, capture_output=True, text=True, check=False)
    assert (done.returncode, (easy / "out.txt").read_text()) == (0, "error\n")
    assert "no number" in done.stderr


def test_prepare_leaves_nothing(easy: Path) -> None:
    before = {path.name: path.read_bytes() for path in easy.iterdir()}
    command = [str(SCRIPTS / "prepare_instance.sh"), "v1", "test", "net.onnx", "prop.vnnlib"]
    done = subprocess.run(
        command, cwd=easy, env=environment() | {"FALSIFIER_WORKER": "1"}, capture_output=True, check=False
    )
    assert done.returncode == 0
    assert {path.name: path.read_bytes() for path in easy.iterdir()} == before


@pytest.mark.parametrize("name", ["index too large", "network superfluous", "another copy", "input without bounds"])
def test_mistakes_in_2_0_queries(tmp_path: Path, name: str) -> None:
    models_for(tmp_path)
    (tmp_path / "prop.vnnlib").write_text(MISTAKES[name].text)
    literal = str([tuple(given.split("=")) for given in MISTAKES[name].given])
    outcome = run_instance(literal, "prop.vnnlib", "20", tmp_path)
    assert (outcome.status, outcome.results) == (0, "unknown\n" if name in UNKNOWN else "error\n")
    told = [line for line in outcome.stderr.splitlines() if not line.startswith("+")]
    assert len(told) == 1, outcome.stderr


@pytest.mark.parametrize(("folder", "version"), [("2.0", 1), ("1.0", 2)])
def test_the_text_decides_the_version_not_the_folder(tmp_path: Path, folder: str, version: int) -> None:
    """As in the competition's benchmark folders, 1.0/vnnlib and 2.0/vnnlib beside each other's onnx."""
    base = tmp_path / "benchmarks" / "test" / folder
    models.save(models.identity(), base / "onnx" / "net.onnx")
    text = models.declare(1, 1) + models.box(["0"], ["1e0"]) + "(assert (>= Y_0 25e-2))\n"
    text = text if version == 1 else write(to_2(parse(text)))
    (base / "vnnlib").mkdir()
    (base / "vnnlib" / "prop.vnnlib").write_text(text)
    onnx, prop = (f"./benchmarks/test/{folder}/{name}" for name in ("onnx/net.onnx", "vnnlib/prop.vnnlib"))
    outcome = run_instance(onnx, prop, "20", tmp_path)
    assert (outcome.status, outcome.word) == (0, "sat")
    assert (outcome.results or "").startswith("sat\n((X_0 " if version == 1 else "sat\nX real [1]\n")
    assert run_instance(f"[('N', '{onnx}')]", prop, "20", tmp_path).word == "sat"


def test_what_stays_open_is_handed_over(never: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of the scripts name a solver; the answer of this one is its own."""
    program = solver(never, "unsat")
    (never / "adapters.toml").write_text(f'[fake]\nadapter = "standard_solver"\ncommand = ["{program}"]\n')
    monkeypatch.setenv("FALSIFIER_THEN", "fake")
    monkeypatch.setenv("FALSIFIER_CONFIG", "adapters.toml")
    monkeypatch.setenv("FALSIFIER_THEN_AFTER", "1")
    outcome = run_instance("net.onnx", "prop.vnnlib", "20", never)
    assert (outcome.status, outcome.word) == (0, "unsat")
    assert "standard_solver (solver) claims that no input satisfies the query" in outcome.stderr
    assert outcome.alive() == []


def test_the_submission_file_holds_what_the_system_asks_for() -> None:
    """The flags are booleans; the machine image is a choice of the form."""
    lines = [line for line in (SCRIPTS / "config.yaml").read_text().splitlines() if not line.startswith("#")]
    values = dict(line.split(": ", 1) for line in lines)
    flags = {"manual_installation_step"} | {
        f"run_{what}_as_root" for what in ("installation_script", "post_installation_script", "toolkit")
    }
    assert set(values) == {"name", "scripts_dir", "description"} | flags
    assert {values[flag] for flag in flags} == {"False"}
    assert (SCRIPTS.parent / values["scripts_dir"]).samefile(SCRIPTS)


@pytest.mark.parametrize("name", ["FALSIFIER_CONFIG", "FALSIFIER_THEN_AFTER"])
def test_settings_of_a_hand_off_that_nobody_asked_for_cost_a_line(
    easy: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "1")
    outcome = run_instance("net.onnx", "prop.vnnlib", "60", easy)
    assert (outcome.status, outcome.word) == (0, "sat")
    assert "do nothing without FALSIFIER_THEN, which is empty" in outcome.stderr
    monkeypatch.delenv(name)
    assert "FALSIFIER_THEN, which" not in run_instance("net.onnx", "prop.vnnlib", "60", easy).stderr


@pytest.mark.parametrize(
    ("script", "words", "said"),
    [
        ("prepare_instance.sh", [], "expected v1 CATEGORY ONNX VNNLIB, found: "),
        ("prepare_instance.sh", ["v1", "test", "net.onnx"], "found: 'v1' 'test' 'net.onnx'"),
        ("prepare_instance.sh", ["v2", "test", "net.onnx", "prop.vnnlib"], "expected v1 CATEGORY ONNX VNNLIB"),
        (
            "run_instance.sh",
            ["v1", "test", "net.onnx", "prop.vnnlib"],
            "expected v1 CATEGORY ONNX VNNLIB RESULTS TIMEOUT",
        ),
    ],
)
def test_calls_that_are_none_say_what_is_expected(easy: Path, script: str, words: list[str], said: str) -> None:
    """Nothing is started for them, and nothing written."""
    before = sorted(easy.iterdir())
    done = subprocess.run(
        ["bash", str(SCRIPTS / script), *words], cwd=easy, capture_output=True, text=True, timeout=60, check=False
    )
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1
    assert line.startswith(f"{script}: ")
    assert said in line
    assert sorted(easy.iterdir()) == before
