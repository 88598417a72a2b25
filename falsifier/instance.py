"""An instance: networks, a query, a time limit. One row of instances.csv, one call of the scripts, one `verify`.

Nothing is opened here; what the competition does to paths and numbers on their way to a tool is undone here.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path

from falsifier.errors import InputError
from falsifier.records import record

LINE_ENDS = "\r\n"


@record
class NamedNetwork:
    """The file of a network, and the name that the query declares it under (None: the only one)."""

    name: str | None
    path: Path


@record
class Instance:
    """One question to answer. `timeout` is in seconds from the start of the process."""

    networks: tuple[NamedNetwork, ...]
    query: Path
    timeout: float


def parse_network(argument: str) -> tuple[NamedNetwork, ...]:
    """What stands in the ONNX position: `FILE`, `NAME=FILE` or a Python list literal of (name, file) pairs.

    A file of exactly this name wins over the other readings, so that a path may hold `=` or `[`.

    Raises InputError for a literal that is not such a list.
    """
    text = argument.strip(LINE_ENDS)
    if not text.strip():
        raise InputError("the path of the network is empty: give an ONNX file")
    if os.path.exists(text):  # False for a text that is too long for a path
        return (NamedNetwork(None, Path(text)),)
    if text.lstrip().startswith("["):
        return _parse_list(text)
    name, equals, path = text.partition("=")
    if equals and name.isidentifier():
        if not path:
            raise InputError(f"network {name} is given without a file: write {name}=FILE")
        return (NamedNetwork(name, Path(path)),)
    return (NamedNetwork(None, Path(text)),)


def parse_networks(arguments: Iterable[str]) -> tuple[NamedNetwork, ...]:
    """All networks of a command line, in order. Raises InputError for an unreadable one or a name given twice."""
    networks = tuple(network for argument in arguments for network in parse_network(argument))
    names = [network.name for network in networks]
    for name in names:
        if names.count(name) > 1:
            what = "a network without a name" if name is None else f"network {name}"
            raise InputError(f"{what} is given {names.count(name)} times: give each network once, as NAME=FILE")
    return networks


def parse_seconds(text: str) -> float:
    """A time limit as text, in seconds: integer or decimal, perhaps with a carriage return. Raises InputError."""
    try:
        seconds = float(text.strip())
    except ValueError:
        seconds = math.nan
    if not seconds > 0:
        raise InputError(f"the time limit {text.strip()!r} is not a positive number of seconds")
    return seconds


def _parse_list(text: str) -> tuple[NamedNetwork, ...]:
    import ast

    try:
        pairs = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        pairs = None
    well_formed = (
        isinstance(pairs, list)
        and bool(pairs)
        and all(
            isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(part, str) for part in pair)
            for pair in pairs
        )
    )
    if not well_formed:
        raise InputError(f"networks {text!r}: write a list like [('f', 'a.onnx'), ('g', 'b.onnx')]")
    return tuple(NamedNetwork(name, Path(path.strip(LINE_ENDS))) for name, path in pairs)
