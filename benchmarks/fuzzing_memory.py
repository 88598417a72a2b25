"""Whether the fuzzing loop's memory stays flat: resident memory and entries over a long run.

    python benchmarks/fuzzing_memory.py INSTANCES.csv --family rl --seconds 600 [--recipe ours|paper] [--count 99]

Prints JSON: a sample every 1/20 of the time, and the growth in MiB over the last three quarters of the run (corpus,
marks and allocator fill up in the first).
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

from fuzzing_specifications import FAMILIES, specifications

from falsifier.arrays import Rng
from falsifier.search.loop import Loop
from falsifier.search.recipes import our_recipe, paper_recipe

_SAMPLES = 20
_SETTLED = 0.25  # of the run


def resident() -> float:
    """Resident memory of this process in MiB (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    """Parse the arguments, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("instances", type=Path, help="list of instances (CSV)")
    parser.add_argument("--family", choices=sorted(FAMILIES), default="rl")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--recipe", choices=("ours", "paper"), default="ours")
    parser.add_argument("--count", type=int, default=99, help="specifications")
    options = parser.parse_args()
    given = specifications(options.instances, FAMILIES[options.family], options.count)
    recipe = our_recipe() if options.recipe == "ours" else paper_recipe()
    loop = Loop(given.problem(), recipe, Rng(0), group=given.group)
    start, steps = time.perf_counter(), 0
    samples: list[dict[str, float]] = []
    while (now := time.perf_counter() - start) < options.seconds:
        if now >= len(samples) * options.seconds / _SAMPLES:
            samples.append({"seconds": round(now, 1), "steps": steps, "mib": round(resident(), 1)} | loop.figures())
        loop.step(given.count)
        steps += 1
    samples.append({"seconds": round(now, 1), "steps": steps, "mib": round(resident(), 1)} | loop.figures())
    settled = [s["mib"] for s in samples if s["seconds"] >= _SETTLED * options.seconds]
    report = {"benchmark": "fuzzing_memory", "samples": samples, "growth_mib": round(settled[-1] - settled[0], 1)}
    print(json.dumps(report | {"options": {key: str(value) for key, value in vars(options).items()}}, indent=1))


if __name__ == "__main__":
    main()
