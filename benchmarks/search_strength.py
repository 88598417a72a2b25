"""How strong the search is: instances of a list searched in this process, found or not, by which stage, with how much
work.

    python benchmarks/search_strength.py INSTANCES.csv [--family F] [--match TEXT] [--timeout 5] [--seeds 0 1 2]
        [--workers N]

The list has the columns family, network, property and expected; paths are relative to it. Rows of several networks are
left out. Prints one line per run on standard error and JSON on standard output: per family, solved and tried runs, the
median seconds and evaluations of the solved ones, and the stages that solved them; then every run. Seconds are wall
time from the call to the answer, imports of earlier runs included: for cold starts there is the arena.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import statistics
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from falsifier.cli.arguments import workers


@dataclass(frozen=True)
class Attempt:
    """One search of one instance."""

    family: str
    instance: str
    rng_seed: int
    verdict: str
    reason: str
    stage: str | None
    seconds: float
    search_seconds: float
    evaluations: int
    margin: float | None
    companions: int = 0  # that were started
    found_by: int | None = None  # the number of one
    error: str = ""


def attempt(base: Path, row: dict[str, str], options: argparse.Namespace, rng_seed: int) -> Attempt:
    """Search one instance."""
    from falsifier.errors import FalsifierError
    from falsifier.falsify import falsify

    name = Path(row["property"]).name.removesuffix(".gz").removesuffix(".vnnlib")
    name = f"{Path(row['network']).name.removesuffix('.gz').removesuffix('.onnx')}:{name}"
    start = time.monotonic()
    try:
        result = falsify(
            base / row["network"],
            base / row["property"],
            timeout=options.timeout,
            rng_seed=rng_seed,
            max_evaluations=options.max_evaluations,
            portfolio=options.portfolio,
            device=options.device,
            workers=options.workers,
        )
    except FalsifierError as error:
        seconds = time.monotonic() - start
        return Attempt(row["family"], name, rng_seed, "error", "", None, seconds, seconds, 0, None, error=str(error))
    companions = result.companions or {"started": 0, "found": None}
    margins = [margin for margin in result.margins if margin is not None]
    return Attempt(
        family=row["family"],
        instance=name,
        rng_seed=rng_seed,
        verdict=result.verdict.value,
        reason="" if result.reason is None else result.reason.name,
        stage=result.stage,
        seconds=round(time.monotonic() - start, 4),
        search_seconds=round(result.seconds.get("search", 0.0), 4),
        evaluations=result.evaluations,
        margin=max(margins) if margins else None,
        companions=companions["started"],
        found_by=companions["found"],
    )


def chosen(options: argparse.Namespace) -> list[dict[str, str]]:
    """The rows of the list that the options ask for."""
    taken: Counter[str] = Counter()
    rows = []
    with options.instances.open(newline="") as file:
        for row in csv.DictReader(file):
            text = f"{row['family']} {row['network']} {row['property']}"
            if row["network"].startswith("[") or row["expected"] not in options.expected:
                continue
            if options.family and row["family"] not in options.family:
                continue
            if options.match and not any(part in text for part in options.match):
                continue
            taken[row["family"]] += 1
            if options.max_per_family is None or taken[row["family"]] <= options.max_per_family:
                rows.append(row)
    return rows


def summary(attempts: list[Attempt]) -> dict[str, dict[str, object]]:
    """Figures per family and over all."""
    table: dict[str, dict[str, object]] = {}
    for family in [*dict.fromkeys(a.family for a in attempts), "all"]:
        own = [a for a in attempts if family in (a.family, "all")]
        solved = [a for a in own if a.verdict == "sat"]
        table[family] = {
            "solved": len(solved),
            "tried": len(own),
            "median_seconds": round(statistics.median(a.seconds for a in solved), 3) if solved else None,
            "longest_seconds": round(max(a.seconds for a in solved), 3) if solved else None,
            "median_evaluations": int(statistics.median(a.evaluations for a in solved)) if solved else None,
            "stages": dict(Counter(str(a.stage) for a in solved)),
        }
    return table


def main() -> None:
    """Parse the arguments, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("instances", type=Path, help="list of instances (CSV)")
    parser.add_argument("--family", nargs="*", help="only these families")
    parser.add_argument("--match", nargs="*", help="only rows whose text contains one of these")
    parser.add_argument("--expected", nargs="*", default=["sat"], help="only rows with these expectations")
    parser.add_argument("--timeout", type=float, default=5.0, help="seconds per run")
    parser.add_argument("--max-evaluations", type=int, help="cap on evaluations per run")
    parser.add_argument("--max-per-family", type=int, help="at most so many rows of a family")
    parser.add_argument("--portfolio", default="standard")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=workers, default=1, help="processes that search, or auto")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0], help="rng seeds, one run each")
    parser.add_argument("--no-runs", action="store_true", help="print the summary alone")
    options = parser.parse_args()
    attempts = []
    for row in chosen(options):
        for rng_seed in options.seeds:
            run = attempt(options.instances.parent, row, options, rng_seed)
            attempts.append(run)
            margin = "" if run.margin is None else f"{run.margin:+.5f}"
            print(
                f"{run.family:28} {run.instance[-58:]:58} {rng_seed:3} {run.verdict:8} {run.stage or '-':18} "
                f"{run.seconds:7.2f} s {run.evaluations:9} {margin} {run.error[:80]}",
                file=sys.stderr,
                flush=True,
            )
    table = summary(attempts)
    for family, figures in table.items():
        print(f"{family:28} {json.dumps(figures)}", file=sys.stderr)
    report = {
        "benchmark": "search_strength",
        "units": {"seconds": "s of wall time per run", "evaluations": "forward passes of one sample"},
        "machine": {"processors": os.cpu_count(), "platform": platform.platform(), "python": platform.python_version()},
        "options": {key: str(value) for key, value in vars(options).items()},
        "families": table,
        "runs": [] if options.no_runs else [asdict(a) for a in attempts],
    }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
