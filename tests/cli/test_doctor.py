"""`doctor`: what is installed, and which engine serves a model."""

from __future__ import annotations

from pathlib import Path

import models
from command import falsifier


def test_installation_and_model(tmp_path: Path) -> None:
    models.save(models.affine([[1, 1]]), tmp_path / "net.onnx")
    done = falsifier("doctor", "net.onnx", cwd=tmp_path)
    assert done.returncode == 0
    assert "CPUExecutionProvider" in done.stdout
    assert "net.onnx" in done.stdout
    assert "engine: onnxruntime on cpu" in done.stdout


def test_unusable_model(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"no model")
    done = falsifier("doctor", "net.onnx", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "net.onnx" in done.stderr
