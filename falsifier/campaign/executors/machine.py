"""What of a machine each of its workers gets: cores, memory, a GPU."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from glob import glob
from pathlib import Path

from falsifier.machine import free_cores, memory

_SHARE = 0.8  # of the memory, for all workers together


def cores_of(number: int, workers: int) -> frozenset[int] | None:
    """The cores of one of several workers: parts of equal size, or one each where workers are more. None: all."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    cores = sorted(os.sched_getaffinity(0))
    if workers >= len(cores):
        return frozenset([cores[number % len(cores)]])
    each, more = divmod(len(cores), workers)
    first = number * each + min(number, more)
    return frozenset(cores[first : first + each + (number < more)])


def threads_of(number: int, workers: int) -> int:
    """The threads of one of several workers: its part of the cores that all may keep busy together, at least one."""
    each, more = divmod(free_cores(), workers)
    return max(1, each + (number < more))


def memory_of(workers: int) -> int | None:
    """Bytes that each of several workers may take: an equal share of the machine's memory, or of the control group's
    where that is less. None where the machine does not say.
    """
    total = memory()
    return None if total is None else int(_SHARE * total / workers)


def environment(number: int, threads: int, device: str) -> dict[str, str]:
    """The environment of a worker: its threads, and of several GPUs its own, in turn."""
    made = dict(os.environ)
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        made.setdefault(variable, str(threads))
    if device in ("auto", "cuda"):
        seen = gpus(os.environ, glob("/dev/nvidia[0-9]*"))
        if len(seen) > 1:
            made["CUDA_VISIBLE_DEVICES"] = seen[number % len(seen)]
    return made


def gpus(given: Mapping[str, str], devices: Sequence[str]) -> list[str]:
    """The GPUs that an environment lets a process use, as it names them; devices: the driver's device files."""
    text = given.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return [str(number) for number in range(len(devices))]
    return [name.strip() for name in text.split(",") if name.strip() not in ("", "-1")]


def descendants() -> list[int]:
    """The processes that this one started, and those that they did."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        with suppress(OSError, ValueError, IndexError):
            # after the name in brackets, which may hold anything, the second field is the parent
            parent = int(Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        more = children.get(waiting.pop(), [])
        found += more
        waiting += more
    return found
