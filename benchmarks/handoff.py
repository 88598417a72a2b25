"""What the hand-off proves, finds and costs, on instances with known answers.

    python benchmarks/handoff.py prove   [--timeout 60] [--most-inputs 10]    `unsat` rows: how many are proved
    python benchmarks/handoff.py sound   [--timeout 10] [--per-family 4]      `sat` rows, bounds alone: no `unsat`
    python benchmarks/handoff.py pair    [--timeout 20] [--expected sat]      search alone beside search with bounds
    python benchmarks/handoff.py prepass --tool DIR [--budget 3] [--rows 40]  a tool alone, and behind this one

Prints a line per run on standard error and JSON on standard output. Exit status 1 for a wrong `unsat`.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from peers_machine import load_average, machine, versions

ROOT = Path(__file__).resolve().parents[1]
ARENA = ROOT.parent / "shared" / "arena"
Row = dict[str, str]


def rows_of(options: argparse.Namespace, expected: str) -> list[Row]:
    """Rows with one network and at most `most_inputs` inputs, of every family `per_family`, spread over its list."""
    from falsifier.network import load

    families: dict[str, list[Row]] = defaultdict(list)
    with (options.arena / "instances.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            wanted = row["expected"] == expected and (not options.family or row["family"] in options.family)
            if wanted and not row["network"].startswith("["):
                families[row["family"]].append(row)
    chosen = []
    for own in families.values():
        if load(options.arena / own[0]["network"]).reference.n <= options.most_inputs:
            take = min(options.per_family, len(own))
            chosen += [own[i * len(own) // take] for i in range(take)]
    return chosen


def verify(row: Row, options: argparse.Namespace, *more: str) -> dict[str, Any]:
    """One run of `verify`: its JSON, wall and processor seconds with the start of the process."""
    words = [str(options.arena / row["property"]), "--network", str(options.arena / row["network"]), "--json", "-"]
    command = [sys.executable, "-P", "-m", "falsifier", "verify", *words, "--timeout", f"{options.timeout:g}", *more]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'adapters'}"}
    start, spent = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    record = json.loads(done.stdout) if done.stdout.strip() else {"verdict": "error", "reason_text": done.stderr[-300:]}
    found: dict[str, Any] = {
        **{name: row[name] for name in ("family", "network", "property", "expected")},
        **{name: record.get(name) for name in ("verdict", "class", "stage", "reason_text", "evaluations", "handoff")},
        "seconds": round(seconds, 2),
        "processor_seconds": round(after.ru_utime + after.ru_stime - spent.ru_utime - spent.ru_stime, 2),
        "load": load_average(),
    }
    name = Path(row["property"]).name[:44]
    times = f"{seconds:6.1f} {found['processor_seconds']:6.1f}"
    print(f"{row['family']:24} {name:44} {found['verdict']:8} {times}", file=sys.stderr, flush=True)
    return found


def prove(options: argparse.Namespace) -> dict[str, Any]:
    """How many `unsat` rows are proved in time."""
    runs = [verify(row, options, "--then", "auto_lirpa") for row in rows_of(options, "unsat")]
    return {"runs": runs, "proved": _counted(runs, "unsat"), "wrong": [r for r in runs if r["verdict"] == "sat"]}


def sound(options: argparse.Namespace) -> dict[str, Any]:
    """Whether an `unsat` is ever claimed where a witness is known: bounding alone, in this process."""
    from falsifier_adapters.lirpa_library import library
    from falsifier_adapters.lirpa_stage import Bounding

    from falsifier.falsify import Prepared

    runs: list[dict[str, Any]] = []
    for row in rows_of(options, "sat"):
        start = time.monotonic()
        prepared = Prepared([(None, options.arena / row["network"])], options.arena / row["property"])
        bounding = Bounding(prepared.problems, library(), options.timeout)
        result = prepared.search(start + options.timeout, stages=[bounding])
        verdict = "unsat" if bounding.proved else result.verdict.value
        run = {"family": row["family"], "property": row["property"], "verdict": verdict, "fault": bounding.fault}
        runs.append(run | bounding.report() | {"seconds": round(time.monotonic() - start, 2)})
        print(f"{row['family']:24} {Path(row['property']).name[:44]:44} {verdict:8} {bounding.fault}", file=sys.stderr)
    return {"runs": runs, "found": _counted(runs, "sat"), "wrong": [r for r in runs if r["verdict"] == "unsat"]}


def pair(options: argparse.Namespace) -> dict[str, Any]:
    """Search alone and search with bounds, the same time for each, in turns."""
    runs = []
    for row in rows_of(options, options.expected):
        alone = verify(row, options)
        if alone["verdict"] != "sat" or options.all:
            runs.append({"alone": alone, "pair": verify(row, options, "--then", "auto_lirpa")})
    gained = [r for r in runs if r["alone"]["verdict"] != "sat" and r["pair"]["verdict"] == "sat"]
    lost = [r for r in runs if r["alone"]["verdict"] == "sat" and r["pair"]["verdict"] != "sat"]
    wrong = [r for r in runs if r["pair"]["verdict"] == "unsat" and r["pair"]["expected"] == "sat"]
    return {"runs": runs, "gained": gained, "lost": lost, "wrong": wrong}


def prepass(options: argparse.Namespace) -> dict[str, Any]:
    """A tool's scripts alone, and the folder that `falsifier prepass` makes of them; of each row the medians."""
    options.most_inputs = sys.maxsize
    rows = rows_of(options, "sat") + rows_of(options, "unsat")
    count = min(options.rows, len(rows))
    rows = [rows[i * len(rows) // count] for i in range(count)]
    runs = []
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "prepass"
        words = ["prepass", "--tool", str(options.tool), "--budget", f"{options.budget:g}", "--write", str(folder)]
        environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'adapters'}"}
        command = [sys.executable, "-P", "-m", "falsifier", *words]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        for number, row in enumerate(rows):
            both = [("alone", options.tool), ("behind", folder)]
            run: dict[str, Any] = {name: row[name] for name in ("family", "network", "property", "expected")}
            run |= {name: {"answers": [], "times": [], "loads": []} for name, _ in both}
            for turn in range(options.repeat):
                for name, scripts in both if (number + turn) % 2 else both[::-1]:
                    answer, seconds = _script(row, scripts, Path(work), options, environment)
                    run[name]["answers"].append(answer)
                    run[name]["times"].append(round(seconds, 2))
                    run[name]["loads"].append(load_average())
                    text = f"{row['family']:24} {name:7} {row['expected']:6} {answer:10} {seconds:6.1f}"
                    print(text, file=sys.stderr, flush=True)
            for name, _ in both:
                run[name]["seconds"] = statistics.median(run[name]["times"])
            runs.append(run)
    on_sat = [r for r in runs if r["expected"] == "sat"]
    later = [r["behind"]["seconds"] - r["alone"]["seconds"] for r in runs if r["expected"] != "sat"]
    return {
        "runs": runs,
        "slower_by_more_than_the_budget": [
            r for r in runs if r["behind"]["seconds"] > r["alone"]["seconds"] + options.budget
        ],
        "seconds_on_sat": {name: round(sum(r[name]["seconds"] for r in on_sat), 1) for name in ("alone", "behind")},
        "later_on_unsat": round(statistics.mean(later), 2) if later else None,
        "wrong": [r for r in on_sat if "unsat" in r["behind"]["answers"]],
    }


def _script(
    row: Row, scripts: Path, work: Path, options: argparse.Namespace, environment: dict[str, str]
) -> tuple[str, float]:
    """Prepare and run one instance by the competition's contract: the first line of the results, wall seconds."""
    files = []
    for name in ("network", "property"):
        plain = work / Path(row[name]).name.removesuffix(".gz")
        data = (options.arena / row[name]).read_bytes()
        plain.write_bytes(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        files.append(str(plain))
    results = work / "out.txt"
    results.write_text("no_result_in_file\n")
    words = ["v1", row["family"], *files]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([str(scripts / "prepare_instance.sh"), *words], env=environment, check=False, **quiet)  # type: ignore[call-overload]
    start = time.monotonic()
    command = [str(scripts / "run_instance.sh"), *words, str(results), f"{options.timeout:g}"]
    process = subprocess.Popen(command, env=environment, start_new_session=True, **quiet)  # type: ignore[call-overload]
    try:
        process.wait(options.timeout + 60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    seconds = time.monotonic() - start
    late = "late " if seconds > options.timeout else ""
    return late + results.read_text(errors="replace").partition("\n")[0], seconds


def _counted(runs: list[dict[str, Any]], verdict: str) -> dict[str, str]:
    """Of each family how many runs had a verdict, as `2 of 4`."""
    families: dict[str, list[str]] = defaultdict(list)
    for run in runs:
        families[run["family"]].append(run["verdict"])
    return {family: f"{verdicts.count(verdict)} of {len(verdicts)}" for family, verdicts in families.items()}


def main() -> int:
    """Run one comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = {"prove": prove, "sound": sound, "pair": pair, "prepass": prepass}
    parser.add_argument("mode", choices=modes)
    parser.add_argument("--arena", type=Path, default=ARENA)
    parser.add_argument("--family", action="append", default=[])
    parser.add_argument("--per-family", type=int, default=1000)
    parser.add_argument("--most-inputs", type=int, default=10)
    parser.add_argument("--timeout", type=float, default=None)
    parser.add_argument("--expected", default="sat", help="of the rows of `pair`")
    parser.add_argument("--all", action="store_true", help="`pair`: also rows that the search alone finds")
    parser.add_argument("--tool", type=Path, help="`prepass`: a folder with a tool's scripts")
    parser.add_argument("--budget", type=float, default=3.0)
    parser.add_argument("--rows", type=int, default=40)
    parser.add_argument("--repeat", type=int, default=1, help="`prepass`: so many turns of each row")
    options = parser.parse_args()
    if options.timeout is None:
        options.timeout = {"prove": 60.0, "sound": 10.0, "pair": 20.0, "prepass": 30.0}[options.mode]
    result = modes[options.mode](options)
    settings = {name: str(value) for name, value in vars(options).items()}
    print(json.dumps({**result, "settings": settings, "machine": machine(), "versions": versions()}, indent=1))
    return 1 if result["wrong"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
