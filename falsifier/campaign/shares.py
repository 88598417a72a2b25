"""Fair time: what a time limit means where many instances share every batch.

Each instance has a clock of its own. While w instances are searched together, the clock of each runs at 1/w of the
wall's, whether or not the batch at work has a lane of it: lanes are dealt evenly. So the clocks of a group add up to
the time that passed, and a group takes no longer than its members' limits together, as if they had run one by one.
What an instance that is decided leaves over is not given to the others. Evaluations are shared likewise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from falsifier.budget import Budget
from falsifier.search.groups import Groups


class Shares:
    """The clocks of g instances that start together; closes those whose time is up, and sets the budget's end to when
    the last of them would be.
    """

    def __init__(self, limits: Sequence[float], budget: Budget, evaluations: int | None = None) -> None:
        """limits `[g]`: seconds left on each clock. evaluations: a cap for each instance."""
        self._limits: NDArray[np.float64] = np.asarray(limits, dtype=np.float64)
        self._caps = np.full(len(self._limits), math.inf if evaluations is None else float(evaluations))
        self._counted = evaluations is not None
        self._budget = budget
        self._groups: Groups | None = None
        self._now, self._made = budget.clock(), budget.evaluations
        self.seconds = 0.0  # on the clock of every open instance
        self.evaluations = 0.0

    def begin(self, groups: Groups) -> None:
        """Start the clocks. The groups ask `watch` from now on."""
        self._groups = groups
        self._now, self._made = self._budget.clock(), self._budget.evaluations
        self._settle()

    def watch(self) -> list[int]:
        """Instances whose limit or cap is reached."""
        groups = self._groups
        if groups is None or groups.width == 0:
            return []
        now, made = self._budget.clock(), self._budget.evaluations
        self.seconds += (now - self._now) / groups.width
        self.evaluations += (made - self._made) / groups.width
        self._now, self._made = now, made
        if self._width != groups.width:
            self._settle()
        if self.seconds < self._next_limit and self.evaluations < self._next_cap:
            return []
        ended = groups.open & ((self._limits <= self.seconds) | (self._caps <= self.evaluations))
        self._settle(ended)
        return [int(group) for group in np.flatnonzero(ended)]

    def cap(self, group: int, evaluations: float) -> None:
        """End an instance when its share of the evaluations reaches this number."""
        self._caps[group] = min(self._caps[group], evaluations)
        self._settle()

    def timed_out(self, group: int) -> bool:
        """Whether the limit of an instance is reached."""
        return bool(self._limits[group] <= self.seconds)

    def _settle(self, ended: NDArray[np.bool_] | None = None) -> None:
        """What depends on which instances are open."""
        groups = self._groups
        if groups is None:
            return
        left = groups.open if ended is None else groups.open & ~ended
        self._width = int(left.sum())
        if not self._width:
            return
        self._next_limit, self._next_cap = float(self._limits[left].min()), float(self._caps[left].min())
        self._budget.deadline = self._now + float(np.sum(self._limits[left] - self.seconds))
        if self._counted:
            more = np.sum(self._caps[left] - self.evaluations)
            self._budget.max_evaluations = self._made + math.ceil(more) + 1
