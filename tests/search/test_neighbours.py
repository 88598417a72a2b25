"""Coverage by neighbours where the activations lie: the definition, one row after the other; nothing is read."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from falsifier.arrays import Array, as_like, to_host
from falsifier.search.coverage.neighbours import Neighbours
from falsifier.testing.problems import kinds, small_problem

KINDS = pytest.mark.parametrize("kind", kinds())


def _batches(count: int, b: int, d: int) -> list[NDArray[np.float32]]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=(b, d)).astype(np.float32) for _ in range(count)]


@KINDS
def test_a_lane_is_novel_iff_nothing_before_it_is_near(kind: str) -> None:
    like = small_problem(kind).like
    coverage, kept = Neighbours(1.5), list[NDArray[np.float32]]()
    for batch in _batches(30, 40, 4):
        expected = []
        for row in batch:
            expected.append(all(float(((row - k) ** 2).sum()) > 1.5 for k in kept))
            if expected[-1]:
                kept.append(row)
        assert to_host(coverage.novel(as_like(batch, like))).tolist() == expected
    assert coverage.figures() == {"neighbours": len(kept)}
    assert 40 < len(kept) < 400


@KINDS
def test_once_it_is_full_nothing_is_novel(kind: str) -> None:
    like = small_problem(kind).like
    coverage = Neighbours(1e-6, most=50)
    novel = [int(to_host(coverage.novel(as_like(batch, like))).sum()) for batch in _batches(3, 40, 4)]
    assert novel == [40, 10, 0]
    assert coverage.figures() == {"neighbours": 50}


@KINDS
def test_the_threshold_is_measured_in_the_first_step(kind: str) -> None:
    like = small_problem(kind).like
    coverage = Neighbours()
    (batch,) = _batches(1, 100, 4)
    scaled = as_like(1000 * batch, like)
    first = int(to_host(coverage.novel(scaled)).sum())
    assert 20 < first < 100  # some are within a fifth of the usual distance of one another, whatever the scale
    assert not to_host(coverage.novel(scaled + 1)).any()


def test_values_that_are_not_finite_are_taken() -> None:
    coverage = Neighbours(1.0)
    batch = np.zeros((4, 3), np.float32)
    batch[0, 0], batch[1, 1], batch[2, 2] = np.nan, np.inf, -np.inf
    assert coverage.novel(batch).tolist() == [True, True, True, False]  # NaN counts as 0, and the last is 0
    assert not coverage.novel(batch).any()


def _steps(coverage: Neighbours, batch: Array, steps: int) -> Array:
    for _ in range(steps):
        novel = coverage.novel(batch)
    return novel


@pytest.mark.parametrize("threshold", [None, 1.0])
def test_nothing_leaves_the_device(threshold: float | None) -> None:
    # a meta tensor has no numbers: whoever asks for one raises
    novel = _steps(Neighbours(threshold), torch.zeros((300, 5), device="meta"), 3)
    assert novel.device.type == "meta"
    assert tuple(novel.shape) == (300,)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_nothing_leaves_cuda() -> None:
    coverage, batch = Neighbours(1.0), torch.randn((300, 5), device="cuda")
    _steps(coverage, batch, 2)  # the first steps allocate and load kernels
    torch.cuda.set_sync_debug_mode("error")
    try:
        novel = _steps(coverage, batch, 3)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert not to_host(novel).any()
