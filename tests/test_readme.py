"""Every command that the README shows in a `console` block runs, and prints the lines shown under it."""

from __future__ import annotations

from pathlib import Path

import pytest
from shown import ROOT, Shown, run_shown, shown_blocks

BLOCKS = shown_blocks((ROOT / "README.md").read_text())


def test_the_readme_shows_commands() -> None:
    assert sum(len(block) for block in BLOCKS) >= 5


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block[0].command[:60])
def test_block(block: list[Shown], tmp_path: Path) -> None:
    run_shown(block, ROOT, TMPDIR=str(tmp_path))
