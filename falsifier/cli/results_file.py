"""The competition's results file: at every moment it holds a whole, valid answer."""

from __future__ import annotations

import os
from pathlib import Path

from falsifier.errors import InputError

PROVISIONAL = "unknown\n"  # true whatever becomes of the run


class ResultsFile:
    """Written at once with a provisional answer, and replaced atomically by the final one, or by `error`."""

    def __init__(self, path: str) -> None:
        """Raises InputError where the file cannot be written."""
        self._path = Path(path)
        self._replace(PROVISIONAL)
        self._final = False

    def write(self, text: str) -> None:
        """Give the final answer. Raises InputError where the file cannot be written."""
        self._replace(text)
        self._final = True

    def fail(self) -> None:
        """Say that there was an error, unless the answer is out. Raises InputError where the file cannot be written."""
        if not self._final:
            self._replace("error\n")

    def _replace(self, text: str) -> None:
        try:
            replace_text(Path(os.path.realpath(self._path)), text)
        except OSError as error:
            raise InputError(f"{self._path}: the results cannot be written ({error.strerror})") from None


def replace_text(path: Path, text: str) -> None:
    """Let a file hold a text: at every moment it is the old one or the whole new one. `path` is no symbolic link.

    Raises OSError.
    """
    if path.exists() and not path.is_file():  # a pipe or a device is not replaced
        path.write_text(text)
        return
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text)
    except PermissionError:  # a folder may be closed while the file in it is open
        path.write_text(text)
        return
    try:
        os.replace(part, path)
    except OSError:
        part.unlink()
        raise
