"""The competition's results file: at every moment it holds a whole, valid answer."""

from __future__ import annotations

import errno
from argparse import Namespace
from pathlib import Path

from falsifier.cli import outputs as guard
from falsifier.instance import LINE_ENDS
from falsifier.output_file import is_stream, real, replace, stream, unwritable

PROVISIONAL = "unknown\n"  # true whatever becomes of the run


_FULL = {errno.ENOSPC, errno.EDQUOT}
_BLOCK = 4096  # bytes that a file has at the least, and that are written at once


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
                return
            path = real(self._path)
            try:
                replace(path, text)
            except OSError as error:
                if error.errno not in _FULL or not _overwritten(path, text.encode("utf-8", "surrogateescape")):
                    raise
        except (OSError, ValueError) as error:
            raise unwritable(self._path, error, "the results") from None


def demand_others(options: Namespace) -> None:
    """Raise InputError where an answer of `verify` would take the place of a file that it reads, or of another one."""
    results = options.results.strip(LINE_ENDS) if options.results is not None else None
    nearest = None if options.nearest == "centre" else options.nearest
    models = guard.models_of(options.network)
    query = options.query.strip(LINE_ENDS)
    further = [
        options.budgets,
        options.config,
        *(file for given in (nearest, options.start) for file in guard.inside(given)),
    ]
    targets = {"--results": results, "--json": options.json}
    guard.demand_others(targets, [query], models, "the instance")
    guard.demand_others(targets, further, (), "the run")
    guard.demand_different(targets)
    for option, folder, end in (
        ("--serialise-assignments", options.assignments, ".pb"),
        ("--witnesses", options.witnesses, ".counterexample"),
    ):
        guard.demand_none_inside(option, folder, [query, *further, *models], end)


def _overwritten(path: Path, data: bytes) -> bool:
    """Whether a file on a full disk holds a short content now, in the room that it has; else it is provisional."""
    if len(data) > _BLOCK or not path.is_file():
        return False
    with path.open("r+b", buffering=0) as file:
        try:
            whole = file.write(data) == len(data)
        except OSError:
            whole = False
        if not whole:
            data = PROVISIONAL.encode()
            file.seek(0)
            file.write(data)
        file.truncate(len(data))
    return whole
