"""`verify --portfolio` and `--budgets`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command import ENVIRONMENT, ROOT
from command import falsifier as command

QUERY = [str(ROOT / "examples" / "digits_violated.vnnlib"), "--network", str(ROOT / "examples" / "digits.onnx")]


ROBUST = [str(ROOT / "examples" / "digits_robust.vnnlib"), *QUERY[1:], "--max-evaluations", "2000"]


@pytest.mark.parametrize("portfolio", ["paper", "fuzzing"])
def test_a_portfolio_by_name_needs_no_torch(portfolio: str, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was imported')")
    arguments = ["verify", *ROBUST, "--portfolio", portfolio, "--json", "out.json"]
    code = f"import sys; sys.path.insert(0, '.'); from falsifier.cli import main; sys.exit(main({arguments!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "unknown\n"
    stages = json.loads((tmp_path / "out.json").read_text())["stages"]
    assert set(stages) == {portfolio} | ({"probe"} if portfolio == "fuzzing" else set())
    assert stages[portfolio]["notes"]["history"][-1]["evaluations"] > 1000


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--portfolio", "quick"], "unknown portfolio 'quick': choose one of fuzzing, paper, restarts, standard"),
        (["--portfolio", "nowhere:stages"], "no module 'nowhere'"),
        (["--budgets", "missing.npy"], "missing.npy: cannot be read"),
        (["--budgets", "short.npy"], "short.npy: 2 budgets, the query has 64 inputs"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(options: list[str], says: str, tmp_path: Path) -> None:
    np.save(tmp_path / "short.npy", np.ones(2))
    done = command("verify", *QUERY, *options, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert says in done.stderr


def test_no_budget_means_no_witness(tmp_path: Path) -> None:
    np.save(tmp_path / "none.npy", np.zeros((1, 1, 8, 8)))
    done = command("verify", *QUERY, "--budgets", "none.npy", "--max-evaluations", "1000", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout == "unknown\n"
