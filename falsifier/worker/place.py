"""Where a worker and its client meet: folders, FIFOs, and who may use them."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import shutil
import signal
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

_TICK = 0.25  # seconds between two looks at signals and at the claim's process
_YOUNG = 10.0  # seconds for which a folder may be in the making
_LONGEST = 4000  # characters of an answer: it has to fit in the FIFO, which nobody may be reading


class ClosedError(Exception):
    """Nobody will come any more."""


class Place:
    """The worker's side of a meeting place, there for clients until `remove`."""

    def __init__(self, base: Path, identity: str) -> None:
        """Raises OSError where it cannot be made, or where `base` is not this user's alone."""
        demand_private(base)
        self.path = base / str(os.getpid())
        making = base / f".{os.getpid()}"
        for left_over in (self.path, making):  # of a process that had this id before
            shutil.rmtree(left_over, ignore_errors=True)
        making.mkdir(0o700)
        try:
            (making / "identity").write_text(identity, errors="surrogateescape")
            for name in ("request", "answer"):
                os.mkfifo(making / name, 0o600)
            self._request = os.open(making / "request", os.O_RDONLY | os.O_NONBLOCK)
            # open for reading as well, so that it can be opened for writing before a client comes
            self._answer = os.open(making / "answer", os.O_RDWR | os.O_NONBLOCK)
            making.rename(self.path)  # a client never finds half of it
        except OSError:  # a full disk: nobody will come, nothing stays
            shutil.rmtree(making, ignore_errors=True)
            raise

    def remove(self) -> None:
        """Let no client find it any more."""
        shutil.rmtree(self.path, ignore_errors=True)

    def request(self, seconds: float, signals: Iterable[int]) -> list[str]:
        """The words that a client hands over.

        Raises ClosedError after `seconds` without a client, on one of the (blocked) `signals`, or when the client died.
        """
        poll = select.poll()
        poll.register(self._request, select.POLLIN)
        end = time.monotonic() + seconds
        data = b""
        while True:
            for _, event in poll.poll(1000 * _TICK):
                if event & select.POLLIN:
                    data += os.read(self._request, 1 << 16)
                    if (words := _words(data)) is not None:
                        return words
                else:
                    raise ClosedError("the client died")
            if signal.sigtimedwait(signals, 0) is not None:
                raise ClosedError("a signal")
            late = time.monotonic() > end
            if late and _claim(self.path):
                raise ClosedError("no client came")
            if late or (self.path / "claim").exists():
                self._demand_claimant()

    def _demand_claimant(self) -> None:
        """Raise ClosedError where the client that made the claim is gone."""
        with suppress(OSError, ValueError):
            if not Path(f"/proc/{int((self.path / 'claim').read_text())}").exists():
                raise ClosedError("the client died")

    def end_with_client(self) -> None:
        """From now on the client's death is this process's, at once, even while a library holds the interpreter."""
        die_with(self._request)

    def answer(self, text: str) -> None:
        """Send the answer and close."""
        with suppress(OSError):
            os.write(self._answer, text[:_LONGEST].encode(errors="surrogateescape"))
        os.close(self._answer)


def die_with(reader: int) -> None:
    """End this process when the last writer of a pipe or FIFO, which nobody writes to any more, closes it.

    The kernel ends it by SIGIO.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(reader, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(reader, fcntl.F_SETFL, fcntl.fcntl(reader, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    if poll.poll(0):  # closed before the kernel was asked to tell
        os._exit(1)


def tidy(base: Path, identity: str) -> int:
    """Remove what dead workers left, end those that wait for the same instance, and return how many others wait."""
    others = 0
    for path in _folders(base):
        if not _alive(path):
            with suppress(OSError):
                if path.stat().st_mtime < time.time() - _YOUNG:
                    shutil.rmtree(path, ignore_errors=True)
        elif (path / "identity").read_text(errors="surrogateescape") != identity:
            others += 1
        elif _claim(path):  # a claim without a request: a client that died
            with suppress(OSError):
                os.close(os.open(path / "request", os.O_RDWR | os.O_NONBLOCK))
    return others


def _folders(base: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from sorted(base.iterdir())


def _alive(path: Path) -> bool:
    """Whether a worker holds the FIFOs of a folder."""
    try:
        os.close(os.open(path / "answer", os.O_WRONLY | os.O_NONBLOCK))
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT, errno.ENOTDIR):
            return False
        raise
    return True


def _claim(path: Path) -> bool:
    """Take a worker as a client does; False where another was first or the folder is gone."""
    try:
        with open(path / "claim", "x") as file:
            file.write(f"{os.getpid()}\n")
    except OSError:
        return False
    return True


def _words(data: bytes) -> list[str] | None:
    """The words of a request, None while it is not whole."""
    count, *words = data.decode(errors="surrogateescape").split("\0")
    return words[:-1] if count.isdigit() and len(words) > int(count) else None


def demand_private(base: Path) -> None:
    """Make a folder if it is not there. Raises OSError where it is not this user's alone."""
    with suppress(FileExistsError):
        base.mkdir(0o700)
    info = base.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & 0o077:
        raise PermissionError(errno.EPERM, "not a folder of this user alone", str(base))
