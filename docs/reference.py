"""Writes docs/reference.md from the parsers of the commands, and the list of decisions: `python docs/reference.py`.

Every command is called until it has made its parser, which is taken from it there, so that nothing has to be said
twice. A test compares the pages with what this makes.
"""

from __future__ import annotations

import argparse
import re
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

from falsifier.cli import COMMANDS
from falsifier.cli.arguments import Parser

HERE = Path(__file__).resolve().parent
PAGE = HERE / "reference.md"
DECISIONS = HERE / "decisions" / "index.md"
SETTINGS = HERE.parent / "vnncomp_scripts" / "settings.sh"

_HEAD = """\
# Reference

Every command with all of its options, the exit statuses, and what is read from the environment. This page is made by
`python docs/reference.py` from the parsers themselves; `falsifier COMMAND --help` prints the same. What files hold:
[formats](formats.md). What an answer means: [results](results.md).

`falsifier --version` prints the version, `falsifier --name` the name by which the standard's tools know this solver.
Options are never abbreviated.

## Exit statuses

| status | meaning |
|---|---|
| 0 | a completed run, whatever the verdict |
| 1 | an internal error, or a package that is not installed (the line names the extra); of some commands an answer |
| 2 | bad input: one line on standard error says what, where, and the remedy |
| 128 + n | signal n ended the run |

[Results](results.md#exit-status) has the details.

"""
# what a status says of the commands that answer with it; all others are as above
_STATUSES = {
    "check": "Of one witness: 0 whatever the judgement. Of a folder: 0 where every witness is valid and nothing is "
    "claimed without one, else 1; 2 where the folder holds none.",
    "replay": "0 where no hit reproduces; 1 while one does; 2 where none does and one cannot be run.",
    "fuzz": "0 with or without hits; with `--exit-code` 1 where there are some.",
    "campaign": "0 when every instance has its row, whatever is in it; 2 also where no row of the table can be used.",
    "serve": "0 always: a client that finds no worker answers by itself.",
    "prepass": "As `run_instance.sh`: that of `verify`. As `prepare_instance.sh`: that of the tool's own script.",
}
_REQUIRES = {
    "report": "Needs the extra `[report]`.",
    "serve": "Used by the scripts in `vnncomp_scripts`; not meant to be called by hand.",
}
_ENVIRONMENT = """\
## Environment

The scripts of the competition take their settings from `vnncomp_scripts/settings.sh`; a variable that is set in the
environment goes before what stands there. The commands themselves do not look at these.

"""
_ELSEWHERE = """
Read by the programs themselves, or by libraries below them:

- `FALSIFIER_FILE_LIMIT`: the most bytes of a file that is read, unpacked ([limits](limits.md)).
- `CUDA_VISIBLE_DEVICES`: as everywhere; empty or `-1` hides all GPUs. Workers of a campaign share the visible ones.
- `XDG_RUNTIME_DIR`, else `TMPDIR`, else `/tmp`: in its folder `falsifier-UID` warm workers wait for their run.
- `TMPDIR`: temporary files of hand-offs, and of a Ray cluster that a campaign starts.
- `PYTHON`: the interpreter that `install_tool.sh` makes the environment with (`make` has the same variable).
- `FALSIFIER_CHILD` marks programs behind a hand-off, so that what they leave running can be ended; not to be set.

Threads, workers (`auto`) and companions follow the cores that the process may keep busy: those of its CPU affinity
(`taskset`), or fewer where its control groups have a quota (of a container, or `CPUQuota=` of a service; rounded up).
There is no variable; `falsifier doctor` says how many.
"""


class _FoundError(Exception):
    """Carries a parser out of the command that made it."""

    def __init__(self, parser: Parser) -> None:
        super().__init__()
        self.parser = parser


def parsers() -> dict[str, Parser]:
    """The parser of every command, in the order of the command's own help."""

    def found(self: Parser, words: object = None) -> argparse.Namespace:
        raise _FoundError(self)

    made: dict[str, Parser] = {}
    with patch.object(Parser, "parse_args", found):
        for command in COMMANDS:
            try:
                import_module(f"falsifier.cli.{command}").run([], 0.0)
            except _FoundError as caught:
                made[command] = caught.parser
    return made


def text() -> str:
    """The page."""
    return _HEAD + "".join(_command(*item) for item in parsers().items()) + _ENVIRONMENT + _settings() + _ELSEWHERE


def _command(name: str, parser: Parser) -> str:
    actions = [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]
    places = [action for action in actions if not action.option_strings]
    words = [f"falsifier {name}", *map(_placed, places), *(["[OPTIONS]"] if len(actions) > len(places) else [])]
    lines = [f"## falsifier {name}", "", f"`{' '.join(words)}`", "", str(parser.description)]
    lines += ["", *(f"- `{p.metavar or p.dest}`: {_help(p)}" for p in places)] if places else []
    for group in parser._action_groups:
        options = [a for a in group._group_actions if a.option_strings and a in actions]
        if not options:
            continue
        title = str(group.title)
        lines += ["", f"{title[:1].upper()}{title[1:]}:", "", *map(_option, options)]
    for note in (_REQUIRES.get(name), _STATUSES.get(name) and f"Exit status: {_STATUSES[name]}"):
        lines += ["", note] if note else []
    return "\n".join(lines) + "\n\n"


def _placed(action: argparse.Action) -> str:
    word = str(action.metavar or action.dest)
    return {"?": f"[{word}]", "*": f"[{word} ...]", "+": f"{word} [{word} ...]"}.get(str(action.nargs), word)


def _option(action: argparse.Action) -> str:
    values = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
    if isinstance(values, tuple):
        values = " ".join(values)
    elif isinstance(action.nargs, int) and action.nargs > 1:
        values = " ".join([str(values)] * action.nargs)
    if action.choices and not action.metavar:
        values = "{" + ",".join(map(str, action.choices)) + "}"
    spelled = ", ".join(f"`{option} {values}`" if values else f"`{option}`" for option in action.option_strings)
    notes = ["required"] if action.required else []
    if isinstance(action, argparse._AppendAction) and "several times" not in str(action.help):
        notes.append("may be given several times")
    told = "; ".join(part for part in (_help(action), *notes) if part)
    return f"- {spelled}: {told}" if told else f"- {spelled}"


def _help(action: argparse.Action) -> str:
    told = str(action.help or "").replace("%%", "%")
    # what a page cannot show as it is: names in angle brackets, and stars
    return re.sub(r"(<\w+>[.\w]*)", r"`\1`", told)


def _settings() -> str:
    lines = ["| variable | default | |", "|---|---|---|"]
    for name, default, told in re.findall(r'^: "\$\{(\w+):=(.*?)\}" *# (.*)$', SETTINGS.read_text(), re.MULTILINE):
        lines.append(f"| `{name}` | {f'`{default}`' if default else 'empty'} | {told} |")
    return "\n".join(lines) + "\n"


def decisions() -> str:
    """The list of decisions, by the titles of their records."""
    lines = ["# Decisions", "", "What someone could want to undo, with the reasons and what was measured.", ""]
    for path in sorted(DECISIONS.parent.glob("[0-9]*.md")):
        number, title = re.findall(r"^# (\d+)\. (.*)$", path.read_text(), re.MULTILINE)[0]
        lines.append(f"- {number}: [{title}]({path.name})")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text())
    DECISIONS.write_text(decisions())
