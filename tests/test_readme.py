"""Every command that the README shows in a `console` block runs, and prints the lines shown under it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Shown:
    command: str
    output: list[str]


def shown_commands() -> list[Shown]:
    text = (ROOT / "README.md").read_text()
    shown: list[Shown] = []
    for block in re.findall(r"^```console\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                shown.append(Shown(line[2:], []))
            else:
                shown[-1].output.append(line)
    return shown


def test_the_readme_shows_commands() -> None:
    assert len(shown_commands()) >= 5


@pytest.mark.parametrize("shown", shown_commands(), ids=lambda s: s.command[:60])
def test_command(shown: Shown, tmp_path: Path) -> None:
    """Lines shown under a command appear in its output in that order; `...` stands for anything within or between lines."""
    if shown.command.startswith("make "):
        pytest.skip("this is what runs the tests")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        ["bash", "-c", shown.command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    pattern = r"[\s\S]*?".join(
        re.escape(line.strip()).replace(re.escape("..."), ".*") for line in shown.output if line.strip() not in ("", "...")
    )
    assert re.search(pattern, done.stdout), f"not found in the output:\n{done.stdout}\n{done.stderr}"
