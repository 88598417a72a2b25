"""One worker process, as the process that hired it sees it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Pipe

from falsifier.campaign.executors.messages import Done, Message, Setup
from falsifier.campaign.units import Unit
from falsifier.machine import resident

_MOST_WRITTEN = 1 << 20  # bytes of its output that are kept
_TAIL = 4000  # bytes of them that are looked at
_LINGER = 1.0  # seconds that a killed process has to vanish


class Child:
    """A process of `worker`. memory: bytes that it may hold; it is killed above, and worn out above half of it.

    What it holds is watched, not limited by the kernel: limits there count what is allocated, of which a search and
    CUDA use a small part.
    """

    def __init__(self, name: str, setup: Setup, environment: Mapping[str, str], memory: int | None) -> None:
        """Raises OSError where it cannot be started."""
        self.name, self._memory = name, memory
        self.lost = False
        self.worn = False
        self._over = False
        self._why = ""  # why it was killed from here
        self.connection, theirs = Pipe()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        with theirs:
            words = ["-P", "-m", "falsifier.campaign.executors.worker", str(theirs.fileno()), str(os.getpid())]
            self._process = subprocess.Popen(
                [sys.executable, *words],
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                env=dict(environment),
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # whoever ends the terminal's processes means this one alone
            )
        with suppress(OSError):
            self.connection.send(setup)

    def give(self, unit: Unit) -> None:
        """Let it run a unit. Only once it is ready and has none."""
        with suppress(OSError):  # it has died: `ended` says so
            self.connection.send(unit.shipped())

    def hear(self) -> list[Message]:
        """What it has told meanwhile."""
        told: list[Message] = []
        dead = self._process.poll() is not None  # asked before: what a dead one has told is heard to the end
        with suppress(EOFError, OSError):
            while self.connection.poll(0):
                told.append(self.connection.recv())
        self._over = dead
        self._look_after(any(isinstance(message, Done) for message in told))
        return told

    def ended(self) -> str | None:
        """How it ended, once it has and `hear` has given all that it told; None before."""
        if not self._over:
            return None
        if self._why:
            return self._why
        status, said = self._process.returncode, self._last_line()
        if status >= 0:
            return f"its worker ended with status {status}{said}"
        name = signal.Signals(-status).name if -status in list(signal.Signals) else f"signal {-status}"
        hint = " (as the kernel does where memory runs out)" if -status == signal.SIGKILL else ""
        return f"its worker was ended by {name}{hint}{said}"

    @property
    def alive(self) -> bool:
        """Whether the process is still there."""
        return self._process.poll() is None

    def kill(self, why: str = "") -> None:
        """End it at once, and all that it started."""
        self._why = self._why or why
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End it, and leave nothing of it."""
        self.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_LINGER)
        self.connection.close()
        self._errors.close()

    def _look_after(self, resting: bool) -> None:
        """Hold it to its memory, and what it writes to a sensible size."""
        if self._memory is not None and not self._over:
            held = resident(self._process.pid)
            if held > self._memory and not self._why:
                self.kill(f"its worker held more than {self._memory / 1e9:.3g} GB of memory (--worker-memory)")
            self.worn = self.worn or (resting and held > self._memory / 2)
        descriptor = self._errors.fileno()
        if os.fstat(descriptor).st_size > _MOST_WRITTEN:
            os.ftruncate(descriptor, 0)
            os.lseek(descriptor, 0, os.SEEK_SET)  # it writes at the same place

    def _last_line(self) -> str:
        """The last that it wrote, as the end of a sentence."""
        descriptor = self._errors.fileno()
        size = os.fstat(descriptor).st_size
        lines = os.pread(descriptor, _TAIL, max(0, size - _TAIL)).decode(errors="replace").splitlines()
        words = " ".join(next((line for line in reversed(lines) if line.strip()), "").split())
        return f": {words[:200]}" if words else ""
