"""`falsifier merge`: one record of several, those of shards for example."""

from __future__ import annotations

import sys
from pathlib import Path

from falsifier.cli.arguments import Parser
from falsifier.counted import counted


def run(words: list[str], started: float) -> int:
    """Write the merged record and its exports."""
    options = _parser().parse_args(words)

    from falsifier.campaign.merge import merge
    from falsifier.campaign.record import tally

    found, notes = merge(Path(options.out), [Path(folder) for folder in options.records])
    for note in notes:
        print(f"falsifier: {note}", file=sys.stderr)
    print(f"falsifier: {counted(found.total(), 'answer')}: {tally(found)}; see {options.out}", file=sys.stderr)
    return 0


def _parser() -> Parser:
    parser = Parser(
        "merge",
        "Make one record of those of several campaigns: the shards of one, or campaigns over other instances. It can "
        "be exported, reported and resumed like any other. Records that contradict each other are refused.",
    )
    parser.add_argument("out", metavar="OUT", help="a new folder for the merged record and its exports")
    parser.add_argument("records", nargs="+", metavar="RECORD", help="folders of campaigns, as given to their --out")
    return parser
