"""Settings of adapters, by the name under which `--then` asks for them: a TOML file (docs/handoff.md).

[my_solver]                     # falsifier verify ... --then my_solver --config FILE
adapter = "standard_solver"     # the entry point; by default the name itself
command = "/opt/solver/bin/solver"
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from falsifier.errors import InputError
from falsifier.handoff import discovery
from falsifier.handoff.adapter import Adapter
from falsifier.input_file import read_text


def read(path: Path) -> dict[str, dict[str, Any]]:
    """The tables of a configuration. Raises InputError for a file that is none."""
    import tomllib

    try:
        tables = tomllib.loads(read_text(path))
    except InputError:
        raise
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{path}: is no TOML: {error}") from None
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise InputError(f"{path}: {name!r} stands outside of a table: write [{name}] and its settings below")
    return tables


def adapter_of(name: str, path: Path | None = None) -> Adapter:
    """The adapter that a name asks for: a table of the configuration, or an adapter with default settings.

    Raises InputError for an unknown name and for settings that the adapter cannot use.
    """
    tables = read(path) if path else {}
    settings = dict(tables.get(name, {}))
    kind = settings.pop("adapter", name)
    if name not in tables and kind not in discovery.found():
        known = ", ".join(dict.fromkeys([*tables, *discovery.found()])) or "none: none is installed"
        raise InputError(f"nothing named {name!r} to hand over to: choose one of {known}")
    return discovery.make(str(kind), settings)
