"""Pages of docs/ that are followed step by step: their commands run one after another, and their Python."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from shown import ROOT, Shown, blocks, run_shown, shown_blocks

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


def test_every_witness_of_a_campaign_is_gone_on_from(tmp_path: Path) -> None:
    """The script of docs/witnesses.md, with a cap in place of a clock."""
    digits = [
        str(ROOT / "examples" / name) for name in ("digits.onnx", "digits_violated.vnnlib", "digits_robust.vnnlib")
    ]
    (tmp_path / "instances.csv").write_text(f"{digits[0]},{digits[1]},60\n{digits[0]},{digits[2]},60\n")
    command = "falsifier campaign instances.csv --out results --category digits --max-evaluations 1000"
    run_shown([Shown(command, [])], tmp_path)
    (script,) = (text for text in blocks((ROOT / "docs" / "witnesses.md").read_text(), "python") if "deeper.py" in text)
    (tmp_path / "deeper.py").write_text(script.replace('"20"', '"600", "--max-evaluations", "1000"'))
    run_shown([Shown("python deeper.py", ["sat"])], tmp_path)
    (folder,) = (tmp_path / "deeper" / "digits").iterdir()
    assert folder.name == "digits_digits_violated"
    index = json.loads((folder / "index.json").read_text())
    assert index["witnesses"][-1]["margin"] >= index["witnesses"][0]["margin"]
