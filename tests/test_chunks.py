"""Batches in chunks: what happens to lanes that an engine refuses."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest
from numpy.typing import NDArray

from falsifier.budget import Budget
from falsifier.chunks import Chunks, Column
from falsifier.errors import EngineError

COLUMNS = [Column(np.nan, 2), Column(-np.inf)]


class Refusing:
    """Doubles lane numbers; a run fails that holds a lane it refuses."""

    def __init__(self, refused: Collection[int]) -> None:
        self.refused = set(refused)
        self.runs = 0

    def __call__(self, part: slice) -> list[NDArray[np.float32]]:
        self.runs += 1
        lanes = np.arange(part.start, part.stop)
        if self.refused.intersection(lanes.tolist()):
            raise EngineError("refused")
        values = lanes.astype(np.float32)
        return [np.stack([values, 2 * values], axis=1), 2 * values]


def chunks(lanes: int, budget: Budget | None = None) -> Chunks:
    return Chunks(np.empty(0, np.float32), budget, lambda kind: lanes)


def test_lanes_that_are_refused_are_filled_and_the_others_kept() -> None:
    budget = Budget()
    outputs, margin = chunks(10, budget).run("forward", Refusing((3, 17)), 20, COLUMNS)
    assert np.flatnonzero(np.isnan(outputs).all(axis=1)).tolist() == [3, 17]
    assert np.flatnonzero(np.isneginf(margin)).tolist() == [3, 17]
    others = np.setdiff1d(np.arange(20), (3, 17))
    np.testing.assert_array_equal(margin[others], 2 * others)
    assert budget.evaluations == 20


def test_a_lane_alone() -> None:
    batch = chunks(10)
    batch.run("forward", Refusing(()), 1, COLUMNS)
    outputs, margin = batch.run("forward", Refusing((0,)), 1, COLUMNS)
    assert np.isnan(outputs).all()
    assert np.isneginf(margin).all()


def test_an_engine_that_never_works_is_given_up_soon() -> None:
    body = Refusing(range(5000))
    with pytest.raises(EngineError, match="refused"):
        chunks(5000).run("forward", body, 5000, COLUMNS)
    assert body.runs < 100
    with pytest.raises(EngineError, match="refused"):
        chunks(5000).run("forward", Refusing((0,)), 1, COLUMNS)
