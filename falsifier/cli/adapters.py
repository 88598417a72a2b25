"""`falsifier adapters`: who could take what a search leaves open, and the command that installs what is missing."""

from __future__ import annotations

from pathlib import Path

from falsifier.cli.arguments import Parser
from falsifier.errors import InputError


def run(words: list[str], started: float) -> int:
    """Print a line for each adapter and each name of the configuration."""
    parser = Parser("adapters", "List the adapters that --then can hand over to, with availability and version.")
    parser.add_argument("--config", metavar="FILE", help="settings of adapters: its names are listed too")
    options = parser.parse_args(words)

    from falsifier.handoff import configuration, discovery

    path = Path(options.config) if options.config else None
    tables = configuration.read(path) if path else {}
    names = dict.fromkeys([*discovery.found(), *tables])
    width = max(map(len, names), default=0)
    for name in names:
        print(f"{name:{width}}  {_line(name, path)}")
    return 0


def _line(name: str, path: Path | None) -> str:
    from falsifier.handoff import configuration, discovery

    try:
        availability = configuration.adapter_of(name, path).availability()
        version = availability.told()
    except InputError as error:
        return f"unusable: {error}"
    except Exception as error:  # noqa: BLE001 - a third party's adapter must not hide the others
        return f"unusable: {discovery.one_line(error)}"
    if availability.available:
        return f"available {discovery.shortened(version)}".rstrip()
    return f"not available: {discovery.shortened(availability.remedy)}"
