"""The scripts that measure campaigns."""

from __future__ import annotations

from pathlib import Path

import campaign
import numpy as np
import pytest
import text_direction


@pytest.mark.parametrize(("count", "of"), [(6, 60), (3, 3), (5, 2), (1, 9)])
def test_a_sample_is_spread_evenly(count: int, of: int) -> None:
    numbers = campaign.spread(count, of)
    assert len(numbers) == min(count, of)
    assert numbers[0] == 0
    assert max(np.diff([*numbers, of])) <= -(-of // len(numbers))


def test_a_witness_is_found_by_either_name() -> None:
    files = {name: Path(name) for name in ("net_q.counterexample.gz", "b_net_c_r.counterexample.gz")}
    assert campaign._witness(files, "a/net.onnx", "v/q.vnnlib").name == "net_q.counterexample.gz"
    assert campaign._witness(files, "b/net.onnx", "c/r.vnnlib").name == "b_net_c_r.counterexample.gz"


def test_rendered_lines_of_text() -> None:
    pytest.importorskip("PIL")
    x, y = text_direction.rendered(4, 0)
    assert x.shape == (4, 3, 48, 192)
    assert y.tolist() == [0, 1, 0, 1]
    assert abs(x).max() <= 1
    assert all(len(np.unique(image)) > 2 for image in x)


def test_the_direction_classifier_is_turned() -> None:
    pytest.importorskip("PIL")
    model = text_direction.shipped_model()
    if model is None:
        pytest.skip("rapidocr-onnxruntime is not installed")
    options = text_direction.parse(["--images", "4", "--epsilon", "0.2", "--timeout", "20"])
    assert text_direction.measure(options, model)["verdicts"]["sat"] >= 2
