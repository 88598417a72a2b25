"""The lock of a folder: one process at a time writes there, and its death frees it."""

from __future__ import annotations

import fcntl
import os
from functools import partial
from pathlib import Path
from weakref import ref

from falsifier.errors import InputError

FILE = "campaign.lock"


class FolderLock:
    """Held from construction to `release`, or to the end of the process, however that comes.

    The lock belongs to an open file, which no child keeps: one that is started by exec does not get it, and one that is
    forked closes it, or it would hold the folder after the death of its parent.
    """

    def __init__(self, folder: Path) -> None:
        """Raises InputError where another process, or another lock of this one, holds it, or there can be none."""
        path = folder / FILE
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._file, 0)
            os.write(self._file, f"process {os.getpid()} on {os.uname().nodename}\n".encode())
        except BlockingIOError:
            holder = os.read(self._file, 200).decode(errors="replace").strip() or "another process"
            os.close(self._file)
            raise InputError(f"{folder}: is in use by {holder}: wait for it, or choose another folder") from None
        except OSError as error:
            os.close(self._file)
            raise InputError(f"{path}: cannot be locked: {error.strerror}") from None
        os.register_at_fork(after_in_child=partial(_let_go, ref(self)))  # what is registered stays so

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Let others in. Nothing happens the second time."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _let_go(lock: ref[FolderLock]) -> None:
    held = lock()
    if held is not None:
        held.release()
