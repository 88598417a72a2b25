"""Shards: every job in one of them, networks whole, limits in balance, the same everywhere."""

from __future__ import annotations

import random

import pytest

from falsifier.campaign.plan import Job
from falsifier.campaign.shard import shard


def plan(*groups: tuple[str, int, float]) -> list[Job]:
    """Networks by name, with so many jobs of so many seconds each."""
    return [Job("c", name, f"{name}{i}", limit, network=name) for name, count, limit in groups for i in range(count)]


def loads(jobs: list[Job], n: int) -> list[float]:
    return [sum(job.limit for job in shard(jobs, i, n)) for i in range(1, n + 1)]


@pytest.mark.parametrize("n", [1, 2, 3, 7, 40])
def test_every_job_is_in_one_part_in_the_plans_order(n: int) -> None:
    jobs = plan(("a", 30, 5), ("b", 1, 400), ("c", 7, 1.5), ("d", 7, 1.5))
    random.Random(n).shuffle(jobs)
    jobs.insert(3, Job("c", "none.onnx", "q", 0.0, fault="missing"))
    parts = [shard(jobs, i, n) for i in range(1, n + 1)]
    assert sorted(job.vnnlib for part in parts for job in part) == sorted(job.vnnlib for job in jobs)
    for part in parts:
        assert part == [job for job in jobs if job in part]


def test_networks_stay_whole_where_they_fit() -> None:
    jobs = plan(("a", 4, 10), ("b", 3, 10), ("c", 2, 10), ("d", 3, 10))
    parts = [{job.network for job in shard(jobs, i, 3)} for i in (1, 2, 3)]
    assert sum(map(len, parts)) == 4
    assert max(loads(jobs, 3)) == 50


def test_one_network_is_cut_into_runs_of_equal_limits() -> None:
    jobs = plan(("a", 100, 20))
    for n in (2, 3, 8):
        assert max(loads(jobs, n)) - min(loads(jobs, n)) <= 20
        for i in range(1, n + 1):
            numbers = [int(job.vnnlib[1:]) for job in shard(jobs, i, n)]
            assert numbers == list(range(numbers[0], numbers[-1] + 1))


def test_parts_are_balanced_by_limits() -> None:
    rng = random.Random(5)
    jobs = plan(*((f"n{i}", rng.randint(1, 40), rng.choice([5.0, 20.0, 60.0])) for i in range(30)))
    for n in (2, 5, 10):
        assert max(loads(jobs, n)) <= 1.25 * sum(job.limit for job in jobs) / n


def test_more_parts_than_jobs() -> None:
    jobs = plan(("a", 2, 20))
    assert sorted(len(shard(jobs, i, 5)) for i in range(1, 6)) == [0, 0, 0, 1, 1]
    assert shard([], 1, 2) == []
