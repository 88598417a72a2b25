"""A campaign beside other tools that run the same instances one by one.

    python benchmarks/campaign.py [--family safenlp ...] [--expected sat] [--tool NAME=FOLDER ...] [--sample 6]
        [--timeout 20] [--rng-seed 0] [--out REPORT.json]

For every family of the arena: all its rows as one `falsifier campaign`, timed as a process from start to end, every
witness judged by the arena's judge. FOLDER holds the competition's scripts of a tool (`vnncomp_scripts` for this one,
one instance at a time); each runs a sample of the same rows by the arena's protocol, half before and half after the
campaign, so that a change of load meets both. What it would take for all rows is its mean times their number.

Prints a table on standard error, and JSON on standard output or in `--out`. Exit status 1 if a witness was refused.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from peers_machine import load_average, machine, versions

ROOT = Path(__file__).resolve().parents[1]
ARENA = ROOT.parent / "shared" / "arena"
FAMILIES = ("safenlp", "rl_benchmarks", "acasxu_2023")
GOOD = ("exact", "correct")


def rows_of(options: argparse.Namespace, family: str) -> list[dict[str, str]]:
    """The rows of a family that are asked for, those with one network."""
    with (options.arena / "instances.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["family"] == family]
    return [row for row in rows if row["expected"] in options.expected and not row["network"].startswith("[")]


def spread(count: int, of: int) -> list[int]:
    """So many numbers below `of`, evenly spread."""
    count = min(count, of)
    return [i * of // count for i in range(count)]


def one_by_one(tool: tuple[str, Path], rows: list[dict[str, str]], options: argparse.Namespace, work: Path) -> Any:
    """Seconds and answers of a tool on rows, one after the other."""
    protocol = importlib.import_module("run_arena")
    arguments = argparse.Namespace(
        instances=options.arena / "instances.csv", timeout=options.timeout, tool=tool[1], rng_seed=options.rng_seed
    )
    os.environ["FALSIFIER_WORKER"] = "off"
    runs = []
    for row in rows:
        answer, seconds, *_ = protocol.run(row, arguments, work, work)
        runs.append({"query": row["property"], "answer": answer, "seconds": round(seconds, 4)})
    return runs


def campaign(family: str, rows: list[dict[str, str]], options: argparse.Namespace, work: Path) -> dict[str, Any]:
    """One campaign over the rows, and what the judge says of its witnesses."""
    judge = importlib.import_module("judge")
    protocol = importlib.import_module("run_arena")
    table, out = work / "instances.csv", work / f"out-{family}"
    pairs = {}
    with table.open("w", newline="") as file:
        for row in rows:
            names = [protocol.plain(row[key], options.arena, work) for key in ("network", "property")]
            csv.writer(file).writerow([*names, row["timeout_s"]])
            pairs[tuple(names)] = row
    words = [sys.executable, "-m", "falsifier", "campaign", str(table), "--out", str(out), "--category", family]
    words += ["--timeout", f"{options.timeout:g}", "--rng-seed", str(options.rng_seed)]
    load, start = load_average(), time.monotonic()
    done = subprocess.run(words, cwd=work, stderr=subprocess.PIPE, text=True, check=False)
    seconds = time.monotonic() - start
    verdicts, classes, refused = Counter[str](), Counter[str](), []
    with (out / "results.csv").open(newline="") as file:
        results = list(csv.reader(file))
    witnesses = {path.name: path for path in (out / family).glob("*.counterexample.gz")}
    for _, network, query, _, verdict, _ in results:
        verdicts[verdict] += 1
        if verdict != "sat":
            continue
        path = _witness(witnesses, network, query)
        text = gzip.decompress(path.read_bytes()).decode()
        found, why = judge.judge(str(work / query), text, [(None, str(work / network))])
        classes[found] += 1
        if found not in GOOD:
            refused.append(f"{query}: {found}: {why}")
    return {
        "family": family,
        "rows": len(rows),
        "networks": len({row["network"] for row in rows}),
        "seconds": round(seconds, 3),
        "load": load,
        "exit status": done.returncode,
        "verdicts": dict(verdicts),
        "witnesses": dict(classes),
        "refused": refused,
        "undecided": len(rows) - len(results),
        "stderr": done.stderr.splitlines()[-5:],
    }


def _witness(witnesses: dict[str, Path], network: str, query: str) -> Path:
    """The witness of a row: its name, or, where rows of that name meet, the longer one with their folders."""
    net, question = Path(network), Path(query)
    short = f"{net.stem}_{question.stem}.counterexample.gz"
    long = f"{net.parent.name}_{net.stem}_{question.parent.name}_{question.stem}.counterexample.gz"
    return witnesses[short] if short in witnesses else witnesses[long]


def measure(family: str, options: argparse.Namespace, work: Path) -> dict[str, Any]:
    """A family: the campaign between two halves of every tool's sample."""
    rows = rows_of(options, family)
    if not rows:
        raise SystemExit(f"{family}: no rows with expected {', '.join(options.expected)}")
    sample = [rows[i] for i in spread(options.sample, len(rows))]
    halves = [sample[::2], sample[1::2]]
    runs: dict[str, list[Any]] = {}
    for tool in options.tool:
        runs[tool[0]] = one_by_one(tool, halves[0], options, work)
    report = campaign(family, rows, options, work)
    for name, folder in options.tool:
        runs[name] += one_by_one((name, folder), halves[1], options, work)
    report["tools"] = {}
    for name, own in runs.items():
        mean = sum(run["seconds"] for run in own) / len(own)
        report["tools"][name] = {
            "mean seconds": round(mean, 3),
            "all rows": round(mean * len(rows), 1),
            "times the campaign": round(mean * len(rows) / report["seconds"], 1),
            "runs": own,
        }
    return report


def show(report: dict[str, Any]) -> None:
    """A line for a family and for each tool."""
    print(
        f"{report['family']:16} {report['rows']} rows, {report['networks']} networks: {report['seconds']:.2f} s, "
        f"{report['verdicts']}, witnesses {report['witnesses']}, {len(report['refused'])} refused",
        file=sys.stderr,
    )
    for name, tool in report["tools"].items():
        print(
            f"    {name}: {tool['mean seconds']:.2f} s each on {len(tool['runs'])} of them, {tool['all rows']:.0f} s "
            f"for all: {tool['times the campaign']} times as long",
            file=sys.stderr,
        )


def parse(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", nargs="+", default=list(FAMILIES))
    parser.add_argument("--expected", nargs="+", default=["sat"])
    parser.add_argument("--tool", action="append", default=[], type=_tool, metavar="NAME=FOLDER")
    parser.add_argument("--sample", type=int, default=6, help="rows that each tool runs")
    parser.add_argument("--timeout", type=float, default=20.0)
    parser.add_argument("--rng-seed", type=int, default=0)
    parser.add_argument("--arena", type=Path, default=ARENA)
    parser.add_argument("--work", help="where temporary files go")
    parser.add_argument("--out", type=Path)
    return parser.parse_args(words)


def _tool(text: str) -> tuple[str, Path]:
    name, equals, folder = text.partition("=")
    if not equals or not (Path(folder) / "run_instance.sh").exists():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=FOLDER with run_instance.sh in it")
    return name, Path(folder).resolve()


def main() -> int:
    options = parse()
    sys.path.insert(0, str(options.arena))
    reports = []
    for family in options.family:
        with tempfile.TemporaryDirectory(prefix="campaign-", dir=options.work) as folder:
            reports.append(measure(family, options, Path(folder)))
        show(reports[-1])
    text = json.dumps({"machine": machine(), "versions": versions(), "families": reports}, indent=1)
    if options.out:
        options.out.write_text(text + "\n")
    else:
        print(text)
    return int(any(report["refused"] for report in reports))


if __name__ == "__main__":
    sys.exit(main())
