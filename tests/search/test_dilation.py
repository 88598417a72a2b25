"""Dilated climbs: the metric in both of its forms, and ridges that plain steps do not follow."""

from __future__ import annotations

import numpy as np
import pytest
from toy_problems import Floats, Formula, run, toy

from falsifier.search import dilation
from falsifier.search.stages.hopping import DilatedHopping, Hopping


def steps_of(metric: dilation._Metric, slopes: Floats) -> Floats:
    lack = np.full(slopes.shape[1], 0.05, np.float32)
    return np.stack([metric.step(slope, lack, 0.3) for slope in slopes])


def test_rows_and_matrix_are_the_same_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    slopes = np.random.default_rng(0).standard_normal((9, 5, 6)).astype(np.float32)
    like = slopes[0]
    dense = dilation._Metric(like, 9)
    rows = dilation._Metric(like, 5)
    assert (dense._dense, rows._dense) == (True, False)
    assert steps_of(rows, slopes[:5]) == pytest.approx(steps_of(dense, slopes[:5]), rel=1e-3, abs=1e-5)


def test_the_first_step_is_polyak_s_and_the_cap_holds() -> None:
    slope = np.array([[3.0, 4.0], [0.0, 0.0], [0.3, 0.4]], np.float32)
    step = dilation._Metric(slope, 4).step(slope, np.array([0.5, 0.5, 100.0], np.float32), 0.2)
    assert step[0] == pytest.approx(1.1 * 0.5 / 25 * slope[0], rel=1e-5)
    assert step[1].tolist() == [0.0, 0.0]
    assert step[2] == pytest.approx([0.15, 0.2], rel=1e-5)


def test_the_difference_of_two_gradients_is_shrunk() -> None:
    """Gradients on the two sides of a ridge along (1, 1): what is left points along it."""
    sides = np.array([[[1.0, 0.2]], [[0.2, 1.0]]] * 4, np.float32)
    metric = dilation._Metric(sides[0], 8)
    steps = steps_of(metric, sides)[:, 0]
    across = np.abs(steps[:, 0] - steps[:, 1]) / np.linalg.norm(steps, axis=1)
    assert across[0] > 0.7
    assert across[-1] < 0.1


def test_the_oldest_row_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The metric is I - V^T V of the last rows alone, and its last product is one with what is left."""
    monkeypatch.setattr(dilation, "_BYTES", 0)
    slopes = np.random.default_rng(0).standard_normal((11, 5, 60)).astype(np.float32)
    metric = dilation._Metric(slopes[0], 100)
    assert metric._stored.shape == (5, dilation._FEWEST, 60)
    assert np.isfinite(steps_of(metric, slopes)).all()
    rows = metric._stored.astype(np.float64)
    whole = np.eye(60) - rows.swapaxes(1, 2) @ rows
    assert np.linalg.eigvalsh(whole).min() > 0
    assert metric._last is not None
    unit, along = metric._last
    assert along == pytest.approx((whole @ unit[:, :, None])[:, :, 0], abs=1e-5)


def test_wide_points_remember_the_last_steps_on_tensors_too() -> None:
    torch = pytest.importorskip("torch")
    slopes = np.random.default_rng(1).standard_normal((40, 2, 120)).astype(np.float32)
    metric, tensors = dilation._Metric(slopes[0], 40), dilation._Metric(torch.asarray(slopes[0]), 40)
    assert metric._stored.shape == (2, dilation._KEPT, 120)
    lack = torch.full((2,), 0.05)
    taken = np.stack([tensors.step(torch.asarray(slope), lack, 0.3).numpy() for slope in slopes])
    assert taken == pytest.approx(steps_of(metric, slopes), rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("torch", [False, True])
def test_dilated_hopping_follows_a_ridge(torch: bool) -> None:
    """The margin falls steeply off a bent line in 12 dimensions and rises slowly along it."""
    turn = np.linalg.qr(np.random.default_rng(3).standard_normal((12, 12)))[0]
    weight = np.concatenate([[0.05], np.geomspace(1, 100, 11)])
    top = np.where(np.arange(12) == 0, 2.0, 0.1 * np.sin(np.arange(12)))

    def margin(x: Floats) -> Floats:
        return np.asarray(0.001 - np.abs(x @ turn - top) @ weight)[:, None]

    def pullback(x: Floats, seed: Floats) -> Floats:
        return np.asarray(-seed * (np.sign(x @ turn - top) * weight) @ turn.T)

    def hunt(stage: Hopping, cap: int) -> bool:
        formula = Formula(12, 1, margin, pullback)
        return run(toy(formula, "(assert (>= Y_0 0))", [-3] * 12, [3] * 12, cap, torch=torch), 0, [stage]).found

    assert hunt(DilatedHopping(), 20_000)
    assert not hunt(Hopping(), 60_000)
