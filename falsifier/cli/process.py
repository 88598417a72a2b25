"""The running process: when it started, and how it ends on time whatever its main thread is doing."""

from __future__ import annotations

import faulthandler
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
_ANSWERING = 3.0  # seconds that `finish` has at least, from the time that the guard is set: a library may be loading
_SLICE = 0.25  # seconds between two looks of the guard at whether the work is done


def age(process: int | None = None) -> float:
    """Seconds since a process, by default this one, was started (by the kernel's record; 0 where there is none)."""
    try:
        with open(f"/proc/{process or 'self'}/stat", "rb") as file:
            # after the name in brackets, which may hold anything, the 20th field is the start in clock ticks after boot
            ticks = int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0.0
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))


def ended(process: int) -> bool:
    """Whether a process is no more, by the kernel's record; False where there is none of any process."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except (FileNotFoundError, ProcessLookupError):
        return os.path.exists("/proc/self/stat")
    except (OSError, IndexError):
        return False


class Guard:
    """Answers for the main thread when the deadline passes or a signal arrives while it is inside a library.

    A thread takes the signals and keeps the time. Then it calls `finish`, with the signal or None for the deadline, and
    the process ends at once with the status that this returns. A library that holds the interpreter's lock stops the
    thread too: for that case the process is ended, without an answer, when `last` passes.

    As a context: `with Guard(..) as guard`, and inside `with guard.answering()` once the main thread has its answer.
    """

    def __init__(
        self, deadline: float, last: float, finish: Callable[[int | None], int], parent: int | None = None
    ) -> None:
        """`deadline` and `last` are readings of `time.monotonic`, infinite for none.

        `parent`: the process whose end, however it comes, is this one's, without an answer: nobody waits for it, and
        where it would be written another run may have begun.
        """
        self._parent = parent
        self._deadline, self._last, self._finish = deadline, last, finish
        self._lock = threading.Lock()
        self._done = False
        self._blocked: set[int] = set()

    def __enter__(self) -> Guard:
        self._blocked = {int(s) for s in signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)}
        threading.Thread(target=self._watch, name="guard", daemon=True).start()
        if math.isfinite(self._last):
            self._sink = open(os.devnull, "w")
            # a limit below start-up passes while libraries load, which hold the interpreter's lock for long on a busy
            # machine: there is an answer to give all the same, and nothing is lost by waiting for the lock
            left = max(_ANSWERING, self._last - time.monotonic())
            faulthandler.dump_traceback_later(left, exit=True, file=self._sink)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._done = True
        if math.isfinite(self._last):
            faulthandler.cancel_dump_traceback_later()
            self._sink.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Held while the main thread gives its answer: from then on the guard stays silent."""
        with self._lock:
            self._done = True
            yield

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Held while the main thread writes something that must not be cut in two by the end of the process."""
        with self._lock:
            yield

    def _watch(self) -> None:
        while True:
            left = self._deadline - time.monotonic()
            caught = signal.sigtimedwait(_SIGNALS, max(0.0, min(_SLICE, left)))
            if self._done:
                return
            if self._parent is not None and os.getppid() != self._parent:
                os._exit(1)
            if caught is None and time.monotonic() < self._deadline:
                continue
            with self._lock:
                if not self._done:
                    os._exit(self._finish(None if caught is None else caught.si_signo))
