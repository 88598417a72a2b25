"""What a measurement ran on: processor, memory, load, and versions of what was measured."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

_PACKAGES = ("numpy", "onnx", "onnxruntime", "torch", "scipy", "vnnlib")


def load_average() -> float:
    """Processes that ran or waited for a processor, averaged over the last minute."""
    return round(os.getloadavg()[0], 2)


def machine() -> dict[str, object]:
    """Hardware and system."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": _field("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": cores,
        "memory": _field("/proc/meminfo", "MemTotal"),
        "platform": platform.platform(),
    }


def versions(about: dict[str, str] | None = None) -> dict[str, object]:
    """Commit of this tool, interpreter and packages, and what was said about other tools."""
    return {
        "falsifier": _commit(Path(__file__).resolve().parents[1]),
        "python": platform.python_version(),
        **{name: found for name in _PACKAGES if (found := _version(name))},
        **{f"tool {name}": text for name, text in (about or {}).items()},
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _commit(root: Path) -> str:
    command = ["git", "-C", str(root), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def _field(path: str, name: str) -> str:
    """The first `name: value` of a file of the system, empty where there is none."""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return ""
    found = [line.partition(":")[2].strip() for line in lines if line.startswith(name)]
    return found[0] if found else ""
