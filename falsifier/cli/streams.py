"""The standard streams, made fit for use whatever the caller left of them."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Lossy(io.FileIO):
    """What cannot be written is lost: a log on a full disk, or one that nobody reads any more, must not end a run."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            written: int | None = super().write(data)
        except OSError:
            written = None
        return memoryview(data).nbytes if written is None else written


def mend() -> None:
    """Open streams that were closed, on nothing; let stdout print names of files as they are, and stderr never fail.

    A closed descriptor would be that of the next file that is opened, of the results or of a database, and whatever a
    library prints would be written into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the least free number is this one
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")  # names of files may be any bytes
    sys.stderr = _lossy(sys.stderr)


def _lossy(stream: TextIO | None) -> TextIO:
    raw = io.BufferedWriter(_Lossy(2, "w", closefd=False))
    encoding = "utf-8" if stream is None else stream.encoding
    return io.TextIOWrapper(raw, encoding, "backslashreplace", line_buffering=True, write_through=True)
