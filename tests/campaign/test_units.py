"""Units: every job once, stacks large at first and small at the end, the same cut every time."""

from __future__ import annotations

from pathlib import Path

import pytest

from falsifier.campaign.plan import Job
from falsifier.campaign.units import FEWEST, MOST, Unit, units_of
from falsifier.instance import NamedNetwork


def jobs(network: str, count: int, limit: float = 10, networks: int = 1) -> list[Job]:
    named = tuple(NamedNetwork(None, Path(f"{network}{i}.onnx")) for i in range(networks))
    return [Job("c", network, f"{network}-{i}", limit, named, None, f"{i}", network) for i in range(count)]


def names(units: list[Unit]) -> list[str]:
    return [job.vnnlib for unit in units for job in unit.jobs]


@pytest.mark.parametrize("workers", [1, 2, 3, 16])
@pytest.mark.parametrize("sizes", [[1], [60], [30, 30], [1] * 23, [3, 500, 17], [10_000]])
def test_every_job_is_in_one_unit_of_its_network(workers: int, sizes: list[int]) -> None:
    plan = [job for number, size in enumerate(sizes) for job in jobs(f"n{number}", size)]
    units = units_of(plan, workers)
    assert sorted(names(units)) == sorted(job.vnnlib for job in plan)
    assert all(len({job.network for job in unit.jobs}) == 1 for unit in units)
    assert all(len(unit.jobs) <= MOST for unit in units) or workers == 1
    assert units == units_of(plan, workers)


def test_jobs_with_a_fault_are_in_none() -> None:
    assert units_of([Job("c", "n", "q", 0.0, fault="no such file")], 2) == []


def test_one_worker_takes_networks_whole_in_the_order_of_the_plan() -> None:
    plan = [*jobs("a", 2), *jobs("b", 700), *jobs("c", 1)]
    assert [len(unit.jobs) for unit in units_of(plan, 1)] == [2, 700, 1]


@pytest.mark.parametrize("workers", [2, 8])
def test_units_shrink_to_the_end_so_that_nobody_waits_for_the_last_one(workers: int) -> None:
    sizes = [len(unit.jobs) for unit in units_of(jobs("a", 4000), workers)]
    assert sizes[0] == pytest.approx(4000 / (2 * workers), abs=1)
    assert sizes == sorted(sizes, reverse=True) or sizes[-1] <= FEWEST + FEWEST // 2
    assert sizes[-1] < 2 * FEWEST
    assert len(sizes) > 2 * workers


def test_stacks_are_not_cut_to_pieces_that_gain_nothing() -> None:
    assert [len(unit.jobs) for unit in units_of(jobs("a", FEWEST), 8)] == [FEWEST]
    assert all(len(unit.jobs) >= FEWEST // 2 for unit in units_of(jobs("a", 1000), 16))


def test_networks_with_most_to_do_come_first_whatever_they_count() -> None:
    first, *_ = units_of([*jobs("many", 20, limit=1), *jobs("long", 2, limit=1000)], 2)
    assert first.network == "long"


def test_several_networks_at_once_do_not_stack_and_go_one_by_one() -> None:
    assert [len(unit.jobs) for unit in units_of(jobs("ab", 5, networks=2), 2)] == [1] * 5


def test_pieces_hold_the_same_jobs_and_a_lone_one_is_run_with_care() -> None:
    unit = Unit(tuple(jobs("a", 100)))
    pieces = unit.pieces()
    assert len(pieces) == 8
    assert sorted(names(pieces)) == sorted(names([unit]))
    assert not any(piece.careful for piece in pieces)
    assert all(piece.careful for piece in Unit(tuple(jobs("a", 5))).pieces())
