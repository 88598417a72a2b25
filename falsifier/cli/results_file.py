"""The competition's results file: at every moment it holds a whole, valid answer."""

from __future__ import annotations

import os
from pathlib import Path

from falsifier.errors import InputError

PROVISIONAL = "unknown\n"  # true whatever becomes of the run


class ResultsFile:
    """Written at once with a provisional answer, and replaced atomically by the final one."""

    def __init__(self, path: str) -> None:
        """Raises InputError where the file cannot be written."""
        self._path = Path(path)
        self.write(PROVISIONAL)

    def write(self, text: str) -> None:
        """Replace the answer. Raises InputError where that fails."""
        part = self._path.with_name(f"{self._path.name}.{os.getpid()}.part")
        try:
            try:
                part.write_text(text)
                os.replace(part, self._path)
            except PermissionError:
                # a folder may be closed while the file in it is open
                self._path.write_text(text)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise InputError(f"{self._path}: the results cannot be written ({error.strerror})") from None
