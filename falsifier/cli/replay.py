"""`falsifier replay`: run saved hits again; a regression test for the user's own pipeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from falsifier import output_file
from falsifier.cli.arguments import Parser
from falsifier.cli.outputs import demand_others
from falsifier.counted import counted
from falsifier.errors import InputError

if TYPE_CHECKING:
    from falsifier.fuzz.replay import Replay


def run(words: list[str], started: float) -> int:
    """Print what each hit does now. Exit status 1 while one reproduces, else 2 where one cannot be run, else 0."""
    parser = Parser("replay", "Run saved hits again on the models as they are now.")
    parser.add_argument("folder", type=Path, metavar="DIR", help="a session, its hits, or one hit's folder")
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="another file for a model; NAME is model (the default) or against",
    )
    parser.add_argument("--json", metavar="FILE", help="the outcomes as JSON; - prints them")
    options = parser.parse_args(words)

    from falsifier.fuzz.hit import read_record
    from falsifier.fuzz.replay import Outcome, hit_folders, models_of, replay
    from falsifier.fuzz.store import DATABASE, REPORT

    models = {}
    for text in options.model:
        name, equals, path = text.rpartition("=")
        models[name if equals else "model"] = Path(path)
        if not Path(path).exists():
            raise InputError(f"{path}: there is no such file")
    folders = hit_folders(options.folder)
    known = sorted({name for folder in folders for name in read_record(folder)["models"]})
    if unknown := sorted(models.keys() - known):
        raise InputError(f"--model {unknown[0]}=: these hits have {' and '.join(known) or 'no models'}")
    session = [options.folder / DATABASE, options.folder / REPORT]
    files = [file for folder in folders for file in folder.iterdir()]
    used = {file for folder in folders for file in models_of(folder)}
    demand_others({"--json": options.json}, [*files, *session], [*models.values(), *used], "the hits")
    found = [replay(folder, models) for folder in folders]
    count, broken = (sum(one.outcome is o for one in found) for o in (Outcome.REPRODUCES, Outcome.BROKEN))
    if options.json == "-":
        print(_json(found))
    else:
        for one in found:
            print(f"{one.outcome.value}: {one.summary} [{one.folder}]" + (f": {one.text}" if one.text else ""))
        print(
            f"{count} of {counted(len(found), 'hit')} reproduce{'s' * (count == 1)}"
            + (f", {broken} cannot be run" if broken else "")
        )
        if options.json is not None:
            output_file.write(options.json, _json(found) + "\n", "the outcomes (--json)")
    return 1 if count else 2 if broken else 0


def _json(found: list[Replay]) -> str:
    records = [
        {"folder": str(r.folder), "summary": r.summary, "outcome": r.outcome.name.lower(), "text": r.text}
        for r in found
    ]
    return json.dumps(records, indent=1)
