"""Allocation: which targets the lanes of a round aim at.

Every open target keeps a floor share; the rest goes to those nearest to satisfaction.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from falsifier.search.run import Run

_FLOOR = 0.25  # of the lanes, dealt to all open targets in turn
_HALVING = 4.0  # ranks over which the share of a target halves


def spread(run: Run, lanes: int) -> NDArray[np.int64]:
    """A target for each of `lanes` lanes, sorted.

    A floor share goes to all open targets in turn, the rest by rank of margin. Over rounds every open target gets its
    turn, however few the lanes.
    """
    ranked = run.ledger.ranked()
    if ranked.size == 0:
        return np.zeros(lanes, dtype=np.int64)
    if ranked.size == 1:
        return np.full(lanes, ranked[0], dtype=np.int64)
    floor = max(1, round(_FLOOR * lanes)) if lanes > 1 else run.dealt % 2
    dealt = (run.dealt + np.arange(floor)) % ranked.size
    run.dealt += max(1, floor)
    weight = 0.5 ** (np.arange(ranked.size) / _HALVING)
    quota = np.cumsum(weight / weight.sum())
    ranks = np.searchsorted(quota, (np.arange(lanes - floor) + 0.5) / max(1, lanes - floor))
    by_number = np.sort(ranked)
    return np.sort(np.concatenate([by_number[dealt], ranked[np.minimum(ranks, ranked.size - 1)]]))
