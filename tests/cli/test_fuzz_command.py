"""The lines that `falsifier fuzz` writes while it runs and when it ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import models
import numpy as np
import onnx
import pytest
from command import falsifier

from falsifier.cli import main
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


@pytest.mark.parametrize("name", ["m.onnx", "m.onnx.data", "link", "x.npz"])
def test_what_a_run_reads_is_not_written_over(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """By quantize, and by fuzz for its report: the model, its weights in a file of their own, samples, and links."""
    network = models.affine(np.eye(6))
    onnx.save_model(network, tmp_path / "m.onnx", save_as_external_data=True, location="m.onnx.data", size_threshold=0)
    np.savez(tmp_path / "x.npz", x=np.zeros((3, 6)))
    (tmp_path / "link").symlink_to("m.onnx.data")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    model, inputs, out = (str(tmp_path / file) for file in ("m.onnx", "x.npz", name))
    for words in (["quantize", model, "-o", out], ["fuzz", model, "--json", out, "--out", str(tmp_path / "s")]):
        assert main([*words, "--inputs", inputs]) == 2
        err = capsys.readouterr().err
        assert f" {out}: a file of " in err
        assert err.count("\n") == 1
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_hits_are_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network = models.chain([("Sqrt", [], {})], [1, 2], [1, 2])
    model, session = str(models.save(network, tmp_path / "m.onnx")), str(tmp_path / "s")
    assert main(["fuzz", model, "--out", session, "--causes", "1", "--max-evaluations", "3000", "--quiet"]) == 0
    (record,) = (tmp_path / "s").rglob("hit.json")
    before = record.read_bytes()
    capsys.readouterr()
    assert main(["replay", session, "--json", str(record)]) == 2
    assert f"--json {record}: a file of the hits, which would be lost" in capsys.readouterr().err
    assert record.read_bytes() == before
