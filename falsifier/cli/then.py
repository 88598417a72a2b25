"""`--then NAME`: the options by which a command hands what its search leaves open to a verifier."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from falsifier.cli.arguments import Parser, seconds
from falsifier.errors import InputError

if TYPE_CHECKING:
    from falsifier.handoff.adapter import Adapter

_WITHOUT = {"config": "--config", "then_after": "--then-after"}  # options that mean nothing without --then


def add_then(parser: Parser) -> None:
    """The options."""
    add = parser.add_argument
    add(
        "--then",
        metavar="NAME",
        help="hand what stays open to this adapter (falsifier adapters lists them) or table of --config",
    )
    add("--config", metavar="FILE", help="settings of adapters, a table for each name (docs/handoff.md)")
    add(
        "--then-after",
        type=seconds,
        metavar="SECONDS",
        help="counted like the time limit: how long the search has before the hand-off (default: the adapter's share)",
    )


def adapter_of(options: Namespace) -> Adapter | None:
    """Who gets what stays open, None for nobody.

    Raises InputError for a name that is nobody's, and for settings of a hand-off that nobody asked for.
    """
    if options.then is None:
        for name, option in _WITHOUT.items():
            if getattr(options, name) is not None:
                raise InputError(f"{option} belongs to --then NAME, which is not given")
        return None
    from falsifier.handoff.configuration import adapter_of

    return adapter_of(options.then, Path(options.config) if options.config else None)


def searching(options: Namespace, adapter: Adapter, limit: float) -> float:
    """Seconds of a time limit that the search has before the hand-off."""
    after: float = adapter.share * limit if options.then_after is None else options.then_after
    return min(after, limit)
