"""Clocks of instances that share batches."""

from __future__ import annotations

import pytest

from falsifier.budget import Budget
from falsifier.campaign.shares import Shares
from falsifier.search.groups import Groups


class Bench:
    """Instances with limits, a clock that is moved by hand."""

    def __init__(self, limits: list[float], evaluations: int | None = None) -> None:
        self.now = 100.0
        self.budget = Budget(clock=lambda: self.now)
        self.groups = Groups([1] * len(limits), lambda group, point: True)
        self.shares = Shares(limits, self.budget, evaluations)
        self.shares.begin(self.groups)

    def pass_time(self, seconds: float, evaluations: int = 0) -> list[int]:
        self.now += seconds
        self.budget.charge(evaluations)
        closed = self.shares.watch()
        for group in closed:
            self.groups.close(group)
        return closed


def test_a_clock_runs_at_the_share_of_its_instance() -> None:
    bench = Bench([5.0] * 10)
    assert bench.budget.deadline == pytest.approx(150)
    assert bench.pass_time(20) == []
    assert bench.shares.seconds == pytest.approx(2)
    bench.groups.close(3)  # falsified
    bench.pass_time(0)
    assert bench.budget.deadline == pytest.approx(120 + 9 * 3)  # what it had left is given to nobody
    assert bench.pass_time(26.9) == []
    assert bench.pass_time(0.2) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_limits_of_their_own() -> None:
    bench = Bench([1.0, 2.0, 4.0])
    assert bench.budget.deadline == pytest.approx(107)
    assert bench.pass_time(2.9) == []
    assert bench.pass_time(0.1) == [0]
    assert bench.budget.deadline == pytest.approx(107)
    assert bench.pass_time(1.99) == []
    assert bench.pass_time(0.02) == [1]
    assert bench.shares.timed_out(1)
    assert not bench.shares.timed_out(2)
    assert bench.pass_time(1.9) == []
    assert bench.pass_time(0.2) == [2]


def test_clocks_add_up_to_the_time_that_passed() -> None:
    bench = Bench([3.0, 1.0, 7.0, 2.0])
    spent = {}
    for _ in range(2000):
        for group in bench.pass_time(0.01):
            spent[group] = bench.shares.seconds
        if bench.groups.width == 0:
            break
    assert sum(spent.values()) == pytest.approx(bench.now - 100, abs=0.05)
    assert bench.now - 100 == pytest.approx(13, abs=0.05)


def test_a_cap_on_evaluations_is_each_instances_own() -> None:
    bench = Bench([1e9] * 4, evaluations=100)
    assert bench.budget.max_evaluations == 401
    assert bench.pass_time(1, 200) == []
    bench.groups.close(0)
    assert bench.pass_time(1, 60) == []
    assert bench.budget.max_evaluations == pytest.approx(260 + 3 * 30, abs=2)
    assert bench.pass_time(1, 90) == [1, 2, 3]
    assert not bench.shares.timed_out(1)


def test_one_instance_may_be_given_a_cap() -> None:
    bench = Bench([1e9, 1e9])
    bench.pass_time(1, 200)
    bench.shares.cap(1, 150)
    assert bench.pass_time(1, 98) == []
    assert bench.pass_time(1, 2) == [1]
    assert bench.groups.width == 1
