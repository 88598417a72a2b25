"""What a record notes of a session: who ran it, with what, on what machine."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from falsifier import __version__

LATEST = ("settings", "command", "falsifier", "packages", "machine")  # of a session, which a record has of the last one
_PACKAGES = ("numpy", "onnx", "onnxruntime", "onnxruntime_gpu", "torch", "vnnlib")


@dataclass(frozen=True)
class Session:
    """settings: what all instances have in common, JSON types; command: what else was asked for; shard: `i/n` where
    the jobs are a part of their plan.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    command: Mapping[str, Any] = field(default_factory=dict)
    shard: str = ""

    def facts(self) -> dict[str, Any]:
        """All that is noted when the session begins, as JSON types."""
        return {
            "started": now(),
            "ended": None,
            "settings": dict(self.settings),
            "command": dict(self.command),
            "falsifier": __version__,
            "packages": versions(),
            "machine": machine(),
            "process": os.getpid(),
        }


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """Of Python and the packages that compute, as far as they are installed: by the names of their folders.

    `importlib.metadata` says the same at thirty times the cost, which every campaign would pay.
    """
    out = {"python": platform.python_version()}
    for folder in reversed(sys.path):  # the first on the path is imported, and written last
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            package, dash, version = name.removesuffix(".dist-info").partition("-")
            if dash and name.endswith(".dist-info") and package in _PACKAGES:
                out[package] = version
    return out


def machine() -> dict[str, Any]:
    """Name, system, cores that this process may run on, and bytes of memory."""
    system = os.uname()
    return {
        "name": system.nodename,
        "platform": f"{system.sysname} {system.release} {system.machine}",
        "cores": len(os.sched_getaffinity(0)),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }
