"""Groups: which targets belong to one question, and which questions are still open.

A search over one instance has one group. A search over many instances that share a network has a group for each: a
confirmed point closes its group, whose lanes go to the others, and the search ends when none is open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Confirm = Callable[[NDArray[Any]], bool]
GroupConfirm = Callable[[int, NDArray[Any]], bool]
Watch = Callable[[], Iterable[int]]


class Groups:
    """g groups of t targets. The targets of a group stand together, groups in order.

    of `[t]`: the group of each target; open `[g]` bool; width: how many are open.
    """

    def __init__(self, sizes: Sequence[int] | NDArray[np.int64], confirm: GroupConfirm, watch: Watch | None = None):
        """sizes `[g]`: targets of each group. `confirm(group, point)`: whether a full point `[n]` ends its group.

        `watch` is asked, between batches, for groups to close without a witness: their time is up, or somebody else
        answered.
        """
        self.first = np.concatenate([[0], np.cumsum(np.asarray(sizes, dtype=np.int64))]).astype(np.int64)
        self.count = len(self.first) - 1
        self.of = np.repeat(np.arange(self.count), np.diff(self.first))
        self.open = np.ones(self.count, dtype=bool)
        self.width = self.count
        self.confirm = confirm
        self.watch = watch

    @classmethod
    def single(cls, targets: int, confirm: Confirm) -> Groups:
        """One group of all targets."""
        return cls([targets], lambda _, point: confirm(point))

    def targets(self, group: int) -> slice:
        """Where the targets of a group stand."""
        return slice(int(self.first[group]), int(self.first[group + 1]))

    def close(self, group: int) -> None:
        """No more points for this group."""
        if self.open[group]:
            self.open[group] = False
            self.width -= 1
