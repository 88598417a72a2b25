"""The margins that a record keeps of an open instance."""

from __future__ import annotations

import numpy as np

from falsifier.campaign.margins import MOST, nearest, nearest_of


def test_the_best_of_every_disjunct_in_their_order() -> None:
    margin = np.array([-3.0, -1.0, -np.inf, -2.0, np.nan, -0.5])
    assert nearest([4, 4, 7, 2, 2, 0], margin) == {0: -0.5, 2: -2.0, 4: -1.0}
    assert list(nearest([4, 4, 7, 2, 2, 0], margin)) == [0, 2, 4]
    assert nearest([], np.zeros(0)) == {}


def test_of_very_many_the_nearest_are_kept() -> None:
    count = 10 * MOST
    margin = -np.random.default_rng(0).permutation(count).astype(np.float64) - 1
    kept = nearest(np.arange(count), margin)
    assert len(kept) == MOST
    assert list(kept) == sorted(kept)
    assert min(kept.values()) == -MOST


def test_from_margins_of_all_disjuncts() -> None:
    assert nearest_of([1, 3], [0.5, -1.0, None, -2.0]) == {1: -1.0, 3: -2.0}
    assert nearest_of([0, 1], [None, None]) == {}
    assert nearest_of([0], []) == {}
