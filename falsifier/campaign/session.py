"""What a record notes of a session: who ran it, with what, on what machine."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from falsifier import __version__
from falsifier.errors import InputError
from falsifier.machine import free_cores

LATEST = ("settings", "command", "falsifier", "packages", "machine")  # of a session, which a record has of the last one
MUST_STAY = ("require", "budgets")  # what an answer means
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


def demand_same(folder: Path, before: Mapping[str, Any], facts: Mapping[str, Any], shard: str) -> Iterator[str]:
    """What is other than in the sessions before, in a line each. before: values of the record; facts: of this session.

    Raises InputError for what must stay: answers of one record mean the same, and cover the part of the plan that it
    is of.
    """
    if before.get("shard", "") != shard:
        was, is_ = (f"--shard {part}" if part else "no --shard" for part in (before.get("shard", ""), shard))
        raise InputError(f"{folder}: was begun with {was}, now there is {is_}: give the same, or choose another folder")
    was, is_ = before.get("settings", {}), facts["settings"]
    for name in MUST_STAY:
        if was.get(name) != is_.get(name):
            before_, now_ = (str(value)[:12] if value else "none" for value in (was.get(name), is_.get(name)))
            raise InputError(
                f"{folder}: was begun with --{name} {before_}, now it is {now_}: "
                "give the same, or choose another folder"
            )
    changed = [
        f"{option(name)} {given(is_[name])} ({given(was.get(name))} before)"
        for name in is_
        if is_[name] != was.get(name)
    ]
    if before.get("falsifier") != facts["falsifier"]:
        changed.append(f"falsifier {facts['falsifier']} ({before.get('falsifier')} before)")
    if changed:
        yield f"{folder}: goes on with {', '.join(changed)}; what is decided stays"


def option(name: str) -> str:
    """The option that a setting comes from."""
    return "--max-evaluations" if name == "evaluations" else f"--{name.replace('_', '-')}"


def given(value: Any) -> str:
    """The value of a setting as it was given."""
    return "not given" if value is None else str(value)


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
    """Name, system, cores that this process may keep busy, and bytes of memory."""
    system = os.uname()
    return {
        "name": system.nodename,
        "platform": f"{system.sysname} {system.release} {system.machine}",
        "cores": free_cores(),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }
