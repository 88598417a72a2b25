"""Programs with the standard's command line: the contract, and every way to misbehave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command import falsifier
from fake_solvers import solver, still_running
from falsifier_adapters.standard_solver import StandardSolver

from falsifier.testing.adapters import AdapterContract, small_instance


class TestContract(AdapterContract):
    """This package's own command is such a program."""

    seconds = 3.0

    def make(self, settings: dict[str, Any]) -> StandardSolver:
        import sys

        return StandardSolver({"command": [sys.executable, "-P", "-m", "falsifier"], **settings})


def test_its_version_is_asked_for_by_the_list_alone(tmp_path: Path) -> None:
    """A hand-off does not spend a process on it."""
    program = tmp_path / "solver"
    program.write_text(f"#!/bin/sh\necho $1 >>{tmp_path}/asked\necho 1.2.3\n")
    program.chmod(0o755)
    availability = StandardSolver({"command": str(program)}).availability()
    assert availability.available
    assert not (tmp_path / "asked").exists()
    assert availability.told() == "1.2.3"
    assert (tmp_path / "asked").read_text() == "--version\n"


def test_a_program_that_cannot_be_started_is_unusable(tmp_path: Path) -> None:
    program = tmp_path / "solver"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    config = tmp_path / "adapters.toml"
    config.write_text(f'[fake]\nadapter = "standard_solver"\ncommand = "{program}"\n')
    done = falsifier("adapters", "--config", str(config))
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("fake ")]
    assert line.split(maxsplit=1)[1] == f"unusable: {program} cannot be started: No such file or directory"


def verified(folder: Path, answer: str, query: str = "holds", extra: str = "") -> tuple[str, str]:
    """stdout and stderr of `verify --then` a fake solver."""
    instance = small_instance(folder, query)
    program = solver(folder, answer)
    config = folder / "adapters.toml"
    config.write_text(f'[fake]\nadapter = "standard_solver"\ncommand = ["{program}"]\n{extra}\n')
    words = [
        "verify",
        str(instance.query),
        "--network",
        str(instance.networks[0].path),
        "--timeout",
        "20" if extra else "4",
    ]
    done = falsifier(*words, "--then-after", "0", "--then", "fake", "--config", str(config))
    assert done.returncode == 0, done.stderr
    assert still_running(folder) == []
    return done.stdout, done.stderr


def test_its_unsat_is_passed_on_as_its_own(tmp_path: Path) -> None:
    out, err = verified(tmp_path, "unsat")
    assert out == "unsat\n"
    assert "standard_solver (solver) claims that no input satisfies the query: answered unsat" in err


def test_its_sat_passes_the_door(tmp_path: Path) -> None:
    out, err = verified(tmp_path, "right", "violated")
    assert out == "sat\n((X_0 1.75)\n(Y_0 1.75))\n"
    assert "sat (exact)" in err


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        ("wrong sat", "claims sat, which the replay refuses: (>= Y_0 2.5) fails by 2.25"),
        ("sat without witness", "claims sat, without a witness that can be read"),
        ("silent", "gave no answer"),
        ("garbage", "which is no verdict"),
        ("crashing", "gave no answer; it was ended by signal 6: Traceback: it broke"),
        ("failing", "gave no answer; it ended with status 3: no licence"),
        ("hanging", "was stopped at the deadline"),
        ("deaf", "was stopped at the deadline"),
        ("breeding", "was stopped at the deadline"),
        ("eating", "MemoryError"),
    ],
)
def test_a_solver_that_misbehaves_costs_one_line(tmp_path: Path, answer: str, line: str) -> None:
    extra = "memory_gb = 0.3" if answer == "eating" else ""
    out, err = verified(tmp_path, answer, extra=extra)
    assert out in ("unknown\n", "timed-out\n")
    assert line in err
    assert len(err.splitlines()) <= 2


def test_a_solver_that_is_missing(tmp_path: Path) -> None:
    instance = small_instance(tmp_path, "holds")
    config = tmp_path / "adapters.toml"
    config.write_text('[fake]\nadapter = "standard_solver"\ncommand = "/no/such/solver"\n')
    words = ["verify", str(instance.query), "--network", str(instance.networks[0].path), "--max-evaluations", "50"]
    done = falsifier(*words, "--then", "fake", "--config", str(config))
    assert done.stdout == "unknown\n"
    assert "standard_solver: is not available here: install /no/such/solver" in done.stderr


def test_a_killed_run_leaves_no_solver_behind(tmp_path: Path) -> None:
    import signal
    import subprocess
    import sys
    import time

    from command import ENVIRONMENT

    instance = small_instance(tmp_path, "holds")
    program = solver(tmp_path, "breeding")
    config = tmp_path / "adapters.toml"
    config.write_text(f'[fake]\nadapter = "standard_solver"\ncommand = ["{program}"]\n')
    words = ["verify", str(instance.query), "--network", str(instance.networks[0].path), "--max-evaluations", "50"]
    command = [sys.executable, "-P", "-m", "falsifier", *words, "--then", "fake", "--config", str(config)]
    running = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    last = time.monotonic() + 30
    while len([line for line in still_running(tmp_path) if "falsifier" not in line]) < 3 and time.monotonic() < last:
        time.sleep(0.05)
    assert len(still_running(tmp_path)) > 1
    running.send_signal(signal.SIGTERM)
    out, _ = running.communicate(timeout=30)
    assert out == "unknown\n"
    last = time.monotonic() + 2
    while still_running(tmp_path) and time.monotonic() < last:
        time.sleep(0.05)
    assert still_running(tmp_path) == []
