"""The bundled example is what its script says: one query that is violated, one that is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import falsifier
from falsifier.verdict import Verdict

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.mark.parametrize("seed", range(3))
def test_the_violated_query_gets_an_exact_witness(seed: int) -> None:
    result = falsifier.falsify(
        EXAMPLES / "digits.onnx", EXAMPLES / "digits_violated.vnnlib", timeout=30, rng_seed=seed, require="exact"
    )
    assert result.verdict is Verdict.SAT
    assert result.witness is not None
    scores = np.asarray(result.witness.outputs[0]).ravel()
    assert scores.argmax() != 1 or np.sum(scores == scores.max()) > 1


def test_the_robust_query_stays_open() -> None:
    result = falsifier.falsify(
        EXAMPLES / "digits.onnx", EXAMPLES / "digits_robust.vnnlib", timeout=60, max_evaluations=3000
    )
    assert result.verdict is Verdict.UNKNOWN
    assert result.witness is None
