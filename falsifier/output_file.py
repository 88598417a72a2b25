"""Files that are written for a user: whole or not at all, whatever becomes of the disk meanwhile."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from falsifier.errors import InputError


def write(path: str | os.PathLike[str], content: str | bytes, what: str = "it") -> None:
    """Let a file, or what a symbolic link leads to, hold a content. Raises InputError where it cannot be written.

    what: what a message calls the content.
    """
    try:
        replace(real(path), content)
    except (OSError, ValueError) as error:
        raise unwritable(path, error, what) from None


def replace(path: Path, content: str | bytes) -> None:
    """Let a file hold a content: at every moment it is the old one or the whole new one. `path` is no symbolic link.

    Text is written in UTF-8; bytes of file names that are none are written as they are.

    Raises OSError. Nothing half written stays then.
    """
    data = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
    if path.exists() and not path.is_file():  # a pipe or a device is not replaced
        path.write_bytes(data)
        return
    part = path.with_name(f".{os.getpid()}.part") if len(os.fsencode(path.name)) > 240 else _beside(path)
    try:
        part.write_bytes(data)
    except PermissionError:  # a folder may be closed while the file in it is open
        path.write_bytes(data)
        return
    except OSError:
        with suppress(OSError):
            part.unlink()
        raise
    try:
        os.replace(part, path)
    except OSError as error:
        part.unlink()
        if not isinstance(error, PermissionError):
            raise
        path.write_bytes(data)  # that of another user, who keeps it from being replaced and lets it be written


def demand_another(
    option: str, target: str | os.PathLike[str] | None, files: Iterable[str | os.PathLike[str] | None], whole: str
) -> None:
    """Raise InputError where what an option names is one of the files of `whole`, by whatever name or link.

    `target` and files that are None, or not there, are none.
    """
    if target is not None and os.path.exists(target) and any(_same(target, file) for file in files):
        raise InputError(f"{option} {os.fspath(target)}: a file of {whole}, which would be lost: name another")


def _same(one: str | os.PathLike[str], other: str | os.PathLike[str] | None) -> bool:
    try:
        return other is not None and os.path.samefile(one, other)
    except (OSError, ValueError):  # one of them is not there
        return False


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether what is written to a path goes on to somebody and cannot be replaced: a pipe, a device, `/dev/stdout`."""
    there = os.path.exists(path) and not os.path.isdir(path)
    return _descriptor(path) is not None or (there and not os.path.isfile(path))


def stream(path: str | os.PathLike[str], content: str) -> None:
    """Write to what is no file that can be replaced. Raises OSError."""
    descriptor = _descriptor(path)
    if descriptor is None:
        Path(path).write_bytes(content.encode("utf-8", "surrogateescape"))
        return
    # its name would lead to the file behind it, whose other writers keep their place in it
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content.encode("utf-8", "surrogateescape"))


def _descriptor(path: str | os.PathLike[str]) -> int | None:
    """The number of the descriptor that a path is a name of."""
    folder, _, name = os.fspath(path).rpartition("/")
    if folder == "/dev" and name in ("stdout", "stderr"):
        return 1 if name == "stdout" else 2
    return int(name) if folder in ("/dev/fd", "/proc/self/fd") and name.isdecimal() else None


def real(path: str | os.PathLike[str]) -> Path:
    """What a path leads to, be it there or not. Raises OSError for symbolic links that form a loop."""
    found = Path(os.path.realpath(path))
    if found.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
    return found


def unwritable(path: str | os.PathLike[str], error: OSError | ValueError, what: str = "it") -> InputError:
    """The error of a file or a folder that cannot be written."""
    reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    reason = "its symbolic links form a loop" if "symbolic links" in reason else reason
    subject = "cannot" if what == "it" else f"{what} cannot"
    return InputError(f"{os.fspath(path)}: {subject} be written ({reason})")


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.{os.getpid()}.part")
