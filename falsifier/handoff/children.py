"""Programs that run under a deadline, and end with all that they started.

Which processes are a program's is told by three signs, since each alone can be shed: descent, session, and a mark in
the environment that children inherit. What sheds all three, a daemon with an environment of its own, comes to this
process when its parent ends, which is the fourth. Linux; elsewhere only the session counts.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from falsifier.handoff import orphans

_MARK = "FALSIFIER_CHILD"
_GRACE = 0.5  # seconds between a polite request to end and the end
_LINGER = 1.0  # seconds that killed processes have to vanish
_TICK = 0.02
_MOST_OUTPUT = 1 << 28  # bytes of one stream: a program that floods its output is ended
_TAIL = 4000  # characters of stderr that are kept

_running: set[Tree] = set()  # that may have live processes


@dataclass(frozen=True)
class Ended:
    """How a program ended. status: its exit status, -N for signal N; None: the deadline, or `flooded`, ended it.

    stdout is cut at 256 MB, stderr is its end.
    """

    status: int | None
    stdout: str
    stderr: str
    flooded: bool = False

    @property
    def why(self) -> str:
        """One line on an end that was none of its own, or not with 0."""
        if self.flooded:
            return "printed without end and was stopped"
        if self.status is None:
            return "was stopped at the deadline"
        last = self.stderr.strip().splitlines()[-1:] or ["it said nothing on stderr"]
        kind = f"was ended by signal {-self.status}" if self.status < 0 else f"ended with status {self.status}"
        return f"{kind}: {' '.join(last[0].split())[:200]}"


class Tree:
    """Programs that may start others, and all that these start. Leaving the context ends whatever is left.

    memory: bytes of address space for each process.
    """

    def __init__(self, memory: int | None = None) -> None:
        self._mark, self._memory = uuid.uuid4().hex, memory
        self._sessions: list[int] = []
        self._others: set[int] = set()  # children that this process had before

    def __enter__(self) -> Tree:
        self._others = {p for p, known in (_processes() or {}).items() if known.parent == os.getpid()}
        orphans.adopt()
        _running.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        _running.discard(self)
        orphans.release()

    def run(self, command: Sequence[str], deadline: float, *, cwd: Path | None = None) -> Ended:
        """Run a program until `deadline` (a reading of `time.monotonic`) at the latest; stdin is empty.

        It is asked to end a little before, so that what it says then still counts; at the deadline all is ended. Raises
        OSError where it cannot be started.
        """
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=cwd,
                env={**os.environ, _MARK: self._mark},
                start_new_session=True,
                preexec_fn=_preparation(self._memory),
            )
            self._sessions.append(process.pid)
            status, flooded = self._watch(process, (out, err), deadline)
            if status is None:
                self.end()
                process.wait(_LINGER)
            return Ended(status, _text(out, 0), _text(err, _TAIL), flooded)

    def end(self) -> None:
        """Kill what is left, and wait until it is gone."""
        last = time.monotonic() + _LINGER
        while (left := self.members()) and time.monotonic() < last:
            self.signal(signal.SIGKILL, left)
            time.sleep(_TICK)
        for process, known in (_processes() or {}).items():
            if known.ended and self._adopted(process, known):
                orphans.bury(process)

    def signal(self, number: int, processes: Sequence[int] | None = None) -> None:
        """Send a signal to all live processes, or to some of them."""
        for process in self.members() if processes is None else processes:
            with suppress(OSError):
                os.kill(process, number)

    def members(self) -> list[int]:
        """The live processes: by mark, by session, by descent, by adoption."""
        table = _processes()
        if table is None:
            return [session for session in self._sessions if _alive(session)]
        live = {process: known for process, known in table.items() if not known.ended}
        found = {
            process
            for process, known in live.items()
            if known.session in self._sessions or _mark(process) == self._mark or self._adopted(process, known)
        }
        grown = bool(found)
        while grown:
            more = {process for process, known in live.items() if known.parent in found} - found
            grown = bool(more)
            found |= more
        return sorted(found - {os.getpid()})

    def _adopted(self, process: int, known: _Known) -> bool:
        """Whether it came to this process as an orphan, and may be this tree's.

        What this process starts itself stays in its session, or is the first process of another tree.
        """
        if known.parent != os.getpid() or process in self._others:
            return False
        sessions = {os.getsid(0)}.union(*(tree._sessions for tree in tuple(_running)))
        return known.session not in sessions and _mark(process) in (None, self._mark)

    def _watch(
        self, process: subprocess.Popen[bytes], streams: tuple[IO[bytes], IO[bytes]], deadline: float
    ) -> tuple[int | None, bool]:
        """The exit status, None where the program has to be ended; and whether it flooded its output."""
        polite = deadline - min(_GRACE, 0.25 * max(0.0, deadline - time.monotonic()))
        asked, wait = False, 0.002
        while (status := process.poll()) is None:
            now = time.monotonic()
            if any(os.fstat(stream.fileno()).st_size > _MOST_OUTPUT for stream in streams):
                return None, True
            if now >= deadline:
                return None, False
            if now >= polite and not asked:
                asked = True
                self.signal(signal.SIGTERM)
            time.sleep(max(0.0, min(wait, deadline - now)))
            wait = min(_TICK, 1.5 * wait)
        return (None if asked else status), False


def run(command: Sequence[str], deadline: float, *, cwd: Path | None = None, memory: int | None = None) -> Ended:
    """`Tree.run` of one program, of which nothing is left afterwards."""
    with Tree(memory) as tree:
        return tree.run(command, deadline, cwd=cwd)


def script(path: Path) -> list[str]:
    """The command of a script, also where it is not executable."""
    return [str(path)] if os.access(path, os.X_OK) else ["bash", str(path)]


def end_all() -> None:
    """End every program that runs now, at once: for a process that is about to end itself."""
    for tree in list(_running):
        tree.signal(signal.SIGKILL)


def _preparation(memory: int | None) -> Callable[[], None]:
    """What the child does before it becomes the program: it dies with this process, and is held to its memory."""
    import ctypes
    import resource

    try:
        prctl = ctypes.CDLL(None, use_errno=True).prctl
    except (OSError, AttributeError):
        prctl = None

    def prepare() -> None:
        if prctl is not None:
            prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if memory is not None:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # this process may have blocked what its guard waits for

    return prepare


class _Known(NamedTuple):
    """What the kernel tells of a process. ended: it only waits for its parent to take its status."""

    parent: int
    session: int
    ended: bool


def _processes() -> dict[int, _Known] | None:
    """All processes; None where there is no /proc."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return None
    table = {}
    for name in names:
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            table[int(name)] = _Known(int(fields[1]), int(fields[3]), fields[0] in (b"Z", b"X"))
    return table or None


def _mark(process: int) -> str | None:
    """The mark in its environment."""
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
            words = file.read().split(b"\0")
    except OSError:
        return None
    start = f"{_MARK}=".encode()
    return next((word[len(start) :].decode() for word in words if word.startswith(start)), None)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True


def _text(stream: IO[bytes], tail: int) -> str:
    """What was written, or the last `tail` bytes of it."""
    size = os.fstat(stream.fileno()).st_size
    stream.seek(max(0, size - tail) if tail else 0)
    return stream.read(_MOST_OUTPUT).decode(errors="replace")
