"""Coverage: by nearest neighbour, exactly and by a graph; by neurons and patterns; what each admits."""

from __future__ import annotations

from pathlib import Path

import models
import numpy as np
import pytest
from numpy.typing import NDArray

from falsifier.errors import InputError
from falsifier.fuzz.build import build
from falsifier.fuzz.coverage.activations import Activations
from falsifier.fuzz.coverage.kept import missing_of_extra
from falsifier.fuzz.coverage.nearest import NearestNeighbour
from falsifier.fuzz.coverage.none import NoCoverage
from falsifier.fuzz.run import fuzz
from falsifier.fuzz.settings import Settings
from falsifier.search.coverage.patterns import Patterns
from falsifier.testing.fuzz import CoverageContract

EXTRA = not missing_of_extra()
Array = NDArray[np.float32]


class TestExact(CoverageContract):
    def coverage(self) -> NearestNeighbour:
        return NearestNeighbour(3, 1.0)


@pytest.mark.skipif(not EXTRA, reason="the extra is not installed")
class TestGraph(CoverageContract):
    def coverage(self) -> NearestNeighbour:
        return NearestNeighbour(3, 1.0, exact=8)


class TestPatterns(CoverageContract):
    def coverage(self) -> Activations:
        return Activations(Patterns())


class TestNone(CoverageContract):
    def coverage(self) -> NoCoverage:
        return NoCoverage()


def _batches(count: int, d: int) -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=(40, d)).astype(np.float32) for _ in range(count)]


def test_a_row_is_new_iff_nothing_kept_is_near() -> None:
    """Against the definition, one row after the other."""
    coverage = NearestNeighbour(4, 2.0, admitted=1000)
    kept: list[Array] = []
    for batch in _batches(10, 4):
        expected = []
        for i, row in enumerate(batch):
            if all(float(((row - k) ** 2).sum()) > 2.0 for k in kept):
                expected.append(i)
                kept.append(row)
        assert coverage.novel(batch, np.full_like(batch, 1e6)).tolist() == expected
    assert coverage.size == len(kept) > 20


def test_what_is_near_its_parent_is_not_looked_up() -> None:
    coverage = NearestNeighbour(4, 1.0)
    batch = _batches(1, 4)[0]
    coverage.restore(batch)
    assert not len(coverage.novel(batch + 0.1, batch))
    assert coverage.lookups == 0


def test_what_a_batch_may_keep_ends_its_lookups() -> None:
    coverage = NearestNeighbour(4, 1e-6, admitted=10)
    batch = np.random.default_rng(0).normal(size=(5000, 4)).astype(np.float32)
    assert len(coverage.novel(batch, np.full_like(batch, 1e6))) == 10
    assert coverage.lookups == 10


def test_one_batch_looks_up_only_so_many() -> None:
    coverage = NearestNeighbour(4, 1e-6)
    batch = np.random.default_rng(0).normal(size=(5000, 4)).astype(np.float32)
    assert 0 < len(coverage.novel(batch, np.full_like(batch, 1e6))) <= 64
    assert coverage.lookups <= 256


def test_wide_vectors_are_projected() -> None:
    coverage = NearestNeighbour(1000, 1.0)
    rows = np.random.default_rng(0).normal(size=(50, 1000)).astype(np.float32) * 100
    assert coverage.prepared(rows).shape == (50, 64)
    coverage.restore(rows)
    assert not len(coverage.novel(rows, np.full_like(rows, 1e6)))


def test_bad_thresholds_are_said() -> None:
    with pytest.raises(InputError, match="positive squared distance"):
        NearestNeighbour(3, 0.0)


def _relus() -> object:
    rng = np.random.default_rng(3)
    return models.chain(
        [
            models.gemm(rng.normal(size=(12, 4)), name="1"),
            ("Relu", [], {}),
            models.gemm(rng.normal(size=(2, 12)), name="2"),
        ],
        [1, 4],
        [1, 2],
    )


@pytest.mark.parametrize("kind", ["nearest", "neurons", "patterns"])
def test_each_kind_keeps_entries(kind: str) -> None:
    settings = Settings(_relus(), "range:-1e9,1e9", coverage=kind, max_evaluations=4000, seconds=1e9, lanes=64)
    report = fuzz(settings)
    assert report.progress.covered > 2
    assert report.progress.entries > 2


def test_a_tensor_can_be_covered_by_name(tmp_path: Path) -> None:
    fuzzer = build(Settings(_relus(), "range:-1e9,1e9", cover=("t1",)))
    assert fuzzer.cover(fuzzer.run(fuzzer.space.starts)).shape == (1, 12)
    assert "measured" in " ".join(fuzzer.notes)
