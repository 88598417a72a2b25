"""Allocation: which targets the lanes of a round aim at.

Open groups get equal numbers of lanes. Of a group's, every open target keeps a floor share; the rest goes to those
nearest to satisfaction.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from falsifier.search.run import Run

_FLOOR = 0.25  # of the lanes, dealt to all open targets in turn
_HALVING = 4.0  # ranks over which the share of a target halves
_GOLDEN = 0.6180339887498949
_NUMBERS = 1 << 23  # in the points of lanes that many groups share


def spread(run: Run, lanes: int) -> NDArray[np.int64]:
    """A target for each of `lanes` lanes, sorted.

    A floor share goes to all open targets in turn, the rest by rank of margin. Over rounds every open target gets its
    turn, however few the lanes.
    """
    if run.groups.count > 1:
        return _spread_over_groups(run, lanes)
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
    # Evenly spaced, the offset changing from deal to deal: few lanes meet all ranks in time, the first most often. A
    # lone lane begins with the first.
    offset = (run.deals - (lanes == 1)) * _GOLDEN % 1.0
    places = (np.arange(lanes - floor) + offset) / max(1, lanes - floor)
    ranks = np.searchsorted(share / share[-1], places, side="right")
    return np.sort(np.concatenate([in_turn, ranked[np.minimum(ranks, ranked.size - 1)]]))


def shared(run: Run, lanes: int, numbers: int) -> int:
    """How many lanes of so many numbers all open groups have together where one group would have `lanes`."""
    return max(lanes, min(lanes * run.width, _NUMBERS // max(1, numbers)))


def nearest(run: Run, count: int) -> NDArray[np.int64]:
    """The `count` most promising open targets of every open group, all groups' first before anybody's second."""
    ranked = run.ledger.ranked()
    if run.groups.count == 1:
        return ranked[:count]
    own = _by_group(run, ranked)
    rank = np.arange(own.ranked.size) - np.repeat(own.first, own.sizes)
    kept = rank < count
    return own.ranked[kept][np.argsort(rank[kept], kind="stable")]


class _Own(NamedTuple):
    """Open targets by group, within a group the most promising first: where groups begin, and their sizes."""

    ranked: NDArray[np.int64]
    first: NDArray[np.int64]
    sizes: NDArray[np.int64]


def _by_group(run: Run, ranked: NDArray[np.int64]) -> _Own:
    of = run.groups.of[ranked]
    order = np.argsort(of, kind="stable")
    first = np.flatnonzero(np.diff(of[order], prepend=-1))
    return _Own(ranked[order], first, np.diff(np.append(first, ranked.size)))


def _spread_over_groups(run: Run, lanes: int) -> NDArray[np.int64]:
    """`spread` where lanes go to groups in turn first."""
    own = _by_group(run, run.ledger.ranked())
    groups = own.sizes.size
    if groups == 0:
        return np.zeros(lanes, dtype=np.int64)
    mine = np.full(groups, lanes // groups)
    mine[(run.dealt + np.arange(lanes % groups)) % groups] += 1
    run.dealt += lanes
    run.deals += 1
    group = np.repeat(np.arange(groups), mine)
    place = np.arange(lanes) - np.repeat(np.cumsum(mine) - mine, mine)  # of a lane among those of its group
    size, quota = own.sizes[group], mine[group]
    floor = np.where(quota > 1, np.maximum(1, np.rint(_FLOOR * quota)), run.deals % 2)
    turn = (run.deals * np.maximum(floor, 1) + place).astype(np.int64) % size
    offset = run.deals * _GOLDEN % 1.0
    share = np.clip((place - floor + offset) / np.maximum(1, quota - floor), 0, 1)
    # the rank at which the geometric shares of the group's targets reach this share of their sum
    total = 1 - 0.5 ** (size / _HALVING)
    rank = np.minimum(np.floor(-_HALVING * np.log2(1 - share * total)), size - 1).astype(np.int64)
    return np.sort(own.ranked[own.first[group] + np.where(place < floor, turn, rank)])
