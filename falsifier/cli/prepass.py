"""`falsifier prepass`: a VNN-COMP tool folder made of this tool and another one, which gets what stays open.

falsifier prepass --tool DIR --budget S v1 CATEGORY ONNX VNNLIB                    as prepare_instance.sh
falsifier prepass --tool DIR --budget S v1 CATEGORY ONNX VNNLIB RESULTS TIMEOUT    as run_instance.sh
falsifier prepass --tool DIR --budget S --write FOLDER                             makes such a folder
"""

from __future__ import annotations

import os
import shlex
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from falsifier.cli.arguments import Parser, workers
from falsifier.cli.process import age
from falsifier.errors import InputError
from falsifier.output_file import replace

if TYPE_CHECKING:
    from falsifier.cli.verify import Verification
    from falsifier.handoff.adapter import Adapter

_TOOL, _PREPARE, _RUN = "vnncomp_tool", "prepare_instance.sh", "run_instance.sh"
_SCRIPTS = ("install_tool.sh", _PREPARE, _RUN)


def run(words: list[str], started: float) -> int:
    """Behave like the script that the arguments are those of."""
    options = _parser().parse_args(words)
    tool = Path(options.tool).absolute()
    missing = [name for name in (_PREPARE, _RUN) if not (tool / name).is_file()]
    if missing:
        raise InputError(f"--tool {options.tool}: holds no {missing[0]}: name the folder with the tool's three scripts")
    _budget(options.budget, 1.0)
    given = options.words
    if options.write is not None:
        if given:
            raise InputError("--write makes a folder and runs nothing: leave out the arguments of the scripts")
        return _write(Path(options.write), tool, options)
    if given[:1] != ["v1"] or len(given) not in (4, 6):
        raise InputError(
            "give the arguments of prepare_instance.sh (v1 CATEGORY ONNX VNNLIB) or of run_instance.sh "
            "(v1 CATEGORY ONNX VNNLIB RESULTS TIMEOUT), or --write FOLDER"
        )
    if len(given) == 4:
        from falsifier.handoff.children import script

        command = [*script(tool / _PREPARE), *given]
        os.execvp(command[0], command)  # what it leaves running is for its own run
    return _run(tool, options, given, started)


def _run(tool: Path, asked: Namespace, given: list[str], started: float) -> int:
    from falsifier.cli.verify import carry_out
    from falsifier.cli.verify import parser as verify_parser
    from falsifier.instance import parse_seconds

    _, category, network, query, results, timeout = given
    # reading the tool's answer, replaying it and ending take about what this start has taken: both are in the budget
    after = max(_budget(asked.budget, parse_seconds(timeout)) - age(), 0.0)
    words = [f"--results={results}", f"--timeout={timeout}", f"--network={network}", f"--then-after={after!r}"]
    words += [f"--workers={asked.workers}"]
    options = verify_parser().parse_args([*words, f"--then={_TOOL}", "--", query])

    def make(*arguments: object) -> Verification:
        return _prepass(tool, category.strip(), *arguments)

    return carry_out(options, started, make)


def _prepass(tool: Path, category: str, *arguments: object) -> Verification:
    from falsifier.cli.verify import Verification
    from falsifier.handoff.discovery import make

    class Prepass(Verification):
        def choose_adapter(self) -> Adapter | None:
            # it has prepared itself already, in the script of its own
            return make(_TOOL, {"dir": str(tool), "category": category or "falsifier", "prepare": False})

    return Prepass(*arguments)  # type: ignore[arg-type]


def _write(folder: Path, tool: Path, options: Namespace) -> int:
    """Make a folder of three scripts."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in _SCRIPTS:
            script = folder / name
            if script.exists():
                raise InputError(f"{script}: exists already: give a folder without scripts")
        for name in _SCRIPTS:
            script = folder / name
            replace(script, _script(name, tool, options))
            script.chmod(0o755)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from None
    print(folder)
    return 0


def _script(name: str, tool: Path, options: Namespace) -> str:
    head = "#!/usr/bin/env bash\n# Written by `falsifier prepass`: this tool first, then the one named below.\n"
    if name not in (_PREPARE, _RUN):
        return f'{head}exec bash {shlex.quote(str(tool / name))} "$@"\n'
    words = [sys.executable, "-P", "-m", "falsifier", "prepass", "--tool", str(tool), "--budget", options.budget]
    words += [] if options.workers == "auto" else ["--workers", str(options.workers)]
    call = f'{shlex.join(words)} "$@"'
    if name == _PREPARE:
        return f"{head}exec {call}\n"
    # a valid answer stands before anything can go wrong; a status other than 0 would lose one that is out
    said = 'echo "the results file $5 is a file of the instance, which would be lost: name another" >&2'
    lost = f"if [[ $5 -ef $3 || $5 -ef $4 ]]; then {said}; exit 1; fi"
    return f'{head}{lost}\necho unknown >"$5" || exit 1\n{call} >/dev/null\nexit 0\n'


def _budget(text: str, timeout: float) -> float:
    """Seconds from `10` or `20%`. Raises InputError."""
    number, percent, rest = text.strip().partition("%")
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    if rest or not 0 <= value < float("inf") or (percent and value > 100):
        raise InputError(f"--budget {text!r}: give seconds, such as 10, or a share of the time limit, such as 20%")
    return value / 100 * timeout if percent else value


def _parser() -> Parser:
    parser = Parser(
        "prepass",
        "Behave as a VNN-COMP tool folder: falsify for a while, then run another tool's scripts with what is left of "
        "the time and pass its answer on, a sat only if the replay confirms it.",
    )
    add = parser.add_argument
    add("--tool", required=True, metavar="DIR", help="the folder with the three scripts of the other tool")
    add("--budget", default="10%", metavar="S", help="seconds for falsifying, or a share as 20%% (default 10%%)")
    add("--workers", type=workers, default="auto", metavar="{N,auto}", help="as for verify (default auto)")
    add("--write", metavar="FOLDER", help="make a tool folder that does this")
    add("words", nargs="*", metavar="ARGUMENT", help="those of prepare_instance.sh or of run_instance.sh")
    return parser
