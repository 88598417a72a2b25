"""The exceptions. Outcomes of a search are enums (`verdict.py`); exceptions are for bad input and bugs."""

from __future__ import annotations


class FalsifierError(Exception):
    """Root of every error that this package raises on purpose. Its text is one line meant for the user."""


class InputError(FalsifierError, ValueError):
    """A file or an argument cannot be used. The command line prints its text and exits with 2.

    The text names the file, the place in it (line and column where there is one), what was found, and what to do.
    """


class UnboundedError(InputError):
    """A query leaves a free input without bounds. The file is sound: a results file says `unknown`, not `error`."""


class UnsupportedError(FalsifierError, NotImplementedError):
    """A well-formed input asks for something that is not supported: the verdict is `unknown`, with this reason."""


class EngineError(FalsifierError, RuntimeError):
    """An engine cannot run a network, or runs it wrongly: the next engine is tried."""
