"""What the machine leaves to this process: cores and memory, by CPU affinity and control groups (Linux)."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_PROC = Path("/proc")
_DEATH = 1  # PR_SET_PDEATHSIG
_LIBRARIES = {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"}  # what numpy's BLAS asks for its number of threads
_share: int | None = None  # of the cores, where several processes agreed on one


def free_cores() -> int:
    """Cores that this process may keep busy: those of its CPU affinity, or fewer where a control group, its own or one
    above, has a quota of time (rounded up), or where it took a share.

    The one place that knows: threads, workers and companions all follow it.
    """
    limits = [_affinity(), _share, *map(_quota, _groups("cpu"))]
    return max(1, min(limit for limit in limits if limit is not None))


def limit_libraries() -> None:
    """Keep libraries that start a thread for every core of the CPU affinity, as numpy's BLAS does when it is imported,
    within what control groups leave: more threads than that stand still in turns. What the user said holds.
    """
    if not _LIBRARIES & os.environ.keys() and (cores := free_cores()) < _affinity():
        os.environ["OPENBLAS_NUM_THREADS"] = str(cores)


def take_share(cores: int) -> None:
    """From now on this process keeps that many cores busy at most: others have the rest."""
    global _share
    _share = cores


def memory() -> int | None:
    """Bytes of memory of the machine, or of the control group where that has less. None where neither says."""
    known = []
    with suppress(OSError, ValueError, AttributeError):
        known.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    known += [limit for group in _groups("memory") if (limit := _limit(group)) is not None]
    return min((size for size in known if size > 0), default=None)


def memory_left() -> int | None:
    """Bytes that can still be had without driving anything out, of the machine and of each control group. None where
    nothing says.
    """
    known = []
    with suppress(OSError, StopIteration):
        known.append(1024 * _entry(_PROC / "meminfo", "MemAvailable:"))
    for group in _groups("memory"):
        limit = _limit(group)
        used = _number(group / "memory.current", group / "memory.usage_in_bytes")
        if limit is None or used is None:
            continue
        cached = 0  # of files, which gives way
        with suppress(OSError, StopIteration):
            cached = _entry(group / "memory.stat", "inactive_file", "total_inactive_file")
        known.append(limit - used + cached)
    return max(0, min(known)) if known else None


def resident(process: int) -> int:
    """Bytes of memory that a process holds; 0 where that is unknown."""
    try:
        with open(f"/proc/{process}/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def peak() -> int:
    """The most bytes that this process has held so far; 0 where that is unknown."""
    with suppress(OSError, StopIteration):
        return 1024 * _entry(_PROC / "self" / "status", "VmHWM:")
    return 0


def die_with_parent(parent: int) -> None:
    """Let the kernel end this process when the one that started it ends, however that ends; at once where it has.

    parent: the id that it had. The end of the thread that started this process counts as well.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DEATH, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the kernel was asked to tell
        os._exit(1)


def prefer_for_killing(points: int) -> None:
    """Where memory runs out, let the kernel end this process rather than the one that started it. points: of 1000."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(str(points))


def _affinity() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _groups(controller: str) -> Iterator[Path]:
    """The folders of the control groups that this process is in, from its own to the root, of either version."""
    own = {(_GROUPS, "/"), (_GROUPS / controller, "/")}  # inside a container the root's are its own
    with suppress(OSError, ValueError):
        for line in (_PROC / "self" / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers or controller in controllers.split(","):
                own.add((_GROUPS / controller if controllers else _GROUPS, path))
    for root, path in sorted(own):
        folder = root / path.strip("/")
        yield folder
        yield from (above for above in folder.parents if above.is_relative_to(root))


def _quota(group: Path) -> int | None:
    """The cores that a group's time keeps busy, the last one perhaps in part. None without a quota."""
    with suppress(OSError, ValueError, ZeroDivisionError):
        quota, period = (group / "cpu.max").read_text().split()
        return -(-int(quota) // int(period))  # "max" is no number
    with suppress(OSError, ValueError, ZeroDivisionError):
        quota, period = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return -(-int(quota) // int(period)) if int(quota) > 0 else None
    return None


def _limit(group: Path) -> int | None:
    """Bytes that a group may hold."""
    return _number(group / "memory.max", group / "memory.limit_in_bytes")


def _number(*files: Path) -> int | None:
    """What the first of the files says that holds a number."""
    for file in files:
        with suppress(OSError, ValueError):  # "max" is no number
            return int(file.read_text())
    return None


def _entry(file: Path, *names: str) -> int:
    """The number of the first line that begins with a name. Raises OSError or StopIteration where there is none."""
    with file.open() as lines:
        found = next(words for line in lines if (words := line.split()) and words[0] in names)
    return int(found[1])
