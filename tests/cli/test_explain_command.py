"""`explain` prints, and says in one line what it cannot read."""

from __future__ import annotations

from pathlib import Path

from command import ROOT, falsifier


def test_the_bundled_query() -> None:
    done = falsifier("explain", "examples/digits_violated.vnnlib", cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Finding one means that the property is violated." in done.stdout
    assert "theories: NH SIO SNET SNC OUTC real" in done.stdout


def test_what_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "prop.vnnlib").write_text("(declare-const X_0 Real)\n(assert (<= X_1 0))\n")
    done = falsifier("explain", "prop.vnnlib", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("falsifier: prop.vnnlib:2:13: undeclared variable 'X_1'")
    assert done.stderr.count("\n") == 1
