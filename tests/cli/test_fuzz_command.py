"""The lines that `falsifier fuzz` writes while it runs and when it ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import models
import pytest
from command import falsifier

from falsifier.cli.fuzz import ProgressLine
from falsifier.fuzz.loop import Progress
from falsifier.fuzz.run import Report, Stop


@dataclass
class Counted:
    count: int


@dataclass
class Found:
    hits: dict[str, Any] = field(default_factory=dict)


def test_a_line_tells_speed_growth_and_causes(capsys: pytest.CaptureFixture[str]) -> None:
    """Speed and growth since the line before, whatever time that was; the last line: of all, and why it ended."""
    now = [100.0]
    line, found = ProgressLine(lambda: now[0]), Found()
    now[0] = 102.0
    line(Progress(evaluations=1000, entries=7, covered=5), found)  # type: ignore[arg-type]
    for _ in range(9):
        line(Progress(evaluations=1500, entries=8, covered=6), found)  # type: ignore[arg-type]
    found.hits |= {f"nan-t{i}": Counted(i + 1) for i in range(6)}
    now[0] = 112.0
    line(Progress(evaluations=6000, entries=9, covered=25), found)  # type: ignore[arg-type]
    line.end(Report(Stop.CAUSES, Progress(evaluations=6500, entries=9, covered=26), found.hits, 0, 13.0))
    first, second, last = capsys.readouterr().err.splitlines()
    assert first == "falsifier: 1000 evaluations, 500/s, 7 entries, 5 covered (+5); no hits"
    causes = "6 causes: ..., nan-t2 x3, nan-t3 x4, nan-t4 x5, nan-t5 x6"
    assert second == f"falsifier: 6000 evaluations, 500/s, 9 entries, 25 covered (+20); {causes}"
    assert last == (
        f"falsifier: 6500 evaluations, 500/s, 9 entries, 26 covered (+26); {causes}: "
        "as many causes were found as were asked for"
    )


def test_beside_a_report_on_stdout_standard_error_says_why_it_ended(tmp_path: Path) -> None:
    model = models.save(models.chain([("Sqrt", [], {})], [1, 1], [1, 1]), tmp_path / "sqrt.onnx")
    words = ["fuzz", str(model), "--max-evaluations", "500", "--lanes", "32", "--out", str(tmp_path / "s")]
    done = falsifier(*words, "--json", "-")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("falsifier: ")
    assert last.endswith(": the evaluations are used up")
    assert "nan-Y x" in last
    assert falsifier(*words[:-1], str(tmp_path / "t"), "--json", "-", "--quiet").stderr == ""
