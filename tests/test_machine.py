"""What the machine leaves to a process, as affinity and control groups of either version have it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from falsifier import machine


@pytest.fixture
def tree(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Empty stand-ins for /sys/fs/cgroup and /proc, and 64 cores."""
    monkeypatch.setattr(machine, "_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(machine, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(64)))
    (tmp_path / "proc" / "self").mkdir(parents=True)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 64),
        ({"cpu.max": "max 100000"}, 64),
        ({"cpu.max": "400000 100000"}, 4),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu.max": "1000 1000000"}, 1),
        ({"cpu.max": "100000 0"}, 64),
        ({"cpu.max": "20000000 100000"}, 64),
        ({"a/b/cpu.max": "350000 100000"}, 4),
        ({"a/b/cpu.max": "max 100000", "a/cpu.max": "200000 100000"}, 2),
        ({"a/b/cpu.max": "150000 100000", "a/cpu.max": "800000 100000", "cpu.max": "400000 100000"}, 2),
        ({"c/cpu.max": "100000 100000"}, 64),  # of somebody else
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 64),
        ({"cpu/old/cpu.cfs_quota_us": "800000", "cpu/old/cpu.cfs_period_us": "100000"}, 8),
        ({"cpu/old/cpu.cfs_quota_us": "10000", "cpu/old/cpu.cfs_period_us": "50000", "cpu.max": "400000 100000"}, 1),
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 3),
        ({"cpu.max": "nonsense"}, 64),
    ],
)
def test_cores_are_those_of_affinity_and_every_quota(tree: Path, files: dict[str, str], expected: int) -> None:
    write(tree / "proc" / "self" / "cgroup", "4:cpu,cpuacct:/old\n0::/a/b\n")
    for name, text in files.items():
        write(tree / "groups" / name, text + "\n")
    assert machine.free_cores() == expected


def test_without_control_groups_affinity_counts(tree: Path) -> None:
    assert machine.free_cores() == 64


def test_a_share_that_was_taken_counts(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_share", None)
    machine.take_share(3)
    assert machine.free_cores() == 3
    write(tree / "groups" / "cpu.max", "200000 100000\n")
    assert machine.free_cores() == 2


@pytest.mark.parametrize(
    ("said", "quota", "expected"),
    [
        ({}, "max", {}),
        ({}, "300000", {"OPENBLAS_NUM_THREADS": "3"}),
        ({"OMP_NUM_THREADS": "5"}, "300000", {"OMP_NUM_THREADS": "5"}),
        ({"OPENBLAS_NUM_THREADS": "5"}, "300000", {"OPENBLAS_NUM_THREADS": "5"}),
    ],
)
def test_libraries_keep_within_the_quota(
    tree: Path, monkeypatch: pytest.MonkeyPatch, said: dict[str, str], quota: str, expected: dict[str, str]
) -> None:
    write(tree / "groups" / "cpu.max", f"{quota} 100000\n")
    monkeypatch.setattr(os, "environ", dict(said))
    machine.limit_libraries()
    assert os.environ == expected


def test_nothing_else_counts_cores() -> None:
    """A second count would know nothing of quotas."""
    package = Path(machine.__file__).parent
    counting = [
        str(file.relative_to(package))
        for file in package.rglob("*.py")
        if any(word in file.read_text() for word in ("cpu_count", "sched_getaffinity"))
    ]
    assert sorted(counting) == ["campaign/executors/machine.py", "machine.py"]  # which seats, and how many


def test_memory_left_is_the_least_of_machine_and_groups(tree: Path) -> None:
    assert machine.memory_left() is None
    write(tree / "proc" / "meminfo", "MemTotal:  9000 kB\nMemFree: 10 kB\nMemAvailable:  5000 kB\n")
    assert machine.memory_left() == 5000 << 10
    write(tree / "proc" / "self" / "cgroup", "0::/a/b\n")
    write(tree / "groups/a/b/memory.max", "max\n")
    write(tree / "groups/a/memory.max", f"{4000 << 10}\n")
    write(tree / "groups/a/memory.current", f"{3000 << 10}\n")
    assert machine.memory_left() == 1000 << 10
    write(tree / "groups/a/memory.stat", f"anon 5\ninactive_file {500 << 10}\nactive_file 7\n")
    assert machine.memory_left() == 1500 << 10
    write(tree / "groups/a/memory.current", f"{5000 << 10}\n")
    assert machine.memory_left() == 0


def test_memory_left_of_a_group_of_version_one(tree: Path) -> None:
    write(tree / "proc" / "self" / "cgroup", "3:memory:/here\n")
    write(tree / "groups/memory/here/memory.limit_in_bytes", f"{4 << 20}\n")
    write(tree / "groups/memory/here/memory.usage_in_bytes", f"{3 << 20}\n")
    write(tree / "groups/memory/here/memory.stat", f"cache 1\ntotal_inactive_file {1 << 20}\n")
    assert machine.memory_left() == 2 << 20
    assert machine.memory() == 4 << 20


def test_what_a_process_holds() -> None:
    before, highest = machine.resident(os.getpid()), machine.peak()
    held = bytearray(b"x" * (1 << 27))
    assert machine.resident(os.getpid()) - before > (1 << 26)
    del held
    assert machine.peak() >= max(highest, before + (1 << 26))
    assert machine.resident(1 << 30) == 0


def test_a_process_whose_parent_is_gone_ends_at_once() -> None:
    code = f"from falsifier import machine; machine.die_with_parent({os.getpid() + 1}); print('alive')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")


def test_a_process_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    child = (
        "import os, time; from falsifier import machine as m; m.die_with_parent(os.getppid()); print(); time.sleep(99)"
    )
    parent = f"""
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {child!r}], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", parent], capture_output=True, text=True, check=False, timeout=60)
    pid = int(done.stdout)
    for _ in range(600):
        try:
            if "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text():
                return
        except OSError:
            return
        subprocess.run(["sleep", "0.1"], check=True)
    raise AssertionError("it lives on")
