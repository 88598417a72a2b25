"""Files that a user names: one place that opens them, unpacks them, and refuses what no reader should meet.

Only regular files are read. A pipe without a writer would be waited for without end, a device has none, and whatever
can be read once only would be gone when it is read again.
"""

from __future__ import annotations

import os
import stat
from io import BufferedIOBase, BufferedReader, BytesIO
from typing import BinaryIO

from falsifier.errors import InputError

TEXT = 1 << 30
"""Bytes of a text, unpacked, that are read unless told otherwise."""

MODEL = (1 << 31) - 1
"""Bytes of a model, unpacked: a protobuf holds no more, weights beyond that lie in files beside it."""

_PART = 1 << 20  # bytes

VARIABLE = "FALSIFIER_FILE_LIMIT"
"""The environment variable that sets another limit, in bytes, for files of every kind."""

GZIP = b"\x1f\x8b"

Name = str | os.PathLike[str]

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}
_REASONS = {"Too many levels of symbolic links": "its symbolic links form a loop"}


def limit_or(default: int) -> int:
    """The limit of FALSIFIER_FILE_LIMIT, in bytes, else `default`. Raises InputError for what is no such number."""
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 18 or int(text) == 0:
        raise InputError(f"{VARIABLE}={text!r}: is not a number of bytes: unset it, or set it to one like {TEXT}")
    return int(text)


def opened(path: Name) -> BufferedReader:
    """A regular file, open for reading. Raises InputError for everything else, without waiting for it."""
    name = os.fspath(path)
    try:
        kind = stat.S_IFMT(os.stat(name).st_mode)
        if kind == stat.S_IFREG:
            # a file that becomes a pipe between the two calls is not waited for either
            return open(name, "rb", opener=lambda p, flags: os.open(p, flags | os.O_NONBLOCK))
    except OSError as error:
        raise unreadable(name, error) from None
    except ValueError:  # a NUL byte, which no path holds
        raise InputError(f"{name!r}: cannot be read: no file has such a name") from None
    what = _KINDS.get(kind, "no file")
    raise InputError(f"{name}: cannot be read: it is {what}; name a file, or write what it gives to one")


def read_bytes(path: Name, limit: int | None = None, *, packed: bool = True) -> bytes:
    """The content of a regular file, unpacked where it is gzip (told by its first bytes) and `packed` allows it.

    `limit`: its largest size in bytes, unpacked; by default `limit_or(TEXT)`. Nothing larger is kept in memory.

    Raises InputError, one line with the file and what to do.
    """
    name = os.fspath(path)
    most = limit_or(TEXT) if limit is None else limit
    try:
        with opened(name) as file:
            head = file.read(2)
            file.seek(0)
            if packed and head == GZIP:
                return gunzipped(file, name, most)
            demand_size(file, name, most)  # before any of it is read
            # as much as there is, and no more: to ask for the limit would reserve it
            return _within(file.read(min(os.fstat(file.fileno()).st_size, most) + 1), name, most)
    except OSError as error:
        raise unreadable(name, error) from None
    except MemoryError:
        raise too_large(name, most) from None


def read_text(path: Name, limit: int | None = None) -> str:
    """As `read_bytes`, of a plain file in UTF-8. Raises InputError for another encoding too."""
    return decoded(read_bytes(path, limit, packed=False), path)


def decoded(data: bytes, path: Name) -> str:
    """The content of a file as text in UTF-8. Raises InputError, with the line, for another encoding."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{os.fspath(path)}:{line}: cannot be read: it is not text in UTF-8: save it in that encoding"
        ) from None


def demand_size(file: BinaryIO, name: str, limit: int) -> None:
    """Raise InputError where an open file is larger than `limit` bytes."""
    if os.fstat(file.fileno()).st_size > limit:
        raise InputError(f"{name}: more than {limit} bytes when unpacked; raise the limit ({VARIABLE}) to read it")


def gunzipped(file: BinaryIO, name: str, limit: int) -> bytes:
    """What a gzip file holds, at most `limit` bytes. Raises InputError where it holds more or is damaged."""
    import gzip
    import zlib

    try:
        with gzip.GzipFile(fileobj=file) as unpacked:
            return _within(_in_parts(unpacked, limit + 1), name, limit)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{name}: damaged gzip file ({error}); fetch it again") from None


def _in_parts(file: BufferedIOBase, most: int) -> bytes:
    """What a file of unknown length holds, at most so many bytes, in no more memory than that takes."""
    held = BytesIO()
    while held.tell() < most and (part := file.read(min(most - held.tell(), _PART))):
        held.write(part)
    return held.getvalue()


def unreadable(name: str, error: OSError) -> InputError:
    """The error of a file that cannot be read."""
    reason = error.strerror or str(error)
    return InputError(f"{name}: cannot be read: {_REASONS.get(reason, reason)}")


def too_large(name: str, limit: int) -> InputError:
    """The error of a file, or of what is made of it, for which there is no memory."""
    return InputError(
        f"{name}: does not fit into memory: give the process more of it, or lower the limit of {limit} bytes "
        f"({VARIABLE}) to refuse such files at once"
    )


def _within(data: bytes, name: str, limit: int) -> bytes:
    if len(data) > limit:
        raise InputError(f"{name}: more than {limit} bytes when unpacked; raise the limit ({VARIABLE}) to read it")
    return data
