"""The tutorial's files and commands: written to a folder and run there, output compared with what is shown."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from test_readme import ROOT

PAGE = ROOT / "docs" / "tutorial-search.md"
BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)


def test_the_tutorial_runs(tmp_path: Path) -> None:
    for example in ("digits.onnx", "digits_violated.vnnlib"):
        shutil.copy(ROOT / "examples" / example, tmp_path)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TMPDIR": str(tmp_path)}
    ran = 0
    for language, file, text in BLOCK.findall(PAGE.read_text()):
        if file:
            (tmp_path / file).write_text(text)
            continue
        assert language == "console"
        for command, shown in re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", text, flags=re.MULTILINE):
            done = subprocess.run(
                ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            lines = [line.strip() for line in shown.splitlines() if line.strip() not in ("", "...")]
            pattern = r"[\s\S]*?".join(re.escape(line).replace(re.escape("..."), ".*") for line in lines)
            assert re.search(pattern, done.stdout), f"{command}\n{done.stdout}\n{done.stderr}"
            ran += 1
    assert ran == 4
