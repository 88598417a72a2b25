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


def test_shapes_of_open_dimensions(tmp_path: Path) -> None:
    open_model = models.chain([("Relu", [], {})], ["batch", "length"], ["batch", "length"])
    models.save(open_model, tmp_path / "net.onnx")
    done = falsifier("doctor", "net.onnx", cwd=tmp_path)
    assert "input 'X': [batch, length] has open dimensions; [1, 32] was chosen" in done.stdout
    done = falsifier("doctor", "net.onnx", "--shape", "X=1,7", cwd=tmp_path)
    assert "input X: float32 [1, 7]" in done.stdout
    assert "was chosen" not in done.stdout
    for shape in ("X=1,a", "X", "=1,2", "X=0,2", "X=-1"):
        done = falsifier("doctor", "net.onnx", "--shape", shape, cwd=tmp_path)
        assert done.returncode == 2
        assert "is not NAME=D,D,..." in done.stderr
