"""This tool beside others: every instance given to each of them in turn, by the competition's protocol, on one machine.

    python benchmarks/peers.py --tool NAME=FOLDER [--tool NAME=FOLDER ...] [--family F ...] [--per-family 10]
        [--expected sat] [--timeout 20] [--rng-seed 0] [--about NAME=TEXT] [--out REPORT.json] [--plot CACTUS.png]

FOLDER holds a tool's `prepare_instance.sh` and `run_instance.sh`. This tool takes part twice: `warm`, as its scripts
are, and `cold`, with FALSIFIER_WORKER=off, so that the timed part begins with a fresh process (`--without warm` leaves
one out). Tools take turns instance by instance, in an order that rotates, so that a change of load meets all alike. A
`sat` counts if the arena's judge accepts its witness and it came in time.

Prints a line per run and tables on standard error, and JSON on standard output or in `--out`, with every run, its load
average, hardware and versions. Exit status 1 if an answer of this tool was wrong.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from peers_machine import load_average, machine, versions
from peers_plot import NO_MATPLOTLIB, cactus, has_matplotlib
from peers_summary import Contender, Trial, summary, tables

ROOT = Path(__file__).resolve().parents[1]
ARENA = ROOT.parent / "shared" / "arena"
OURS = (
    Contender("cold", ROOT / "vnncomp_scripts", {"FALSIFIER_WORKER": "off"}),
    Contender("warm", ROOT / "vnncomp_scripts", {"FALSIFIER_WORKER": ""}),
)
FOUND = ("sat:exact", "sat:correct")
REFUSED = ("sat:spec_not_violated", "sat:malformed", "sat:no_witness")


def chosen(options: argparse.Namespace) -> list[dict[str, str]]:
    """The rows to run: of every family `per_family`, spread evenly over its list, families in the list's order."""
    families: dict[str, list[dict[str, str]]] = defaultdict(list)
    with options.instances.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["expected"] in options.expected and (not options.family or row["family"] in options.family):
                families[row["family"]].append(row)
    rows = []
    for own in families.values():
        take = min(options.per_family, len(own))
        rows += [own[i * len(own) // take] for i in range(take)]
    return rows


@contextmanager
def environment(values: dict[str, str]) -> Iterator[None]:
    """The environment of a contender's scripts: the protocol passes on this process's own. An empty text unsets."""
    before = {name: os.environ.get(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set({name: value or "" for name, value in before.items()})


def _set(values: dict[str, str]) -> None:
    for name, value in values.items():
        os.environ.pop(name, None)
        if value:
            os.environ[name] = value


def trial(protocol: Any, contender: Contender, row: dict[str, str], options: argparse.Namespace, work: Path) -> Trial:
    """One contender on one instance."""
    arguments = argparse.Namespace(
        instances=options.instances, timeout=options.timeout, tool=contender.folder, rng_seed=options.rng_seed
    )
    load = load_average()
    with environment(contender.environment):
        answer, seconds, why, left = protocol.run(row, arguments, work, work)
    refused = answer.removesuffix(" late") in REFUSED
    return Trial(
        contender=contender.name,
        family=row["family"],
        network=row["network"],
        query=row["property"],
        answer=answer,
        seconds=round(seconds, 4),
        solved=answer in FOUND,
        wrong=refused or (answer == "unsat" and row["expected"] == "sat"),
        why=why,
        processes_left=left,
        load=load,
    )


def measure(contenders: list[Contender], rows: list[dict[str, str]], options: argparse.Namespace) -> list[Trial]:
    """Every contender on every row; what there is so far where the user interrupts."""
    sys.path.insert(0, str(options.arena))
    protocol = importlib.import_module("run_arena")
    trials: list[Trial] = []
    with tempfile.TemporaryDirectory(prefix="peers-", dir=options.work) as folder:
        try:
            for i, row in enumerate(rows):
                turn = i % len(contenders)
                for contender in contenders[turn:] + contenders[:turn]:
                    trials.append(trial(protocol, contender, row, options, Path(folder)))
                    _show(trials[-1])
        except KeyboardInterrupt:
            print("interrupted: the report holds what was run", file=sys.stderr)
    return trials


def _show(run: Trial) -> None:
    print(
        f"{run.family:28} {Path(run.query).name[:40]:40} {run.contender:12} {run.answer:22} {run.seconds:8.3f} s"
        f"  load {run.load:.1f}{'  WRONG ' + run.why if run.wrong else ''}"
        f"{f'  left {run.processes_left} processes' if run.processes_left else ''}",
        file=sys.stderr,
        flush=True,
    )


def pair(text: str) -> tuple[str, str]:
    """`NAME=VALUE` as a pair."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options, refused with one line where they cannot be used."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--tool", type=pair, action="append", default=[], metavar="NAME=FOLDER", help="another tool")
    add("--about", type=pair, action="append", default=[], metavar="NAME=TEXT", help="its version, for the report")
    add("--without", choices=[c.name for c in OURS], action="append", default=[], help="leave this one out")
    add("--arena", type=Path, default=ARENA, help="folder of run_arena.py and judge.py")
    add("--instances", type=Path, help="list of instances (default: that of the arena)")
    add("--family", nargs="*", help="only these families")
    add("--per-family", type=int, default=10, help="at most so many instances of a family")
    add("--expected", nargs="*", default=["sat"], help="only rows with these expectations")
    add("--timeout", type=float, default=20.0, help="seconds for each run")
    add("--rng-seed", type=int, default=0, help="FALSIFIER_RNG_SEED")
    add("--work", type=Path, help="where unpacked instances go for the time of the run")
    add("--out", type=Path, help="write the JSON here instead of standard output")
    add("--plot", type=Path, help="write a cactus plot (PNG) here")
    options = parser.parse_args(arguments)
    options.instances = options.instances or options.arena / "instances.csv"
    if not (options.arena / "run_arena.py").is_file():
        parser.error(f"{options.arena} holds no run_arena.py: give --arena")
    names = [name for name, _ in options.tool]
    if len({*names, "cold", "warm"}) < len(names) + 2:
        parser.error("every tool needs a name of its own, other than cold and warm")
    for name, folder in options.tool:
        if not (Path(folder) / "run_instance.sh").is_file():
            parser.error(f"--tool {name}: {folder} holds no run_instance.sh")
    if unknown := [name for name, _ in options.about if name not in names]:
        parser.error(f"--about {unknown[0]}: there is no such --tool")
    if options.per_family < 1:
        parser.error("--per-family is at least 1")
    if options.plot and not has_matplotlib():
        parser.error(NO_MATPLOTLIB)
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run, print, write. The exit status."""
    options = options_of(arguments)
    contenders = [c for c in OURS if c.name not in options.without]
    ours = [c.name for c in contenders]
    contenders += [Contender(name, Path(folder).resolve(), {}) for name, folder in options.tool]
    if not contenders:
        print("peers.py: every contender is left out", file=sys.stderr)
        return 2
    rows = chosen(options)
    if not rows:
        print("peers.py: no instance is left to run", file=sys.stderr)
        return 2
    start = load_average()
    trials = measure(contenders, rows, options)
    figures = summary(trials, ours)
    print(tables(figures), file=sys.stderr)
    report = {
        "benchmark": "peers",
        "units": {"seconds": "s of wall time of run_instance.sh; prepare_instance.sh is not timed"},
        "denominator": {
            "median and p90": "runs that solved their instance",
            "ratios": "instances that both solved; ours / theirs",
        },
        "machine": machine(),
        "versions": versions(dict(options.about)),
        "load_average": {"start": start, "end": load_average()},
        "rng_seed": options.rng_seed,
        "options": {name: str(value) for name, value in vars(options).items()},
        **figures,
        "runs": [asdict(run) for run in trials],
    }
    text = json.dumps(report, indent=1)
    if options.out:
        options.out.write_text(text + "\n")
    else:
        print(text)
    if options.plot:
        cactus(trials, options.timeout, options.plot)
    return int(any(run.wrong for run in trials if run.contender in ours))


if __name__ == "__main__":
    sys.exit(main())
