"""The coverage-fuzzing experiments at their smallest: they run, find what is easy, and write what they say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import coverage_fuzzing
import coverage_sessions
import language_model
import numpy as np
import onnxruntime
import pytest


def result(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    file = tmp_path / "result.json"
    coverage_fuzzing.main([*arguments, "--quiet", "--json", str(file)])
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def test_guided_search_finds_what_random_search_does_not(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    found = result(
        tmp_path, "numerical", "--runs", "3", "--evaluations", "3000", "--configurations", "uniform", "default",
        "--kinds", "arcsine", "half_precision",
    )  # fmt: skip
    assert found["results"]["found"] == {"uniform": [0, 0, 0], "default": [2, 2, 2]}
    (table,) = found["statistics"]
    assert table["means"] == {"uniform": 0.0, "default": 2.0}
    assert len(table["pairs"]) == 1


def test_costs_are_measured(tmp_path: Path) -> None:
    figures = result(tmp_path, "growth", "--kept", "500", "1000")["results"]["figures"]
    assert [f["kept"] for f in figures] == [500, 1000]
    rates = result(tmp_path, "throughput", "--seconds", "0.2")["results"]
    assert all(rate["per_second"] > 0 for rate in rates.values())


def test_sessions_are_measured_against_an_exact_search(tmp_path: Path) -> None:
    file = tmp_path / "sessions.json"
    coverage_sessions.main(["mlp", "--kept", "100", "400", "--quiet", "--json", str(file)])
    figures = json.loads(file.read_text())["figures"]
    assert [f["kept"] >= size for f, size in zip(figures, (100, 400), strict=True)] == [True, True]
    assert all(f["asked"] > 100 and f["missed"] == 0 for f in figures)


def test_the_language_model_is_the_one_that_was_trained(tmp_path: Path) -> None:
    """The ONNX model gives what torch's GRU gives, gates reordered."""
    torch = pytest.importorskip("torch")
    told = language_model.write(tmp_path, steps=3, characters=3000)
    assert told["vocabulary"] > 10
    text, _ = language_model.text_of_a_package(3000)
    weights, vocabulary, _ = language_model.train(text, 3, 0)
    gru = torch.nn.GRU(language_model.EMBEDDED, language_model.HIDDEN, batch_first=True)
    names = {"weight_ih_l0": "W", "weight_hh_l0": "R", "bias_ih_l0": "Wb", "bias_hh_l0": "Rb"}
    gru.load_state_dict({k: torch.from_numpy(weights[v]) for k, v in names.items()})
    ids = np.array([[3, 1, 4, 1, 5], [2, 7, 1, 8, 2]])
    with torch.no_grad():
        hidden = gru(torch.from_numpy(weights["table"][ids]))[0][:, -1].numpy()
    expected = hidden @ weights["head"].T + weights["bias"]
    session = onnxruntime.InferenceSession(str(tmp_path / "lm.onnx"))
    state = np.zeros((1, 2, language_model.HIDDEN), np.float32)
    for column in ids.T:
        logits, state = session.run(None, {"token": column[:, None], "state": state})
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    found = result(
        tmp_path, "words", "--runs", "1", "--evaluations", "600", "--language", str(tmp_path),
        "--configurations", "uniform", "default",
    )  # fmt: skip
    assert found["results"]["words"] == len(language_model.WORDS)
    assert len(vocabulary) == told["vocabulary"]
