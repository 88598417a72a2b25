"""How long it takes until an answer is there: cold (a fresh process) and warm (an instance that was prepared).

For each: medians and minima, over the runs, of wall time and of CPU time (user and system, of the process and its
children). `warm_script` is run_instance.sh on a prepared instance: its CPU time is the client's alone. Prints JSON.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ARENA = ROOT.parent / "shared" / "arena"
SCRIPTS = ROOT / "vnncomp_scripts"
FEW = 10  # evaluations
FIRST = """
import sys
from falsifier.network import load
reference = load(sys.argv[1]).reference
import numpy
reference.run_flat(numpy.zeros(reference.n, reference.dtype))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15, help="of each, after one that is not counted")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = measure(Path(folder), options.runs)
    print(json.dumps(report, indent=2))


def measure(folder: Path, runs: int) -> dict[str, object]:
    """Everything, in one report."""
    instances = {"example": (ROOT / "examples" / "digits.onnx", ROOT / "examples" / "digits_violated.vnnlib")}
    arena = _easy_row(folder)
    if arena is not None:
        instances["acasxu"] = arena
    module = [sys.executable, "-P", "-m", "falsifier"]
    report: dict[str, object] = {
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0)),
        "load_1min": os.getloadavg()[0],
        "runs": runs,
        "unit": "s",
        "interpreter": timed([sys.executable, "-c", "pass"], folder, runs),
        "numpy": timed([sys.executable, "-c", "import numpy"], folder, runs),
        "version": timed([*module, "--version"], folder, runs),
    }
    for name, (network, query) in instances.items():
        words = [str(query), f"--network={network}", "--timeout=20", "--results=out.txt"]
        report[name] = {
            "first_evaluation": timed([sys.executable, "-P", "-c", FIRST, str(network)], folder, runs),
            "cold_verify": timed([*module, "verify", *words], folder, runs, "sat"),
            "cold_script": timed(_run(network, query), folder, runs, "sat", FALSIFIER_WORKER="off"),
            "prepare": timed(_prepare(network, query), folder, max(1, runs // 5)),
            "warm_script": timed(_run(network, query), folder, runs, "sat", before=_prepare(network, query)),
        }
    return report


def timed(
    command: Sequence[str], folder: Path, runs: int, word: str = "", before: Sequence[str] = (), **settings: str
) -> dict[str, float]:
    """Wall and CPU seconds of a command that has to exit with 0 and leave `word` in out.txt. `before` runs untimed."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "FALSIFIER_PYTHON": sys.executable,
        "XDG_RUNTIME_DIR": str(folder),
        **settings,
    }
    wall, cpu = [], []
    for _ in range(runs + 1):
        if before:
            subprocess.run(before, cwd=folder, env=environment, check=True)
        (folder / "out.txt").unlink(missing_ok=True)
        spent, at = _cpu_of_children(), time.perf_counter()
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
        wall.append(time.perf_counter() - at)
        cpu.append(_cpu_of_children() - spent)
        if word and (folder / "out.txt").read_text().split("\n", 1)[0] != word:
            raise SystemExit(f"{' '.join(command)}: no {word}")
        if before and any(folder.glob("falsifier-*/*")):
            raise SystemExit("the worker was not used")
    figures = {"wall_s": wall[1:], "cpu_s": cpu[1:]}
    report = {f"{name}_median": round(statistics.median(values), 4) for name, values in figures.items()}
    return report | {f"{name}_least": round(min(values), 4) for name, values in figures.items()}


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _run(network: Path, query: Path) -> list[str]:
    return [str(SCRIPTS / "run_instance.sh"), "v1", "startup", str(network), str(query), "out.txt", "20"]


def _prepare(network: Path, query: Path) -> list[str]:
    return [str(SCRIPTS / "prepare_instance.sh"), "v1", "startup", str(network), str(query)]


def _easy_row(folder: Path) -> tuple[Path, Path] | None:
    """A known-sat acasxu row whose first few points hold a witness, unpacked; None without the arena."""
    if not (ARENA / "instances.csv").is_file():
        return None
    with (ARENA / "instances.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["family"].startswith("acasxu") and row["expected"] == "sat"]
    for row in rows:
        files = tuple(_unpacked(ARENA / row[column], folder) for column in ("network", "property"))
        words = [str(files[1]), f"--network={files[0]}", f"--max-evaluations={FEW}", "--json=-"]
        done = subprocess.run(
            [sys.executable, "-P", "-m", "falsifier", "verify", *words],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
        )
        if json.loads(done.stdout)["verdict"] == "sat":
            return files[0], files[1]
    return None


def _unpacked(path: Path, folder: Path) -> Path:
    plain = folder / path.name.removesuffix(".gz")
    if path.suffix == ".gz":
        with gzip.open(path) as source, plain.open("wb") as sink:
            shutil.copyfileobj(source, sink)
    else:
        shutil.copyfile(path, plain)
    return plain


if __name__ == "__main__":
    main()
