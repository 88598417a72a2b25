"""Candidates: which points go to the door, and what is asked of the next one when the door rejects.

An engine and the reference differ by rounding, so a margin of 0 or a little more may be refused. A refused point is
never offered again; points with clearly more margin are offered at once, others while an allowance lasts that grows
with the work done, so that a search whose candidates all fail spends its time searching. Every group has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.budget import Budget
from falsifier.search.groups import Groups

_PER_OFFER = 4  # points of one batch that are tried, for a group
_LOOKED_AT = 64  # points of one batch among which those are sought that were not tried before
_FREE = 24  # refusals before the allowance counts
_SHARE = 0.01  # of all evaluations that may go into refused points afterwards


class Candidates:
    """Sends points with margin >= 0 to the door of their group, best first."""

    def __init__(self, groups: Groups, budget: Budget) -> None:
        self._groups = groups
        self._budget = budget
        self._seen: set[tuple[int, int]] = set()
        self.refused = np.full(groups.of.size, -np.inf)  # greatest margin that the door refused, per target
        self._refusals = np.zeros(groups.count, dtype=np.int64)

    @property
    def rejections(self) -> int:
        """How many points the door refused."""
        return int(self._refusals.sum())

    def admit(
        self, embed: Callable[[NDArray[np.int64]], NDArray[Any]], target: NDArray[np.int64], margin: NDArray[np.float64]
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """For every group the first lane that its door confirms, with its full point `[n]`.

        `embed(lanes)` gives the full points of the lanes; target `[b]`, margin `[b]`. The caller closes the group.
        """
        lanes = np.flatnonzero(margin >= 0)
        lanes = lanes[np.argsort(-margin[lanes], kind="stable")]
        several = self._groups.count > 1
        if several:
            lanes = _best_of_each(lanes, self._groups.of[target[lanes]])
            lanes = lanes[self._groups.open[self._groups.of[target[lanes]]]]
        else:
            lanes = lanes[:_LOOKED_AT]
        offers = np.zeros(self._groups.count, dtype=np.int64)
        for rank, lane in enumerate(lanes.tolist()):
            aim = int(target[lane])
            group = int(self._groups.of[aim])
            if offers[group] >= _PER_OFFER:
                continue
            clear = (
                margin[lane] > 1.5 * self.refused[aim] if self.refused[aim] > 0 else margin[lane] > self.refused[aim]
            )
            share = _SHARE / self._groups.count
            if not clear and self._refusals[group] >= _FREE + share * self._budget.evaluations:
                continue
            # The best one is worth its single evaluation even where the deadline passed while it was found.
            if self._budget.evaluations_left() <= 0 or (rank > 0 and self._budget.remaining() <= 0):
                return
            if several and not self._groups.open[group]:
                continue
            point = embed(np.array([lane]))[0]
            confirmed = self._asked(group, point)
            if confirmed:
                yield int(lane), point
                if not several:
                    return
            elif confirmed is not None:
                offers[group] += 1
                self.refused[aim] = max(self.refused[aim], float(margin[lane]))

    def ask(self, group: int, point: NDArray[Any]) -> bool:
        """Whether the group's door confirms a full point `[n]` that was not offered before, whatever its margin. Costs
        one evaluation; a refusal says nothing of the margin that would do.
        """
        return self._budget.evaluations_left() > 0 and bool(self._asked(group, point))

    def _asked(self, group: int, point: NDArray[Any]) -> bool | None:
        """What the door says of a point; None where it was asked before."""
        mark = (group, hash(point.tobytes()))
        if mark in self._seen:
            return None
        self._seen.add(mark)
        self._budget.charge(1)
        if self._groups.confirm(group, point):
            return True
        self._refusals[group] += 1
        return False


def _best_of_each(lanes: NDArray[np.int64], group: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of lanes sorted from best to worst the first few of every group, all groups' best before anybody's second."""
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    rank = np.empty(lanes.size, dtype=np.int64)
    rank[order] = np.arange(lanes.size) - np.searchsorted(ordered, ordered, side="left")
    chosen = np.flatnonzero(rank < _LOOKED_AT)
    return lanes[chosen[np.argsort(rank[chosen], kind="stable")]]
