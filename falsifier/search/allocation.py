"""Allocation: which targets the lanes of a round aim at.

Every open target keeps a floor share; the rest goes to those nearest to satisfaction.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from falsifier.search.run import Run

_FLOOR = 0.25  # of the lanes, dealt to all open targets in turn
_HALVING = 4.0  # ranks over which the share of a target halves
_GOLDEN = 0.6180339887498949


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
    floor = max(1, round(_FLOOR * lanes)) if lanes > 1 else run.deals % 2
    in_turn = np.sort(ranked)[(run.dealt + np.arange(floor)) % ranked.size]
    run.dealt += floor
    run.deals += 1
    share = np.cumsum(0.5 ** (np.arange(ranked.size) / _HALVING))
    # Evenly spaced, the offset changing from deal to deal: few lanes meet all ranks in time, the first most often.
    offset = run.deals * _GOLDEN % 1.0
    places = (np.arange(lanes - floor) + offset) / max(1, lanes - floor)
    ranks = np.searchsorted(share / share[-1], places, side="right")
    return np.sort(np.concatenate([in_turn, ranked[np.minimum(ranks, ranked.size - 1)]]))
