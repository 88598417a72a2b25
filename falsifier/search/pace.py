"""Pace: how fast each kind of work goes, and the clock by which stages share their time.

Without a cap on evaluations this is the budget's clock and measured speeds. With one, time is counted in evaluations at
nominal speeds, so that no clock decides how much work a stage gets and the same rng seed gives the same result; the
real deadline still ends the search.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from falsifier.budget import Budget

if TYPE_CHECKING:
    from falsifier.problem import Problem

_GRADIENT = 3  # samples that a gradient costs, about
_FEW = 256  # targets that a point is judged against in next to no time


class Work(Enum):
    """Kinds of work with speeds of their own; the value is the nominal seconds of one evaluation."""

    SINGLE = 2e-4
    BATCH = 2e-5
    GRADIENT = 1e-4
    SCREEN = 1e-3  # a point against many targets


def work_of(problem: Problem) -> Work:
    """Which kind of work evaluating a problem is."""
    return Work.SINGLE if problem.serial else Work.BATCH


def screening(problem: Problem) -> Work:
    """Which kind of work screening a problem is."""
    return work_of(problem) if problem.serial or problem.t <= _FEW else Work.SCREEN


@dataclass
class Pace:
    """Seconds per evaluation of each kind of work, smoothed over calls."""

    budget: Budget
    _seconds: dict[Work, float] = field(default_factory=dict)
    _size: dict[Work, int] = field(default_factory=dict)  # of the batch that the speed was read from
    _counted: float = 0.0

    def __post_init__(self) -> None:
        self.nominal = (
            self.budget.max_evaluations is not None
        )  # time is counted in evaluations; a later cap changes nothing

    def now(self) -> float:
        """A reading in seconds, to be compared with other readings."""
        return self._counted if self.nominal else self.budget.clock()

    def note(self, work: Work, evaluations: int, seconds: float) -> None:
        """Take in that `evaluations` of a kind took `seconds`."""
        if evaluations > 0:
            self.count(work, evaluations)
            self.learn(work, evaluations, seconds)

    def count(self, work: Work, evaluations: int) -> None:
        """Take in evaluations; how long they took is told to `learn`."""
        self._counted += work.value * evaluations

    def learn(self, work: Work, evaluations: int, seconds: float) -> None:
        """Take in how long evaluations took that were counted before."""
        each = seconds / evaluations
        old = self._seconds.get(work)
        if old is None or each < old:
            # The first calls carry warm-up (allocation, kernel choice): fast readings are believed sooner than slow.
            self._seconds[work] = each if old is None else old + 0.7 * (each - old)
            self._size[work] = evaluations
        elif 2 * evaluations >= self._size[work]:  # a smaller batch than that shows the cost of a call
            self._seconds[work] = old + 0.3 * (each - old)

    def forget(self) -> None:
        """Speeds are to be measured anew: another engine computes."""
        self._seconds.clear()
        self._size.clear()

    def seconds(self, work: Work) -> float | None:
        """Seconds of one evaluation, None while unknown."""
        return work.value if self.nominal else self._seconds.get(work)

    def expected(self, work: Work) -> float | None:
        """Seconds of one evaluation as far as can be told: of a kind that was not tried by the others, if any was."""
        each = self.seconds(work)
        if each is not None or work is Work.SINGLE:
            return each
        sample = self._seconds.get(Work.BATCH) or self._seconds.get(Work.SINGLE)
        return None if sample is None else sample * (_GRADIENT if work is Work.GRADIENT else 1)

    def fits(self, work: Work, seconds: float, unknown: int) -> int:
        """How many evaluations fit into `seconds` (at least 1); at most `unknown` while the speed is not known."""
        each, most = self.expected(work), math.inf if self.seconds(work) is not None else unknown
        left = self.budget.evaluations_left() - 1  # one is kept for the door
        count = most if each is None else min(most, seconds / max(each, 1e-9))
        return max(1, int(min(count, left, 1 << 24))) if not math.isnan(count) else 1
