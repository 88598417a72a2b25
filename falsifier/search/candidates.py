"""Candidates: which points go to the door, and what is asked of the next one when the door rejects.

An engine and the reference differ by rounding, so a margin of 0 or a little more may be refused. A refused point is
never offered again; points with clearly more margin are offered at once, others while an allowance lasts that grows
with the work done, so that a search whose candidates all fail spends its time searching.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.budget import Budget

_PER_OFFER = 4  # points of one batch that are tried
_FREE = 24  # refusals before the allowance counts
_SHARE = 0.01  # of all evaluations that may go into refused points afterwards


class Candidates:
    """Sends points with margin >= 0 to `confirm`, best first."""

    def __init__(self, confirm: Callable[[NDArray[Any]], bool], budget: Budget, targets: int) -> None:
        self._confirm = confirm
        self._budget = budget
        self._seen: set[int] = set()
        self.refused = np.full(targets, -np.inf)  # greatest margin that the door refused, per target
        self.rejections = 0

    def admit(
        self, embed: Callable[[NDArray[np.int64]], NDArray[Any]], target: NDArray[np.int64], margin: NDArray[np.float64]
    ) -> tuple[int, NDArray[Any]] | None:
        """The first lane that the door confirms, with its full point `[n]`; None if none.

        `embed(lanes)` gives the full points of the lanes; target `[b]`, margin `[b]`.
        """
        lanes = np.flatnonzero(margin >= 0)
        lanes = lanes[np.argsort(-margin[lanes], kind="stable")][:_PER_OFFER]
        for rank, lane in enumerate(lanes.tolist()):
            aim = int(target[lane])
            clear = (
                margin[lane] > 1.5 * self.refused[aim] if self.refused[aim] > 0 else margin[lane] > self.refused[aim]
            )
            if not clear and self.rejections >= _FREE + _SHARE * self._budget.evaluations:
                continue
            # The best one is worth its single evaluation even where the deadline passed while it was found.
            if self._budget.evaluations_left() <= 0 or (rank > 0 and self._budget.remaining() <= 0):
                return None
            point = embed(np.array([lane]))[0]
            mark = hash(point.tobytes())
            if mark in self._seen:
                continue
            self._seen.add(mark)
            self._budget.charge(1)
            if self._confirm(point):
                return int(lane), point
            self.rejections += 1
            self.refused[aim] = max(self.refused[aim], float(margin[lane]))
        return None

    def ask(self, point: NDArray[Any]) -> bool:
        """Whether the door confirms a full point `[n]` that was not offered before, whatever its margin. Costs one
        evaluation; a refusal says nothing of the margin that would do.
        """
        mark = hash(point.tobytes())
        if mark in self._seen or self._budget.evaluations_left() <= 0:
            return False
        self._seen.add(mark)
        self._budget.charge(1)
        if self._confirm(point):
            return True
        self.rejections += 1
        return False
