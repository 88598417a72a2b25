"""The standard streams, made fit for use whatever the caller left of them."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


STDOUT = "standard output"


class _Lossy(io.FileIO):
    """What cannot be written is lost: a log on a full disk, or one that nobody reads any more, must not end a run."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            written: int | None = super().write(data)
        except OSError:
            written = None
        return memoryview(data).nbytes if written is None else written


class _Named(io.FileIO):
    """Says of a write that fails where it went: an error of a descriptor has no name in it."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = STDOUT
            raise


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
        at_once = {name: getattr(sys.stdout, name) for name in ("line_buffering", "write_through")}
        raw = io.BufferedWriter(_Named(1, "w", closefd=False))
        sys.stdout = io.TextIOWrapper(raw, sys.stdout.encoding, "surrogateescape", **at_once)  # names may be any bytes
    sys.stderr = _lossy(sys.stderr)


def _lossy(stream: TextIO | None) -> TextIO:
    raw = io.BufferedWriter(_Lossy(2, "w", closefd=False))
    encoding = "utf-8" if stream is None else stream.encoding
    return io.TextIOWrapper(raw, encoding, "backslashreplace", line_buffering=True, write_through=True)
