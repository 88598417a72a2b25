"""Queries of VNN-LIB 2.0 with answers known by construction (`planted_v2.py`): polynomial, two-network and hidden-node
ones, searched in this process.

    python benchmarks/generated_v2.py [--regions] [--each 20] [--unsat 8] [--timeout 5] [--match hidden] [--rng-seed 0]

With `--regions` those of `planted_regions.py`: inputs that lie in a small part of their box.

Prints one line per query on standard error and JSON on standard output: per kind how many were found, how many were
left open, the median and the largest seconds; whatever was wrong. Where `shared/arena/judge.py` lies in the folder that
holds the checkout, every witness is judged by it; elsewhere by the package's own door.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from planted_regions import planted_regions
from planted_v2 import Planted, planted

NOT_JUDGED = "judge_error"  # what the judge says where it cannot judge
JUDGE = Path(__file__).resolve().parents[2] / "shared" / "arena" / "judge.py"


@dataclass(frozen=True)
class Outcome:
    """One search of one query."""

    kind: str
    name: str
    expected: str
    verdict: str
    judged: str
    stage: str | None
    seconds: float
    evaluations: int
    reason: str

    @property
    def wrong(self) -> bool:
        """Whether the answer is false: one that is left open is not."""
        if self.verdict == "sat":
            return self.expected != "sat" or self.judged.split()[0] not in ("exact", "correct")
        return self.verdict == "unsat" and self.expected == "sat"


def searched(query: Planted, timeout: float, max_evaluations: int | None = None, *, judge: bool = True) -> Outcome:
    """Search one query, and judge what is found."""
    from falsifier.falsify import falsify

    start = time.monotonic()
    result = falsify(query.models, query.text, timeout=timeout, max_evaluations=max_evaluations)
    seconds = round(time.monotonic() - start, 3)
    judged = ""
    if result.witness is not None and result.query is not None:
        from falsifier.witness.text import write_witness

        text = write_witness(result.query, result.witness)
        judged = judged_apart(query, text) if judge and JUDGE.exists() else NOT_JUDGED
        judged = f"{result.class_} by the door" if judged == NOT_JUDGED else judged
    return Outcome(
        query.kind,
        query.name,
        query.expected,
        result.verdict.value,
        judged,
        result.stage,
        seconds,
        result.evaluations,
        result.reason_text,
    )


def judged_apart(query: Planted, witness: str) -> str:
    """What the judge of the instances says, a program that shares nothing with the package."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        (base / "prop.vnnlib").write_text(query.text)
        (base / "result.txt").write_text(f"sat\n{witness}")
        networks = []
        for name, data in query.models.items():
            (base / f"{name}.onnx").write_bytes(data)
            networks += ["--network", f"{name}={base / name}.onnx"]
        command = [sys.executable, str(JUDGE), str(base / "prop.vnnlib"), str(base / "result.txt"), *networks]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout.split() or [done.stderr.strip()[-200:]])[0]


def summary(outcomes: list[Outcome]) -> dict[str, dict[str, object]]:
    """Per kind."""
    out: dict[str, dict[str, object]] = {}
    for kind in dict.fromkeys(o.kind for o in outcomes):
        mine = [o for o in outcomes if o.kind == kind]
        found = [o for o in mine if o.verdict == "sat"]
        out[kind] = {
            "expected": mine[0].expected,
            "queries": len(mine),
            "found": len(found),
            "proved": sum(o.verdict == "unsat" for o in mine),
            "judged": dict(Counter(o.judged for o in found)),
            "median seconds": statistics.median(o.seconds for o in found) if found else None,
            "most seconds": max((o.seconds for o in found), default=None),
        }
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=20, help="satisfiable queries of every kind (default 20)")
    parser.add_argument("--unsat", type=int, default=8, help="unsatisfiable queries of every kind (default 8)")
    parser.add_argument("--timeout", type=float, default=5.0, help="seconds for each query (default 5)")
    parser.add_argument("--max-evaluations", type=int, help="end a search after this many evaluations")
    parser.add_argument("--match", default="", help="queries whose name holds this text")
    parser.add_argument("--rng-seed", type=int, default=0, help="of the queries")
    parser.add_argument("--regions", action="store_true", help="queries about small regions of the inputs' box")
    options = parser.parse_args()
    outcomes = []
    made = planted_regions if options.regions else planted
    for query in made(options.each, options.unsat, options.rng_seed):
        if options.match in query.name:
            outcomes.append(searched(query, options.timeout, options.max_evaluations))
            print(*asdict(outcomes[-1]).values(), sep="\t", file=sys.stderr)
    sat = [o for o in outcomes if o.expected == "sat"]
    report = {
        "timeout": options.timeout,
        "rng seed": options.rng_seed,
        "judge": str(JUDGE.name) if JUDGE.exists() else "door",
        "queries": len(outcomes),
        "satisfiable": len(sat),
        "found": sum(o.verdict == "sat" for o in sat),
        "wrong": [asdict(o) for o in outcomes if o.wrong],
        "open": [o.name for o in sat if o.verdict != "sat"],
        "kinds": summary(outcomes),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
