"""The tutorial's files and commands: written to a folder and run there, output compared with what is shown."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from shown import ROOT, blocks, run_shown, shown_blocks


def test_the_tutorial_runs(tmp_path: Path) -> None:
    for example in ("digits.onnx", "digits_violated.vnnlib"):
        shutil.copy(ROOT / "examples" / example, tmp_path)
    text = (ROOT / "docs" / "tutorial-search.md").read_text()
    for block in blocks(text, "python"):
        name = re.match(r"# (\w+\.py)\n", block)
        assert name
        (tmp_path / name[1]).write_text(block)
    commands = [shown for block in shown_blocks(text) for shown in block]
    assert len(commands) == 4
    run_shown(commands, tmp_path, TMPDIR=str(tmp_path))
