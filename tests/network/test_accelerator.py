"""Going over to an accelerator: what is asked first, and that nothing wrong with one stops a search."""

from __future__ import annotations

import os
import subprocess
import sys

import models
import numpy as np
import pytest

from falsifier.falsify import falsify
from falsifier.network import accelerator
from falsifier.network.load import load
from falsifier.network.selection import accelerated
from falsifier.verdict import Verdict

BOX = (np.full(2, -1, np.float32), np.full(2, 1, np.float32))
MODEL = models.chain(
    [
        models.gemm([[1.0, -2.0], [3.0, 1.0], [0.5, 2.0]], name="a"),
        ("Relu", [], {}),
        models.gemm([[1, 1, -1]], name="b"),
    ],
    [1, 2],
    [1, 1],
)


def test_hidden_devices_are_not_asked_for() -> None:
    code = "import sys; from falsifier.network.accelerator import find; print(find(), 'torch' in sys.modules)"
    for hidden in ("", "-1"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={"CUDA_VISIBLE_DEVICES": hidden, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split() == ["None", "False"]


def test_without_device_files_torch_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setattr(accelerator, "glob", lambda pattern: [])
    monkeypatch.setattr(os.path, "exists", lambda path: False)
    monkeypatch.setitem(sys.modules, "torch", None)  # an import would fail
    assert accelerator.find() is None


def test_a_broken_torch_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setattr(accelerator, "glob", lambda pattern: ["/dev/nvidia0"])
    monkeypatch.setitem(sys.modules, "torch", None)
    assert accelerator.find() is None


def test_the_engine_of_the_device_that_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator, "find", lambda: "cpu")  # torch's engine, wherever it computes
    engine = accelerated(load(MODEL), BOX)
    assert engine is not None
    assert engine.name == "torch"


@pytest.mark.parametrize("device", [None, "cuda:999"])
def test_no_device_is_no_error(monkeypatch: pytest.MonkeyPatch, device: str | None) -> None:
    monkeypatch.setattr(accelerator, "find", lambda: device)
    assert accelerated(load(MODEL), BOX) is None


@pytest.mark.parametrize(("device", "engine"), [("cpu", "torch"), ("cuda:999", "onnxruntime"), (None, "onnxruntime")])
def test_auto_goes_over_after_the_first_pass(monkeypatch: pytest.MonkeyPatch, device: str | None, engine: str) -> None:
    """The first pass is the CPU engine's; what follows the accelerator's, where there is one."""
    asked: list[str | None] = []

    def find() -> str | None:
        asked.append(device)
        return device

    monkeypatch.setattr(accelerator, "find", find)
    text = models.declare(2, 1) + models.box([-1, -1], [1, 1])
    assert falsify(MODEL, text + "(assert (>= Y_0 1))", max_evaluations=40_000).verdict is Verdict.SAT
    assert not asked
    never = falsify(MODEL, text + "(assert (>= Y_0 100))", max_evaluations=40_000)
    assert len(asked) == 1
    assert never.engine == engine
    assert never.evaluations <= 40_000
    known = falsify(MODEL, text + "(assert (>= Y_0 100))", max_evaluations=40_000, device="cpu")
    assert len(asked) == 1
    assert known.engine == "onnxruntime"
