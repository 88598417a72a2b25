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


def shown_blocks() -> list[list[Shown]]:
    text = (ROOT / "README.md").read_text()
    blocks: list[list[Shown]] = []
    for block in re.findall(r"^```console\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        shown: list[Shown] = []
        for line in block.splitlines():
            if line.startswith("$ "):
                shown.append(Shown(line[2:], []))
            else:
                shown[-1].output.append(line)
        if not shown[0].command.startswith("make "):  # that is what runs the tests
            blocks.append(shown)
    return blocks


def test_the_readme_shows_commands() -> None:
    assert sum(len(block) for block in shown_blocks()) >= 5


@pytest.mark.parametrize("block", shown_blocks(), ids=lambda block: block[0].command[:60])
def test_block(block: list[Shown], tmp_path: Path) -> None:
    """Lines shown under a command appear in its output in that order; `...` stands for anything."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TMPDIR": str(tmp_path)}
    for shown in block:
        done = subprocess.run(
            ["bash", "-c", shown.command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        lines = [line.strip() for line in shown.output if line.strip() not in ("", "...")]
        pattern = r"[\s\S]*?".join(re.escape(line).replace(re.escape("..."), ".*") for line in lines)
        assert re.search(pattern, done.stdout), f"not found in the output:\n{done.stdout}\n{done.stderr}"
