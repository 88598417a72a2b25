"""The tests of `vnnlib-satisfactory` for solvers of VNN-LIB 2.0, 86 with a known counterexample and 92 without, given
to a solver's command line as that suite does: a fresh process each, killed at the time limit.

    python benchmarks/satisfactory.py [--solver falsifier] [--timeout 5.0] [--match add] [--folder FILES]

Prints one line per test on standard error and JSON on standard output: how many tests of each kind passed, were left
open (`unknown` or `timed-out`), failed (the other verdict) or were errors (nothing said, killed, an exit status); those
that did not pass; the checks of the suite's `compliance`. `--folder` keeps the files of the tests. The suite's own
`vnnlib-satisfactory run --solver CMD` does the same with more words, and ends with a trace where a solver was killed.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

CHECKS = ("opset_versions", "vnnlib_versions", "serialise_assignments")
REFUSED = ("network_isomorphic01",)
"""Tests whose query the reference parser refuses: it declares networks isomorphic whose types differ."""


@dataclass(frozen=True)
class Case:
    """One test on disk. `networks` are the names that want a model; all of a test's are the same one."""

    name: str
    category: str
    query: Path
    model: Path
    networks: tuple[str, ...]
    expected: str

    @property
    def arguments(self) -> list[str]:
        """What `verify` gets."""
        pairs = [word for name in self.networks for word in ("--network", f"{name}={self.model}")]
        return [str(self.query), *pairs]


@dataclass(frozen=True)
class Answer:
    """What a solver said to one test."""

    name: str
    expected: str
    outcome: str
    seconds: float
    cpu_seconds: float
    said: str


def written(folder: Path, wanted: Callable[[str, str], bool]) -> Iterator[Case]:
    """The tests whose name and expected verdict are wanted, their files written to a folder.

    Raises ModuleNotFoundError where the suite is not installed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the packages that the suite is made with
        import onnx
        from vnntest.core.registry import get_cases

        for case in get_cases():
            expected = (case.expected_output() or "unknown").lower()
            if not wanted(case.id, expected):
                continue
            lines = case.build_vnnlib_spec()
            text = lines if isinstance(lines, str) else "\n".join(lines)
            query, model = folder / f"{case.id}.vnnlib", folder / f"{case.id}.onnx"
            query.write_text(text + "\n")
            onnx.save(case.build_onnx_model(), str(model))
            yield Case(case.id, case.node_type, query, model, _networks(text), expected)


def _networks(text: str) -> tuple[str, ...]:
    """The declared networks that no `equal-to` gives a model."""
    declared = [part.split("(declare-input")[0] for part in text.split("(declare-network")[1:]]
    return tuple(part.split()[0].strip("()") for part in declared if "equal-to" not in part)


def asked(solver: str, test: Case, timeout: float) -> Answer:
    """Run one test."""
    command = [solver, "verify", *test.arguments, "--timeout", str(timeout)]
    start, used = time.monotonic(), _cpu_seconds()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        word, status, told = done.stdout.split("\n")[0].strip(), done.returncode, done.stderr.strip()
    except subprocess.TimeoutExpired:
        word, status, told = "", 1, "killed at the time limit"
    seconds, used = round(time.monotonic() - start, 2), round(_cpu_seconds() - used, 2)
    return Answer(test.name, test.expected, outcome(word, status, test.expected), seconds, used, told or word)


def _cpu_seconds() -> float:
    """Of all children so far: what a test costs on a machine that others use as well."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def outcome(word: str, status: int, expected: str) -> str:
    """pass, open, fail or error, from the first line and the exit status."""
    if status != 0 or word not in ("sat", "unsat", "unknown", "timed-out"):
        return "error"
    if word in ("unknown", "timed-out"):
        return "open"
    return "pass" if word == expected else "fail"


def compliance(solver: str) -> dict[str, bool]:
    """The suite's checks of what `supports` prints."""
    from vnntest.core import compliance as suite

    return {name: bool(getattr(suite, f"check_{name}")(solver)[0]) for name in CHECKS}


def _spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "most": max(values)} if values else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--solver", default=str(Path(sys.executable).parent / "falsifier"), help="a command")
    parser.add_argument("--timeout", type=float, default=5.0, help="seconds for each test (default 5.0)")
    parser.add_argument("--match", default="", help="tests whose name holds this text")
    parser.add_argument("--expected", choices=("sat", "unsat"), help="tests of one kind alone")
    parser.add_argument("--folder", type=Path, help="where to keep the files of the tests (default: nowhere)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)

        def wanted(name: str, expected: str) -> bool:
            return options.match in name and options.expected in (None, expected)

        answers = []
        for test in written(folder, wanted):
            answers.append(asked(options.solver, test, options.timeout))
            print(*asdict(answers[-1]).values(), sep="\t", file=sys.stderr)
        counts = Counter((answer.expected, answer.outcome) for answer in answers)
        report = {
            "solver": options.solver,
            "timeout": options.timeout,
            "tests": len(answers),
            "counts": {f"{expected} {what}": count for (expected, what), count in sorted(counts.items())},
            "seconds": round(sum(answer.seconds for answer in answers), 1),
            "cpu seconds of a pass": _spread([a.cpu_seconds for a in answers if a.outcome == "pass"]),
            "compliance": compliance(options.solver),
            "not passed": [
                asdict(a) for a in answers if a.outcome != "pass" and (a.expected, a.outcome) != ("unsat", "open")
            ],
        }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
