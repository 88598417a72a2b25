"""Whether files are still those that were read."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

Stamp = tuple[int, ...] | None


def stamps(files: Iterable[Path]) -> dict[Path, Stamp]:
    """What changes when a file is written or replaced; None where there is no file."""
    return {file: _stamp(file) for file in files}


def unchanged(before: dict[Path, Stamp]) -> bool:
    """Whether all files still have their stamps."""
    return all(_stamp(file) == stamp for file, stamp in before.items())


def _stamp(file: Path) -> Stamp:
    try:
        info = os.stat(file)
    except OSError:
        return None
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns
