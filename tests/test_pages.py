"""Pages of docs/ that are followed step by step: their commands run one after another, and their Python."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from shown import ROOT, blocks, run_shown, shown_blocks

PAGES = ("quick-start", "how-to/competition", "how-to/pre-pass", "how-to/continuous-integration")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_followed(page: str, tmp_path: Path) -> None:
    """In a folder that has the examples and the scripts, as a checkout has them."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "vnncomp_scripts").symlink_to(ROOT / "vnncomp_scripts")
    text = (ROOT / "docs" / f"{page}.md").read_text()
    commands = [shown for block in shown_blocks(text) for shown in block]
    assert len(commands) >= 4
    run_shown(commands, tmp_path, FALSIFIER_PYTHON=sys.executable, XDG_RUNTIME_DIR=str(tmp_path), FALSIFIER_WORKER="20")
    for script in blocks(text, "python"):
        done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout
