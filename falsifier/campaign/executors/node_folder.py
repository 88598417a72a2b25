"""Folders that workers share on a node: the files of a campaign by their content, and seats at the node's cores.

They are private, and each vanishes with the last that uses it. What a killed node leaves is removed by the next
campaign that comes there: a lock, which dies with its process, tells what is in use.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path

_PREFIX = "falsifier-node-"


class NodeFolder:
    """Used from construction to `leave`. use, owner: what makes its name: all who give the same share it."""

    def __init__(self, use: str, owner: str) -> None:
        base = Path(tempfile.gettempdir())
        for other in base.glob(f"{_PREFIX}*"):
            _remove(other)
        self.path = base / f"{_PREFIX}{use}-{owner}"
        self._locks: list[int] = []
        while not self._enter():
            pass

    def leave(self) -> None:
        """Use it no longer; the last one out removes it."""
        for lock in self._locks:
            os.close(lock)
        self._locks.clear()
        _remove(self.path)

    def seat(self) -> int:
        """The lowest number that nobody else has who uses the folder."""
        return next(seat for seat in count() if self._take(f"seat-{seat}"))

    def holds(self, key: str) -> bool:
        """Whether the files of that name are there."""
        return (self.path / key).is_dir()

    def put(self, key: str, files: Mapping[str, bytes]) -> None:
        """Put files there, under the names that they have to each other. Raises OSError."""
        part = Path(tempfile.mkdtemp(dir=self.path, prefix="part-"))
        try:
            for name, data in files.items():
                target = part / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
            with suppress(OSError):  # another worker of this node was first
                part.rename(self.path / key)
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def _enter(self) -> bool:
        """Take a share of the folder's lock; False where it was removed meanwhile."""
        with suppress(FileExistsError):
            self.path.mkdir(0o700)
        try:
            lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            return False
        fcntl.flock(lock, fcntl.LOCK_SH)
        if not _is_same(lock, self.path / "lock"):
            os.close(lock)
            return False
        self._locks.append(lock)
        return True

    def _take(self, name: str) -> bool:
        lock = os.open(self.path / name, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            return False
        self._locks.append(lock)
        return True


def _remove(folder: Path) -> None:
    """Remove a folder that nobody uses."""
    try:
        lock = os.open(folder / "lock", os.O_RDWR)
    except OSError:  # of another user, or gone
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        return
    finally:
        os.close(lock)


def _is_same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False
