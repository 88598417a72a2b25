"""One companion, as the main process sees it. Nothing here waits for it."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress

from falsifier.companions.telling import Ear, RubbishError, Task, Told

_MODULE = "falsifier.worker.companion"
_MOST = 1 << 20  # bytes that are read in one look
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Companion:
    """A process that searches. number: from 1; n, targets: of its instance."""

    def __init__(self, number: int, task: Task, n: int, targets: int) -> None:
        """Raises OSError where it cannot be started."""
        self.number, self.evaluations, self.shown = number, 0, 0
        self.heard = False  # whether it has told anything
        self._dropped = False
        self._ear = Ear(n, targets)
        self._reader, theirs = os.pipe()
        os.set_blocking(self._reader, False)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", _MODULE, str(theirs), str(os.getpid())],
                stdin=subprocess.PIPE,  # open as long as this process is
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **dict.fromkeys(_THREADS, "1")},
                pass_fds=[theirs],
            )
        except OSError:
            os.close(self._reader)
            raise
        finally:
            os.close(theirs)
        self.pid = self._process.pid
        with suppress(OSError):  # it has died
            assert self._process.stdin is not None
            os.write(self._process.stdin.fileno(), task.packed())

    def hear(self) -> list[Told]:
        """What it has told since; its points, each with the target and the stage, are for the caller to ask about."""
        heard: list[Told] = []
        if self._reader < 0:
            return heard
        try:
            some = os.read(self._reader, _MOST)
        except BlockingIOError:
            return heard
        except OSError:
            some = b""
        try:
            for told in self._ear.hear(some):
                self.evaluations, self.heard = told.evaluations, True
                heard.append(told)
        except RubbishError:
            self.drop()
        if not some:  # it has ended
            self._close()
        return heard

    def drop(self) -> None:
        """It is not to be listened to any more."""
        self._dropped = True
        self.kill()
        self._close()

    @property
    def over(self) -> bool:
        """Whether nothing more comes from it."""
        return self._reader < 0

    @property
    def lost(self) -> bool:
        """Whether it died or was dropped. Status 0 is that of one which found something, or had nothing left to do."""
        return self._dropped or (self.over and self._process.poll() not in (None, 0))

    def kill(self) -> None:
        """End it at once."""
        with suppress(OSError):
            self._process.kill()

    def bury(self) -> None:
        """Wait until it is gone."""
        self._close()
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        self._process.wait()

    def _close(self) -> None:
        if self._reader >= 0:
            os.close(self._reader)
            self._reader = -1
