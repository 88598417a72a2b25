"""Real companions of real searches: what they find, and that none outlives its search."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import troupe
from command import ENVIRONMENT, falsifier
from scenes import NEVER, Scene, write

from falsifier import Verdict, falsify

MODULE = "falsifier.worker.companion"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An instance whose witness is the companions' to find, and the way to its portfolio."""
    troupe.instance(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(troupe.TESTS.parent), str(troupe.TESTS)]))
    return tmp_path


def start(folder: Path, *options: str, **environment: str) -> subprocess.Popen[str]:
    """`verify` in a process, with one companion."""
    words = ["verify", "prop.vnnlib", "--network=net.onnx", "--portfolio=troupe:stages", "--workers=2", *options]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "falsifier", *words],
        cwd=folder,
        env=ENVIRONMENT | {"PYTHONPATH": os.environ["PYTHONPATH"], "TROUPE": "-0.5"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def children(pid: int) -> list[int]:
    """The companions of a process that live."""
    found = []
    for child in troupe.running(MODULE):
        try:
            stat = Path(f"/proc/{child}/stat").read_text()
        except OSError:
            continue
        if int(stat.rpartition(")")[2].split()[1]) == pid:
            found.append(child)
    return found


def alive(pid: int) -> bool:
    return pid in troupe.running(MODULE)


def one_of(process: subprocess.Popen[str]) -> int:
    """The companion of a process, once it searches: it has lowered its priority."""
    assert troupe.eventually(lambda: bool(children(process.pid)) or process.poll() is not None)
    (child,) = children(process.pid)
    return child


def test_a_companion_finds_what_the_main_process_does_not(folder: Path) -> None:
    network, query = folder / "net.onnx", folder / "prop.vnnlib"
    result = falsify(network, query, portfolio="troupe:stages", workers=2, timeout=troupe.PATIENCE)
    assert result.verdict is Verdict.SAT
    assert result.companions is not None
    assert result.companions["found"] == 1
    assert result.companions["lost"] == 0
    assert result.stage == "waits"
    assert result.class_ == "exact"
    assert troupe.eventually(lambda: not children(os.getpid()))


def test_a_witness_of_the_published_rule_is_kept_while_the_search_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nearest float32 to 0.1 lies beyond the bound as written, and what is written has no witness."""
    monkeypatch.setenv("TROUPE", "0.1")
    network, query = troupe.instance(folder, "0.1", "0.1")
    result = falsify(network, query, portfolio="troupe:stages", workers=2, timeout=troupe.PATIENCE)
    assert result.verdict is Verdict.SAT
    assert result.class_ == "correct"
    assert result.companions is not None
    assert result.companions["lost"] == 0


def test_the_command_says_who_found_it(folder: Path) -> None:
    process = start(folder, f"--timeout={troupe.PATIENCE:g}", "--json=out.json", TROUPE="0.75")
    stdout, stderr = process.communicate(timeout=2 * troupe.PATIENCE)
    assert stdout.startswith("sat\n")
    assert ", found by companion 1 of 1" in stderr
    record: dict[str, Any] = json.loads((folder / "out.json").read_text())
    assert record["companions"]["found"] == 1
    assert not children(process.pid)


def test_by_default_a_cap_on_evaluations_has_no_company(folder: Path) -> None:
    words = ["verify", "prop.vnnlib", "--network=net.onnx", "--portfolio=troupe:stages", "--max-evaluations=300"]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "falsifier", *words, "--json=-"],
        cwd=folder,
        env=ENVIRONMENT | {"PYTHONPATH": os.environ["PYTHONPATH"], "TROUPE": "-0.5"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["companions"] is None


def test_killed_with_the_main_process(folder: Path) -> None:
    process = start(folder, "--timeout=600")
    child = one_of(process)
    process.kill()
    process.communicate()
    assert troupe.eventually(lambda: not alive(child))


@pytest.mark.parametrize("stopped", [False, True])
def test_ended_by_a_signal_to_the_main_process(folder: Path, stopped: bool) -> None:
    """Also where it does nothing any more, as inside a library that does not return."""
    process = start(folder, "--timeout=600", "--results=out.txt")
    child = one_of(process)
    if stopped:
        os.kill(child, signal.SIGSTOP)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=troupe.PATIENCE)
    assert (folder / "out.txt").read_text() == "unknown\n"
    assert troupe.eventually(lambda: not alive(child))


def test_one_that_hangs_does_not_hold_up_the_deadline(folder: Path) -> None:
    process = start(folder, "--timeout=12", "--results=out.txt")
    child = one_of(process)
    os.kill(child, signal.SIGSTOP)
    process.communicate(timeout=troupe.PATIENCE)
    assert (folder / "out.txt").read_text() == "timeout\n"
    assert troupe.eventually(lambda: not alive(child))


def test_one_that_is_killed_costs_nothing(folder: Path) -> None:
    process = start(folder, "--timeout=12", "--json=out.json")
    os.kill(one_of(process), signal.SIGKILL)
    process.communicate(timeout=troupe.PATIENCE)
    record = json.loads((folder / "out.json").read_text())
    assert record["verdict"] == "timeout"
    assert record["companions"] == record["companions"] | {"started": 1, "lost": 1, "found": None}


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_ended_with_the_scripts(tmp_path: Path, warm: bool, number: signal.Signals) -> None:
    folder, runtime = tmp_path / "instance", tmp_path / "runtime"
    folder.mkdir()
    runtime.mkdir()
    write(folder, NEVER)
    scene = Scene(folder, runtime, {"FALSIFIER_PROCESSES": "2", **({} if warm else {"FALSIFIER_WORKER": "off"})})
    scene.prepare()
    process = scene.start(timeout="600")
    assert troupe.eventually(lambda: bool(set(troupe.running(MODULE)) & set(scene.processes())))
    process.send_signal(number)
    process.communicate(timeout=troupe.PATIENCE)
    assert scene.gone()


def test_what_the_first_points_decide_brings_up_nothing(tmp_path: Path) -> None:
    network, query = troupe.instance(tmp_path)
    code = f"""
import sys
from falsifier import falsify
result = falsify({str(network)!r}, {str(query)!r}, workers="auto", timeout=60)
assert result.verdict.value == "sat" and result.companions is None
brought = [name for name in ("falsifier.companions", "falsifier.worker", "falsifier.machine") if name in sys.modules]
assert not brought, brought
"""
    subprocess.run([sys.executable, "-c", code], check=True, env=ENVIRONMENT)


def test_a_number_of_processes_is_one(tmp_path: Path) -> None:
    troupe.instance(tmp_path)
    done = falsifier("verify", "prop.vnnlib", "--network=net.onnx", "--workers=0", cwd=tmp_path)
    assert done.returncode == 2
    assert "--workers" in done.stderr
