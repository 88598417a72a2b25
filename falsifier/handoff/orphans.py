"""Processes whose parent has ended come to this one, instead of to the first process of the machine (Linux)."""

from __future__ import annotations

import ctypes
import os
import threading
from contextlib import suppress

_SET, _GET = 36, 37  # PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER

_lock = threading.Lock()
_wanted = 0  # by how many trees at the moment
_before = 0  # what was set when the first of them asked


def adopt() -> None:
    """From now on, until as many calls of `release`: orphans of this process's descent become its children."""
    global _wanted, _before
    with _lock:
        _wanted += 1
        if _wanted == 1:
            _before = _asked()
            _set(1)


def release() -> None:
    """Undo one `adopt`."""
    global _wanted
    with _lock:
        _wanted -= 1
        if _wanted == 0:
            _set(_before)


def bury(process: int) -> None:
    """Take the exit status of an adopted process that has ended: nobody else will."""
    with suppress(OSError):
        os.waitpid(process, os.WNOHANG)


def _asked() -> int:
    value = ctypes.c_int(0)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_GET, ctypes.byref(value), 0, 0, 0)
    return value.value


def _set(value: int) -> None:
    with suppress(OSError, AttributeError):  # not Linux: then session, descent and mark have to do
        ctypes.CDLL(None).prctl(_SET, value, 0, 0, 0)
