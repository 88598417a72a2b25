"""The VNN-LIB project's configurable test solver behind the hand-off: its answers and its misbehaviour."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from falsifier_adapters.standard_solver import StandardSolver

from falsifier.handoff.hand_over import hand_over
from falsifier.instance import Instance
from falsifier.result import Result
from falsifier.testing.adapters import small_instance
from falsifier.verdict import StopReason, Verdict

pytest.importorskip("vnnlib_test_solver")

QUERY = """(vnnlib-version <2.0>)
(declare-network f (declare-input X float32 [1,1]) (declare-output Y float32 [1,1]))
(assert (>= X[0,0] 0.0))
(assert (<= X[0,0] 2.0))
(assert (>= Y[0,0] 1.5))
"""
ATTACK = Result(Verdict.UNKNOWN, StopReason.EXHAUSTED, "nothing was found")
CALL = [sys.executable, "-c", "import sys; from vnnlib_test_solver.cli import main; sys.exit(main())"]


def handed(folder: Path, rule: str) -> tuple[Result, list[str]]:
    """The result and what was told, for a rule of the solver's configuration."""
    instance: Instance = small_instance(folder, "violated")
    instance.query.write_text(QUERY)
    config = folder / "solver.toml"
    config.write_text(f'[solver]\nname = "test"\nversion = "1.0.0"\n\n[[rules]]\nmatch = "*"\n{rule}\n')
    adapter = StandardSolver({"command": [*CALL, "--config", str(config)]})
    told: list[str] = []
    networks = tuple(type(n)("f", n.path) for n in instance.networks)
    instance = Instance(networks, instance.query, 20.0)
    return hand_over(ATTACK, instance, adapter, time.monotonic() + 20, tell=told.append), told


@pytest.mark.parametrize(
    ("rule", "verdict", "says"),
    [
        ('result = "unsat"', Verdict.UNSAT, "answered unsat"),
        ('result = "unknown"', Verdict.UNKNOWN, "answered unknown"),
        ('result = "timed-out"', Verdict.UNKNOWN, "answered timed-out"),
        (
            'result = "sat"\nraw_stdout = "sat\\nX float32 [1,1]\\n1.75\\n"',
            Verdict.UNKNOWN,
            "claims sat, without a witness",
        ),
        ('result = "sat"\n[rules.assignments]\nX = [1.75]\nY = [1.75]', Verdict.SAT, "every assertion holds"),
        ('result = "sat"\n[rules.assignments]\nX = [0.5]\nY = [9.0]', Verdict.UNKNOWN, "which the replay refuses"),
        (
            'result = "sat"\nraw_stdout = "satisfiable!"',
            Verdict.UNKNOWN,
            "answered 'satisfiable!', which is no verdict",
        ),
        ('result = "sat"\ncrash = true', Verdict.UNKNOWN, "claims sat, without a witness"),
        ('result = "unsat"\nstderr = "noise"', Verdict.UNSAT, "answered unsat"),
        ('result = "unsat"\nexit_code = 3', Verdict.UNKNOWN, "answered unsat and ended with status 3"),
    ],
)
def test_what_it_answers(tmp_path: Path, rule: str, verdict: Verdict, says: str) -> None:
    result, told = handed(tmp_path, rule)
    assert result.verdict is verdict, told
    assert says in result.reason_text
    assert len(told) <= 1
