"""A file or a text to a `Query`: opens, unpacks, recognises the version by the text, and hands over to that
version's reader.
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from falsifier.errors import InputError
from falsifier.input_file import TEXT, limit_or, read_bytes, too_large
from falsifier.query.tree import Query

_FIRST = re.compile(
    rb';[^\r\n]*|"[^"]*"|\|[^|]*\||\(\s*(?:(vnnlib-version)\s*<\s*(\d+)|(declare-network)|(declare-const|declare-fun))\b'
)


def read(path: str | os.PathLike[str], *, limit: int | None = None) -> Query:
    """Parse a VNN-LIB file, plain or gzip (told apart by the first bytes), of version 1.0 or 2.0 (told apart by the
    text).

    `limit`: the largest size of the unpacked text, in bytes; None for that of `input_file`.

    Raises InputError, one line with the file, the place and what to do, for whatever cannot be read.
    """
    name = os.fspath(path)
    text = read_bytes(name, limit_or(TEXT) if limit is None else limit)
    try:
        return parse(text, name)
    except MemoryError:
        raise too_large(name, len(text)) from None


def parse(text: bytes | str, origin: str = "<text>") -> Query:
    """Parse a VNN-LIB text; `origin` names it in messages.

    Raises InputError as `read` does.
    """
    if isinstance(text, str):
        try:
            text = text.encode("utf-8")
        except UnicodeEncodeError:
            raise InputError(f"{origin}: the text holds lone surrogates; pass bytes or valid text") from None
    with _without_collection():
        if version(text, origin) == 1:
            from falsifier.query import v1

            return v1.read(text, origin)
        from falsifier.query import v2

        return v2.read(text, origin)


@contextmanager
def _without_collection() -> Iterator[None]:
    """Trees have no cycles, and the collector would look through a growing one again and again: half of the time."""
    active = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if active:
            gc.enable()


def version(text: bytes, origin: str = "<text>") -> int:
    """1 or 2, by the first version statement or declaration outside comments.

    Raises InputError for a text that has neither, and for other versions.
    """
    for found in _FIRST.finditer(text):
        if found[1]:
            if found[2] in (b"1", b"2"):
                return int(found[2])
            line = text.count(b"\n", 0, found.start()) + 1
            raise InputError(f"{origin}:{line}: VNN-LIB version {found[2].decode()} is not known; 1.0 and 2.0 are read")
        if found[3]:
            return 2
        if found[4]:
            return 1
    if not text.strip():
        raise InputError(f"{origin}: the file is empty; expected a VNN-LIB query")
    raise InputError(f"{origin}: not a VNN-LIB query: no declare-const, declare-fun or declare-network in it")
