"""Settings of an adapter, read from a table of the configuration, with one-line errors."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from falsifier.errors import InputError

_GIGABYTE = 10**9


class Table:
    """The settings of one adapter. Each is taken once; `close` refuses what is left."""

    def __init__(self, adapter: str, settings: Mapping[str, Any]) -> None:
        self._adapter, self._left = adapter, dict(settings)

    def words(self, name: str) -> list[str]:
        """A command: a list of words, or text as a shell splits it; empty where it is not set."""
        value = self._left.pop(name, [])
        if isinstance(value, str):
            return shlex.split(value)
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            return list(value)
        raise self._error(name, value, "text or a list of texts")

    def text(self, name: str, default: str) -> str:
        """Text."""
        value = self._left.pop(name, default)
        if not isinstance(value, str):
            raise self._error(name, value, "text")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """true or false."""
        value = self._left.pop(name, default)
        if not isinstance(value, bool):
            raise self._error(name, value, "true or false")
        return value

    def number(self, name: str, default: float | None, *, most: float | None = None) -> float | None:
        """A positive number."""
        value = self._left.pop(name, default)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= (most or float("inf")):
            raise self._error(name, value, "a positive number" + (f" up to {most:g}" if most else ""))
        return float(value)

    def share(self, default: float) -> float:
        """`share`: the part of the time limit that the search has before the hand-off."""
        return self.number("share", default, most=1.0) or default

    def memory(self) -> int | None:
        """`memory_gb`: address space of each process of the verifier, in bytes."""
        gigabytes = self.number("memory_gb", None)
        return None if gigabytes is None else int(gigabytes * _GIGABYTE)

    def close(self) -> None:
        """Raise InputError for a setting that nobody took."""
        if self._left:
            raise InputError(f"adapter {self._adapter}: no setting {next(iter(self._left))!r}")

    def _error(self, name: str, value: Any, wanted: str) -> InputError:
        return InputError(f"adapter {self._adapter}: {name} = {value!r}, expected {wanted}")


def is_program(command: str) -> bool:
    """Whether a command's first word can be run: on the PATH, or a path to an executable file."""
    import shutil

    return shutil.which(str(Path(command).expanduser()) if "/" in command or "~" in command else command) is not None
