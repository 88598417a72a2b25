"""What is gained after a first witness: margins, distances from the centre, numbers of witnesses.

    python benchmarks/refinement.py --family acasxu_2023 --family mnist_fc [--per-family 3] [--timeout 20]

Rows whose answer is known to be `sat`. Beside the first witness's distance stands that of plain projected gradient
descent: signs of the gradient, steps of a hundredth of the box from its centre, until the query is satisfied. Prints a
line per run on standard error and JSON on standard output.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from falsifier.falsify import Prepared
from falsifier.objective import Reduction
from falsifier.refinement import Refinement
from falsifier.search.refine.geometry import Metric

ARENA = Path(__file__).resolve().parents[2] / "shared" / "arena"
_STEP, _STEPS = 0.01, 200
WISHES = {
    "deepen": Refinement(deepen=True),
    "linf": Refinement(nearest="centre", norm="linf"),
    "l2": Refinement(nearest="centre", norm="l2"),
    "disjuncts": Refinement(witnesses=100),
    "apart": Refinement(witnesses=100, distinct="distance", apart=0.25),
}


def rows_of(options: argparse.Namespace) -> list[dict[str, str]]:
    """Rows with one network, spread over the list of every family that was asked for."""
    chosen = []
    with (options.arena / "instances.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["expected"] == "sat" and row["network"][0] != "["]
    for family in options.family:
        own = [row for row in rows if row["family"] == family]
        take = min(options.per_family, len(own))
        chosen += [own[i * len(own) // take] for i in range(take)]
    return chosen


def plain(prepared: Prepared, norm: str) -> float | None:
    """The distance from the centre of the first point that plain gradient steps satisfy a target at."""
    problems = prepared.problems
    problem = problems.batched
    if not problem.differentiable:
        return None
    lower, upper = (side.astype(np.float64) for side in problems.hull())
    metric = Metric(lower / 2 + upper / 2, norm)
    target = np.arange(min(problem.t, 64))
    low, high = problem.box(target)
    x = np.clip(metric.free(problem) + 0 * low, low, high)
    for _ in range(_STEPS):
        evaluation, _, gradient = problem.ascend(x, target, Reduction.HARD)
        good = np.flatnonzero(evaluation.margin >= 0)
        if good.size:
            return float(metric.of_lanes(problem, x[good]).min())
        x = np.clip(x + _STEP * (high - low) * np.sign(gradient), low, high).astype(x.dtype)
    return None


def measured(row: dict[str, str], wish: str, options: argparse.Namespace) -> dict[str, Any]:
    """One run."""
    paths = [options.arena / row[key] for key in ("network", "property")]
    prepared = Prepared(paths[0], paths[1], device=options.device)
    start = time.monotonic()
    result = prepared.search(start + options.timeout, refinement=WISHES[wish])
    record: dict[str, Any] = {
        "family": row["family"],
        "network": paths[0].name,
        "property": paths[1].name,
        "wish": wish,
        "seconds": round(time.monotonic() - start, 2),
        "evaluations": result.evaluations,
        "witnesses": len(result.witnesses),
        "disjuncts": len(result.margins),
    }
    if result.witnesses:
        first = result.witnesses[0]
        best = next(found for found in result.witnesses if found.witness is result.witness)
        record |= {"first": [first.margin, first.distance], "best": [best.margin, best.distance]}
    if wish in ("linf", "l2"):
        record["plain"] = plain(Prepared(paths[0], paths[1], device=options.device), wish)
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arena", type=Path, default=ARENA)
    parser.add_argument("--family", action="append", required=True)
    parser.add_argument("--per-family", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=20.0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--wish", action="append", choices=list(WISHES))
    options = parser.parse_args()
    records = []
    for row in rows_of(options):
        for wish in options.wish or list(WISHES):
            records.append(measured(row, wish, options))
            print(json.dumps(records[-1]), file=sys.stderr, flush=True)
    print(json.dumps({"timeout": options.timeout, "runs": records}, indent=1))


if __name__ == "__main__":
    main()
