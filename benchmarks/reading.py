"""How fast and in how much memory queries are read: generated texts of given sizes, each read in a process of its
own. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np


def _box_1(n: int, rng: np.random.Generator) -> list[str]:
    """n inputs with two bounds each of 16 digits, one output: about 100 bytes an input."""
    lower = rng.random(n)
    lines = [f"(declare-const X_{i} Real)" for i in range(n)]
    lines.append("(declare-const Y_0 Real)")
    for i, (a, b) in enumerate(zip(lower.tolist(), (lower + 0.01).tolist(), strict=True)):
        lines += [f"(assert (>= X_{i} {a:.16f}))", f"(assert (<= X_{i} {b:.16f}))"]
    return [*lines, "(assert (>= Y_0 1.5))"]


def _box_2(n: int, rng: np.random.Generator) -> list[str]:
    lower = rng.random(n)
    lines = [
        "(vnnlib-version <2.0>)",
        f"(declare-network f (declare-input X real [1,{n}]) (declare-output Y real [1,1]))",
    ]
    for i, (a, b) in enumerate(zip(lower.tolist(), (lower + 0.01).tolist(), strict=True)):
        lines += [f"(assert (>= X[0,{i}] {a:.16f}))", f"(assert (<= X[0,{i}] {b:.16f}))"]
    return [*lines, "(assert (>= Y[0,0] 1.5))"]


def _clauses(n: int, rng: np.random.Generator, output: Callable[[float], str]) -> list[str]:
    lines = ["(declare-const X_0 Real)", "(declare-const Y_0 Real)", "(assert (or"]
    for a in rng.random(n).tolist():
        lines.append(f"  (and (>= X_0 {a:.16f}) (<= X_0 {a + 1e-6:.16f}) {output(a)})")
    return [*lines, "))"]


def _disjuncts(n: int, rng: np.random.Generator) -> list[str]:
    """n disjuncts of three comparisons, each with a box of its own."""
    return _clauses(n, rng, lambda a: f"(<= Y_0 {a - 0.01:.16f})")


def _nested(n: int, rng: np.random.Generator) -> list[str]:
    """n disjuncts that hold an or over outputs themselves."""
    return _clauses(n, rng, lambda a: f"(or (<= Y_0 {a - 0.01:.16f}) (>= Y_0 {a + 0.01:.16f}))")


def _linear(n: int, rng: np.random.Generator) -> list[str]:
    """n rows of 20 products each: what goes through nodes."""
    lines = [*(f"(declare-const X_{i} Real)" for i in range(20)), "(declare-const Y_0 Real)"]
    for row in rng.normal(size=(n, 20)).tolist():
        products = " ".join(f"(* {c:.8f} X_{i})" for i, c in enumerate(row))
        lines.append(f"(assert (<= (+ {products}) (- Y_0 0.5)))")
    return lines


def _asserts(n: int, version: int, assertion: str) -> list[str]:
    """The same assertion n times, about two inputs and two outputs."""
    if version == 1:
        lines = [f"(declare-const {name}_{i} Real)" for name in "XY" for i in (0, 1)]
        return [*lines, *[re.sub(r"\[(\d)\]", r"_\1", assertion)] * n]
    network = "(declare-network f (declare-input X real [2]) (declare-output Y real [2]))"
    return ["(vnnlib-version <2.0>)", network, *[assertion] * n]


_SIMPLE, _SUM = "(assert (<= Y[0] 9.5))", "(assert (<= (+ X[0] Y[0]) 9.5))"

CASES: dict[str, tuple[Callable[[int, np.random.Generator], list[str]], int]] = {
    "box_1.0": (_box_1, 150_000),
    "box_2.0": (_box_2, 150_000),
    "disjuncts": (_disjuncts, 100_000),
    "nested_disjuncts": (_nested, 100_000),
    "linear_rows": (_linear, 5_000),
    "asserts_1.0": (lambda n, _: _asserts(n, 1, _SIMPLE), 1_000_000),
    "asserts_2.0": (lambda n, _: _asserts(n, 2, _SIMPLE), 1_000_000),
    "sums_1.0": (lambda n, _: _asserts(n, 1, _SUM), 100_000),
    "sums_2.0": (lambda n, _: _asserts(n, 2, _SUM), 100_000),
    "large_box_1.0": (_box_1, 960_000),
    "large_box_2.0": (_box_2, 1_270_000),
}


def _measure(case: str, n: int, rng_seed: int) -> dict[str, object]:
    """Generate in this process, read in another, which sees the text only."""
    make, _ = CASES[case]
    text = "\n".join(make(n, np.random.default_rng(rng_seed))).encode()
    done = subprocess.run([sys.executable, __file__, "--read"], input=text, capture_output=True, check=True)
    out: dict[str, object] = {"case": case, "n": n, "bytes": len(text)}
    out.update(json.loads(done.stdout))
    out["megabytes_per_second"] = round(len(text) / 1e6 / float(str(out["seconds"])), 1)
    return out


def _read() -> dict[str, object]:
    text = sys.stdin.buffer.read()
    start = time.perf_counter()
    from falsifier.query import parse

    imported, cpu = time.perf_counter(), time.process_time()
    query = parse(text)
    seconds = time.perf_counter() - imported
    return {
        "seconds": round(seconds, 3),
        "cpu_seconds": round(time.process_time() - cpu, 3),
        "import_seconds": round(imported - start, 3),
        "peak_rss_megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "assertions": len(query.assertions),
        "slots": query.slots,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=list(CASES), action="append", help="only these (default: all)")
    parser.add_argument("--n", type=int, help="size instead of the case's own: inputs, disjuncts or rows")
    parser.add_argument("--rng-seed", type=int, default=0)
    parser.add_argument("--read", action="store_true", help=argparse.SUPPRESS)  # the process that reads
    args = parser.parse_args()
    if args.read:
        print(json.dumps(_read()))
        return
    results = [_measure(case, args.n or CASES[case][1], args.rng_seed) for case in args.case or CASES]
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    machine = {"machine": platform.machine(), "processor": platform.processor()}
    print(json.dumps({**machine, **versions, "rng_seed": args.rng_seed, "results": results}, indent=2))


if __name__ == "__main__":
    main()
