"""Commands that pages show in `console` blocks: a line `$ COMMAND`, and below it what it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Shown:
    command: str
    output: list[str]


def blocks(text: str, language: str) -> list[str]:
    """What stands in the fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def shown_blocks(text: str) -> list[list[Shown]]:
    """The commands of each block, without blocks that begin with `make`: that is what runs the tests."""
    found: list[list[Shown]] = []
    for block in blocks(text, "console"):
        shown: list[Shown] = []
        for line in block.splitlines():
            if line.startswith("$ "):
                shown.append(Shown(line[2:], []))
            else:
                shown[-1].output.append(line)
        if not shown[0].command.startswith("make "):
            found.append(shown)
    return found


def run_shown(shown: list[Shown], folder: Path, **environment: str) -> None:
    """Run commands in a folder: each exits with 0 and prints the lines shown in that order; `...` is anything."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for one in shown:
        done = subprocess.run(
            ["bash", "-c", one.command],
            cwd=folder,
            env={**os.environ, "PATH": path, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{one.command}\n{done.stdout}\n{done.stderr}"
        lines = [line.strip() for line in one.output if line.strip() not in ("", "...")]
        pattern = r"[\s\S]*?".join(re.escape(line).replace(re.escape("..."), ".*") for line in lines)
        assert re.search(pattern, done.stdout), f"{one.command}\nnot in the output:\n{done.stdout}\n{done.stderr}"
