"""A machine in shares: every worker its cores, its memory, its GPU."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from falsifier.campaign.executors import machine


@pytest.mark.parametrize(("cores", "workers"), [(1, 1), (8, 2), (8, 3), (7, 7), (2, 5), (64, 10)])
def test_cores_are_dealt_evenly_and_all_of_them(monkeypatch: pytest.MonkeyPatch, cores: int, workers: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3 + 2 * core for core in range(cores)})
    shares = [machine.cores_of(number, workers) for number in range(workers)]
    assert None not in shares
    dealt = [core for share in shares for core in share or ()]
    assert set(dealt) == {3 + 2 * core for core in range(cores)}
    sizes = [len(share or ()) for share in shares]
    assert max(sizes) - min(sizes) <= 1
    assert sum(sizes) == max(cores, workers)


@pytest.mark.parametrize(
    ("given", "devices", "expected"),
    [
        ({}, [], []),
        ({}, ["/dev/nvidia0", "/dev/nvidia1"], ["0", "1"]),
        ({"CUDA_VISIBLE_DEVICES": "2, 5"}, ["/dev/nvidia0"], ["2", "5"]),
        ({"CUDA_VISIBLE_DEVICES": "MIG-1a,MIG-2b"}, [], ["MIG-1a", "MIG-2b"]),
        ({"CUDA_VISIBLE_DEVICES": ""}, ["/dev/nvidia0"], []),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, ["/dev/nvidia0"], []),
    ],
)
def test_gpus_are_those_that_the_environment_shows(
    given: dict[str, str], devices: list[str], expected: list[str]
) -> None:
    assert machine.gpus(given, devices) == expected


def test_gpus_go_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    for device, expected in [("cuda", ["4", "6", "4"]), ("auto", ["4", "6", "4"]), ("cpu", ["4,6"] * 3)]:
        made = [machine.environment(number, 1, device)["CUDA_VISIBLE_DEVICES"] for number in range(3)]
        assert made == expected
    assert machine.environment(1, 1, "cuda:1")["CUDA_VISIBLE_DEVICES"] == "4,6"  # one that was chosen stays it


def test_threads_are_those_of_the_worker_unless_they_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert machine.environment(0, 3, "cpu")["OMP_NUM_THREADS"] == "3"
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert machine.environment(0, 3, "cpu")["OMP_NUM_THREADS"] == "1"


@pytest.mark.parametrize(
    ("free", "workers", "expected"), [(8, 2, [4, 4]), (5, 3, [2, 2, 1]), (2, 4, [1, 1, 1, 1]), (1, 1, [1])]
)
def test_workers_share_the_cores_that_may_be_kept_busy(
    monkeypatch: pytest.MonkeyPatch, free: int, workers: int, expected: list[int]
) -> None:
    """Under a quota these are fewer than the cores that they may run on."""
    monkeypatch.setattr(machine, "free_cores", lambda: free)
    assert [machine.threads_of(number, workers) for number in range(workers)] == expected


def test_memory_is_a_share_of_the_least_that_is_granted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    group = f"{tmp_path}/memory.max"
    monkeypatch.setattr("falsifier.machine._GROUPS", tmp_path)
    whole = machine.memory_of(1)
    assert whole is not None
    with open(group, "w") as file:
        file.write("max\n")
    assert machine.memory_of(1) == whole
    with open(group, "w") as file:
        file.write(f"{1 << 29}\n")
    assert machine.memory_of(4) == pytest.approx((1 << 29) * 0.8 / 4, abs=1)


def test_descendants_are_found_through_their_parents() -> None:
    before = set(machine.descendants())
    with subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        sleeping = int(shell.stdout.readline())
        assert {shell.pid, sleeping} <= set(machine.descendants()) - before
        os.kill(sleeping, 9)
