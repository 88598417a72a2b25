"""The public suite for solvers of VNN-LIB 2.0: every counterexample is found, no test is answered wrongly."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("vnntest", reason="vnnlib-satisfactory is not installed")

from satisfactory import CHECKS, REFUSED, Case, asked, compliance, outcome, written

from falsifier.cli import main

SOLVER = str(Path(sys.executable).parent / "falsifier")
FEW = "400"  # evaluations for tests without a counterexample


@pytest.fixture(scope="module")
def tests(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    return list(written(tmp_path_factory.mktemp("suite"), lambda name, expected: True))


def answered(test: Case, capsys: pytest.CaptureFixture[str], extra: Sequence[str] = ()) -> str:
    """What this process answers, without starting another."""
    status = main(["verify", *test.arguments, "--timeout", "60.0", *extra])
    return outcome(capsys.readouterr().out.split("\n")[0], status, test.expected)


def test_every_counterexample_is_found(tests: list[Case], capsys: pytest.CaptureFixture[str]) -> None:
    sat = [test for test in tests if test.expected == "sat"]
    assert len(sat) == 86
    assert [test.name for test in sat if answered(test, capsys) != "pass"] == []


def test_no_answer_is_wrong(tests: list[Case], capsys: pytest.CaptureFixture[str]) -> None:
    unsat = [test for test in tests if test.expected == "unsat"]
    assert len(unsat) == 92
    found = {test.name: answered(test, capsys, ["--max-evaluations", FEW]) for test in unsat}
    assert [name for name, what in found.items() if what == "fail"] == []
    assert [name for name, what in found.items() if what == "error"] == list(REFUSED)


@pytest.mark.parametrize("name", ["hidden02", "maxpool03", "network_isomorphic01"])
def test_the_command_answers(name: str, tests: list[Case]) -> None:
    """Started as the suite does it; whether a process is up within 5 seconds is the machine's affair."""
    (test,) = (test for test in tests if test.name == name)
    answer = asked(SOLVER, test, 60.0)
    assert answer.outcome == ("error" if name in REFUSED else "pass"), answer


def test_compliance() -> None:
    assert compliance(SOLVER) == dict.fromkeys(CHECKS, True)


@pytest.mark.whole
def test_the_whole_suite(tests: list[Case]) -> None:
    answers = [asked(SOLVER, test, 5.0) for test in tests]
    assert [a for a in answers if a.outcome == "fail"] == []
    assert {a.name for a in answers if a.outcome == "error"} <= set(REFUSED)
    assert [a for a in answers if a.expected == "sat" and a.outcome != "pass"] == []
