"""The batch-fuzzing paper's experiments: throughput, violations over time, sensitivity to the scale factor.

    python benchmarks/batch_fuzzing.py INSTANCES.csv --families rl sri_resnet_a --window 60 [--rq 1 2 3]
        [--sizes 1 10 50 99] [--count 99] [--runs 5] [--device cpu] [--out result.json] [--plots FOLDER]

The list has the columns family, network, property and expected; paths are relative to it. A family is one network of
it; its rows are filled up to `--count` specifications around their centres (`fuzzing_specifications.py`). B counts
specifications: one lane each, as in the paper, settings by `recipes.paper_recipe`; `ours` is `recipes.our_recipe` on as
many lanes. Prints tables on standard error and JSON on standard output or to `--out`.

RQ1: seconds of a step with each of the four mutators, so that their equal shares do not hang on chance; specifications
per second = B over their mean, by the clock and by processor time (which other work on the machine hardly changes).
Sizes take turns; ratios are taken within a turn, and of all turns the median counts: the least of many would favour
short steps, which fit between what disturbs a machine. B = 1 is the sequential baseline. First counterexample: seconds
from a loop's first evaluation to the first violation on fresh sessions (`cold`: they are made meanwhile), and on ones
that are there. RQ2: violations (children that
violate, as the paper counts) and specifications falsified over the window. RQ3: the same for s in .01 ... .5 and the
modes fixed (the step itself), isotropic, anisotropic, dynamic. Windows of configurations that are compared take
turns; only their order, not their seeds, differs between runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from fuzzing_plots import NO_MATPLOTLIB, curves, sensitivity, speedups
from fuzzing_specifications import FAMILIES, Specifications, specifications
from fuzzing_statistics import NO_SCIPY, compared, grid, table
from peers_machine import load_average, machine, versions

from falsifier.arrays import Array, Rng, to_host
from falsifier.problem import Problem
from falsifier.search.loop import Loop, Recipe
from falsifier.search.recipes import our_recipe, paper_recipe
from falsifier.search.scaling.anisotropic import Anisotropic
from falsifier.search.scaling.dynamic import Dynamic
from falsifier.search.scaling.fixed import Fixed
from falsifier.search.scaling.isotropic import Isotropic
from falsifier.search.scaling.scaling import Scaling

SCALES = (0.01, 0.05, 0.1, 0.2, 0.3, 0.5)
MODES: dict[str, Callable[[float], Scaling]] = {
    "fixed": Fixed,
    "isotropic": Isotropic,
    "anisotropic": Anisotropic,
    "dynamic": Dynamic,
}
_POINTS = 60  # of a curve
_TURNS = 9


@dataclass
class Window:
    """What a loop did in a window: steps, violations, specifications falsified; `curve` over seconds of both counts."""

    steps: int = 0
    violations: int = 0
    falsified: int = 0
    first: float | None = None
    entries: int = 0
    curve: list[tuple[float, int, int]] = field(default_factory=list)


def fuzz(
    problem: Problem,
    given: Specifications,
    recipe: Recipe,
    rng_seed: int,
    seconds: float,
    *,
    until_first: bool = False,
) -> Window:
    """Run a loop of one lane a specification, for a time or to the first violation. The clock starts before the first
    evaluation."""
    start = time.perf_counter()
    out, done = Window(), np.zeros(given.count, np.bool_)

    def notice(x: Array, target: Array, margin: Array) -> None:
        if out.first is None and bool((margin >= 0).any()):
            out.first = time.perf_counter() - start

    loop = Loop(problem, recipe, Rng(rng_seed), group=given.group, notice=notice)
    step, now = loop.first, 0.0
    while True:
        violated = to_host(step.violated)
        out.violations += int(violated.sum())
        done[to_host(step.group)[violated]] = True
        now = time.perf_counter() - start
        if out.first is None and violated.any():
            out.first = now
        if not out.curve or now >= out.curve[-1][0] + seconds / _POINTS:
            out.curve.append((round(now, 4), out.violations, int(done.sum())))
        if now >= seconds or (until_first and out.first is not None):
            break
        loop.close(done)
        following = loop.step(given.count)
        if following is None:
            break
        step = following
        out.steps += 1
    out.falsified, out.entries = int(done.sum()), loop.corpus.size
    out.curve.append((round(now, 4), out.violations, out.falsified))
    return out


def costs(problem: Problem, given: Specifications, seconds: float) -> dict[str, tuple[float, float]]:
    """Wall and processor seconds of a step with each of the paper's mutators: medians after one that is not counted."""
    found = {}
    for mutator, _ in paper_recipe().mutators:
        recipe = replace(paper_recipe(), mutators=[(mutator, 1.0)])
        loop = Loop(problem, recipe, Rng(0), group=given.group)
        loop.step(given.count)
        end = time.perf_counter() + seconds
        taken: list[tuple[float, float]] = []
        while len(taken) < 3 or (time.perf_counter() < end and len(taken) < 500):
            start = time.perf_counter(), time.process_time()
            step = loop.step(given.count)
            assert step is not None
            to_host(step.margin[:1])  # a device has worked by then
            taken.append((time.perf_counter() - start[0], time.process_time() - start[1]))
        wall, cpu = np.median(np.array(taken), axis=0).tolist()
        found[mutator.name] = (wall, cpu)
    return found


def throughput(given: Specifications, sizes: Sequence[int], options: argparse.Namespace) -> dict[str, Any]:
    """RQ1 of one family."""
    made = {size: (given.first(size).problem(options.device), given.first(size)) for size in sizes}
    smallest, largest = min(sizes), max(sizes)
    cold = fuzz(*made[largest], paper_recipe(), 0, options.window, until_first=True).first
    turns = [{size: costs(*made[size], options.window / 40) for size in sizes} for _ in range(_TURNS)]
    # [turn, size, clock and processor]: seconds of a step, the mean over mutators
    seconds = np.array([[np.mean(list(turn[size].values()), axis=0) for size in sizes] for turn in turns])
    rates = np.array(sizes)[:, None] / seconds
    rate, ratio = np.median(rates, axis=0), np.median(rates / rates[:, [list(sizes).index(smallest)]], axis=0)
    rows: dict[int, dict[str, Any]] = {}
    for i, size in enumerate(sizes):
        steps = {name: np.median([turn[size][name] for turn in turns], axis=0).tolist() for name in turns[0][size]}
        runs = range(options.runs)
        first = [fuzz(*made[size], paper_recipe(), run, options.window, until_first=True).first for run in runs]
        hits = [seconds for seconds in first if seconds is not None]
        rows[size] = {
            "seconds_of_a_step": {name: pair[0] for name, pair in steps.items()},
            "processor_seconds_of_a_step": {name: pair[1] for name, pair in steps.items()},
            "specifications_per_second": rate[i, 0],
            "specifications_per_processor_second": rate[i, 1],
            "specifications_per_second_over_the_smallest": ratio[i, 0],
            "specifications_per_processor_second_over_the_smallest": ratio[i, 1],
            "first_counterexample": statistics.median(hits) if hits else None,
            "runs_with_one": len(hits),
        }
    return {"sizes": rows, "cold_first_counterexample": cold}


def repeated(
    problem: Callable[[str], tuple[Problem, Specifications]],
    recipes: dict[str, Callable[[], Recipe]],
    options: argparse.Namespace,
) -> dict[str, list[Window]]:
    """Windows of every configuration, run after run."""
    windows: dict[str, list[Window]] = {name: [] for name in recipes}
    for run in range(options.runs):
        names = list(recipes)
        for name in names[run % len(names) :] + names[: run % len(names)]:
            on, given = problem(name)
            windows[name].append(fuzz(on, given, recipes[name](), run, options.window))
    return windows


def violations(given: Specifications, sizes: Sequence[int], options: argparse.Namespace) -> dict[str, list[Window]]:
    """RQ2 of one family: B times modes; and ours at the largest B."""
    made = {size: (given.first(size), given.first(size).problem(options.device)) for size in sizes}
    largest = max(sizes)
    recipes: dict[str, Callable[[], Recipe]] = {}
    for size in sizes:
        recipes[f"ani-{size}"] = _scaled(Anisotropic())
        recipes[f"iso-{size}"] = _scaled(Isotropic())
    recipes[f"ours-{largest}"] = our_recipe

    def of(name: str) -> tuple[Problem, Specifications]:
        part, problem = made[int(name.rpartition("-")[2])]
        return problem, part

    return repeated(of, recipes, options)


def _scaled(scaling: Scaling) -> Callable[[], Recipe]:
    return lambda: paper_recipe(scaling)


def sensitive(given: Specifications, options: argparse.Namespace) -> dict[str, list[Window]]:
    """RQ3 of one family: modes times scale factors at all specifications."""
    problem = given.problem(options.device)
    recipes = {f"{mode}-{s}": _scaled(make(s)) for mode, make in MODES.items() for s in SCALES}
    return repeated(lambda _: (problem, given), recipes, options)


def judged(windows: dict[str, list[Window]], *, by_scale: bool = False) -> dict[str, Any]:
    """Tables of violations and of specifications falsified. `by_scale`: modes are compared where s is the same."""
    out: dict[str, Any] = {"means": {}, "windows": {}}
    for name, runs in windows.items():
        out["windows"][name] = [asdict(run) for run in runs]
        out["means"][name] = {
            key: statistics.mean(getattr(run, key) for run in runs) for key in ("violations", "falsified", "steps")
        }
    for what in ("violations", "falsified"):
        samples = {name: [float(getattr(run, what)) for run in runs] for name, runs in windows.items()}
        comparisons = compared(samples, _same_scale) if by_scale else compared(samples)
        out[what] = [asdict(comparison) for comparison in comparisons]
        text = grid(samples, comparisons) if by_scale else table(samples, comparisons)
        print(f"\n{what}\n{text}", file=sys.stderr, flush=True)
    return out


def _same_scale(a: str, b: str) -> bool:
    return a.rpartition("-")[2] == b.rpartition("-")[2]


def _plots(folder: Path, report: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    ratios = {
        family: {
            size: row["specifications_per_second_over_the_smallest"] for size, row in found["rq1"]["sizes"].items()
        }
        for family, found in report["families"].items()
        if "rq1" in found
    }
    if ratios:
        speedups(folder / "rq1.png", ratios)
    for family, found in report["families"].items():
        for at, what in ((1, "violations"), (2, "falsified")):
            if "rq2" in found:
                lines = {n: [(p[0], p[at]) for p in runs[0]["curve"]] for n, runs in found["rq2"]["windows"].items()}
                curves(folder / f"rq2_{family}_{what}.png", lines, what)
            if "rq3" in found:
                means: dict[str, dict[float, float]] = {mode: {} for mode in MODES}
                for name, values in found["rq3"]["means"].items():
                    mode, _, s = name.rpartition("-")
                    means[mode][float(s)] = values[what]
                sensitivity(folder / f"rq3_{family}_{what}.png", means, what)


def experiments(options: argparse.Namespace) -> dict[str, Any]:
    """Everything that was asked for, as JSON types."""
    report: dict[str, Any] = {
        "benchmark": "batch_fuzzing",
        "units": {"seconds": "s of wall time", "violations": "children with margin >= 0", "B": "specifications"},
        "machine": machine(),
        "versions": versions(),
        "load": load_average(),
        "options": {key: str(value) for key, value in vars(options).items()},
        "families": {},
    }
    for name in options.families:
        given = specifications(options.instances, FAMILIES[name], options.count)
        sizes = sorted({size for size in options.sizes if size <= given.count} | {given.count})
        found: dict[str, Any] = {"specifications": given.count, "of_the_list": given.rows}
        print(f"\n{name}: {given.count} specifications, {given.rows} of the list", file=sys.stderr, flush=True)
        if 1 in options.rq:
            found["rq1"] = throughput(given, sizes, options)
            for size, row in found["rq1"]["sizes"].items():
                print(
                    f"  B={size:<4} {row['specifications_per_second']:9.1f} specifications/s"
                    f"  x{row['specifications_per_second_over_the_smallest']:.1f}"
                    f"  by processor time x{row['specifications_per_processor_second_over_the_smallest']:.1f}"
                    f"  first counterexample {row['first_counterexample']}",
                    file=sys.stderr,
                    flush=True,
                )
            print(f"  cold: {found['rq1']['cold_first_counterexample']}", file=sys.stderr)
        if 2 in options.rq:
            found["rq2"] = judged(violations(given, sizes, options))
        if 3 in options.rq:
            found["rq3"] = judged(sensitive(given, options), by_scale=True)
        report["families"][name] = found
    return report


def main() -> None:
    """Parse the arguments, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("instances", type=Path, help="list of instances (CSV)")
    parser.add_argument("--families", nargs="+", choices=sorted(FAMILIES), default=["rl", "sri_resnet_a"])
    parser.add_argument("--rq", nargs="+", type=int, choices=(1, 2, 3), default=[1, 2, 3], help="which experiments")
    parser.add_argument("--window", type=float, default=60.0, help="seconds of a run (default 60, the paper's)")
    parser.add_argument("--sizes", nargs="+", type=int, default=[1, 10, 50, 99], help="values of B; all are added")
    parser.add_argument("--count", type=int, default=99, help="specifications of a family")
    parser.add_argument("--runs", type=int, default=5, help="runs of a configuration")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, help="write the JSON there")
    parser.add_argument("--plots", type=Path, help="a folder for PNG plots")
    options = parser.parse_args()
    if options.plots and not find_spec("matplotlib"):
        parser.error(NO_MATPLOTLIB)
    if {2, 3} & set(options.rq) and not find_spec("scipy"):
        parser.error(NO_SCIPY)
    report = experiments(options)
    if options.plots:
        _plots(options.plots, report)
    text = json.dumps(report, indent=1)
    if options.out:
        options.out.write_text(text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
