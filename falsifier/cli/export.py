"""`falsifier export`: results.csv and witness files from the record of a campaign."""

from __future__ import annotations

import sys
from contextlib import closing, nullcontext
from pathlib import Path

from falsifier.cli.arguments import Parser
from falsifier.counted import counted
from falsifier.errors import InputError


def run(words: list[str], started: float) -> int:
    """Write the exports anew."""
    options = _parser().parse_args(words)

    from falsifier.campaign import answers
    from falsifier.campaign.exports import RESULTS, Exports
    from falsifier.campaign.lock import FolderLock
    from falsifier.campaign.schema import DATABASE, readable, told

    folder = Path(options.folder)
    out = folder if options.out is None else Path(options.out)
    with closing(readable(folder)) as database:
        if options.out is not None and any((out / name).exists() for name in (DATABASE, RESULTS)):
            raise InputError(f"{out}: holds results already: choose another --out")
        # a campaign at work appends to its own results.csv
        with FolderLock(folder) if options.out is None else nullcontext(), told(folder / DATABASE):
            rows, witnesses = answers.export(database, Exports(out))
    verb = "is" if rows + witnesses == 1 else "are"
    print(f"falsifier: {counted(rows, 'row')} and {counted(witnesses, 'witness')} {verb} in {out}", file=sys.stderr)
    return 0


def _parser() -> Parser:
    parser = Parser(
        "export",
        "Write results.csv and the packed witness files of a campaign, in the competition's layout, from its record. "
        "With --out this may be done while the campaign runs.",
    )
    parser.add_argument("folder", metavar="DIR", help="the folder that the record is in: --out of the campaign")
    parser.add_argument("--out", metavar="DIR", help="where to (default: beside the record)")
    return parser
