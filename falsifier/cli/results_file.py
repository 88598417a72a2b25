"""The competition's results file: at every moment it holds a whole, valid answer."""

from __future__ import annotations

from pathlib import Path

from falsifier.output_file import is_stream, real, replace, stream, unwritable

PROVISIONAL = "unknown\n"  # true whatever becomes of the run


class ResultsFile:
    """Written at once with a provisional answer, and replaced atomically by the final one, or by `error`.

    What cannot be replaced, such as a pipe, gets the final answer alone.
    """

    def __init__(self, path: str) -> None:
        """Raises InputError where the file cannot be written."""
        self._path = Path(path)
        self._final = False
        self.stream = is_stream(path)
        """Whether only one answer can be given, the final one."""
        if not self.stream:
            self._replace(PROVISIONAL)

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
            if self.stream:
                stream(self._path, text)
            else:
                replace(real(self._path), text)
        except (OSError, ValueError) as error:
            raise unwritable(self._path, error, "the results") from None
