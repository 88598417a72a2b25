"""docs/fuzzing.md: its files are made, its commands run and print what is shown, its Python runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "fuzzing.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)


def test_the_tutorial_runs(tmp_path: Path) -> None:
    environment = os.environ | {
        "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }

    def run(command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    scripts = []
    for block in blocks("python"):
        name = re.match(r"# (\w+\.py)\n", block)
        if name is None:
            scripts.append(block)
        else:
            (tmp_path / name.group(1)).write_text(block)
    assert {p.name for p in tmp_path.iterdir()} == {"sensors.py", "make_model.py"}
    shown: list[tuple[str, list[str]]] = []
    for line in "".join(blocks("console")).splitlines():
        if line.startswith("$ "):
            shown.append((line[2:], []))
        else:
            shown[-1][1].append(line)
    assert len(shown) == 3
    for command, expected in shown:
        output = run(command)
        pattern = r"[\s\S]*?".join(re.escape(e).replace(re.escape("..."), ".*") for e in expected)
        assert re.search(pattern, output), output
    (script,) = scripts
    (tmp_path / "again.py").write_text(script)
    assert "sensors:jump-warm" in run("python again.py")
