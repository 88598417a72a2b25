"""Networks of the sizes that users bring: what loading them takes, and whether searches of them end in time.

For every network of `large_networks.py`, each side in a process of its own, counted from its start: wall and processor
seconds until plain onnxruntime has made a session and run it once; until this package has evaluated a first point, and
until it has a first gradient; what is resident then and at most, as a multiple of the network's size. Plain and ours
take turns; on a busy machine processor seconds are what counts.
Then, for every kind of query and time limit, `falsifier verify`: the verdict, when the process ended, and how many
points were evaluated. Prints JSON, or a table (--table).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
_FOLDER = Path(tempfile.gettempdir()) / "large-networks"


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(_plain(sys.argv[3]) if sys.argv[2] == "plain" else _ours(*sys.argv[3:])))
        return
    from large_networks import KINDS, NETWORKS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=_FOLDER, help="where they are made, once")
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--kinds", nargs="*", default=["easy", "gradient", "hard"], choices=KINDS)
    parser.add_argument("--timeouts", nargs="*", type=float, default=[10.0, 20.0])
    parser.add_argument("--runs", type=int, default=3, help="of each loading, in turns")
    parser.add_argument("--table", action="store_true", help="loading as a table in Markdown")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    report: dict[str, Any] = {
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0)),
        "load_1min": os.getloadavg()[0],
        "networks": {name: _measured(name, options) for name in options.networks},
    }
    print(_table(report["networks"]) if options.table else json.dumps(report, indent=2))


def _measured(name: str, options: argparse.Namespace) -> dict[str, Any]:
    from large_networks import NETWORKS, write_network

    network = write_network(name, options.folder)
    size = sum(file.stat().st_size for file in options.folder.glob(f"{name}.*") if file.suffix in (".onnx", ".weights"))
    queries = _queries(name, network, NETWORKS[name].shape, options)
    loading: dict[str, list[dict[str, float]]] = {"plain": [], "ours": []}
    for _ in range(options.runs):
        for side, runs in loading.items():
            words = [str(network), *([str(queries["hard"])] if side == "ours" else [])]
            done = subprocess.run(
                [sys.executable, "-P", __file__, "--child", side, *words],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=subprocess.PIPE,
                check=True,
            )
            runs.append(json.loads(done.stdout))
    report: dict[str, Any] = {"MB": round(size / 1e6, 1)}
    for side, runs in loading.items():
        report[side] = {key: round(statistics.median(run[key] for run in runs), 3) for key in runs[0]}
        report[side] |= {
            f"{key}_x": round(report[side][key] / report["MB"], 2) for key in runs[0] if key.endswith("MB")
        }
    for figure in ("evaluation", "gradient"):
        pairs = zip(loading["ours"], loading["plain"], strict=True)
        ratios = [ours[f"{figure}_cpu_s"] / plain["run_cpu_s"] for ours, plain in pairs]
        report[f"{figure}_to_plain"] = round(statistics.median(ratios), 2)
    report["verify"] = {
        f"{kind}, {limit:g} s": _verified(network, queries[kind], limit)
        for kind in options.kinds
        if kind in queries
        for limit in options.timeouts
    }
    return report


def _queries(name: str, network: Path, shape: tuple[int, ...], options: argparse.Namespace) -> dict[str, Path]:
    """The queries about a network, made where they are not there yet."""
    from large_networks import write_query

    kinds = {"hard", *options.kinds}
    if name != "nn4sys":
        kinds.discard("boxes")
    paths = {kind: options.folder / f"{name}-{kind}.vnnlib" for kind in sorted(kinds)}
    missing = [kind for kind, path in paths.items() if not path.exists()]
    if missing:
        import onnxruntime

        session = onnxruntime.InferenceSession(str(network), providers=["CPUExecutionProvider"])
        centre = np.random.default_rng(1).uniform(0.2, 0.8, int(np.prod(shape))).astype(np.float32)
        outputs = session.run(None, {"X": centre.reshape(shape)})[0].ravel()
        for kind in missing:
            write_query(kind, paths[kind], centre.size, shape, outputs, centre)
    return paths


def _verified(network: Path, query: Path, limit: float) -> dict[str, Any]:
    """One run of `falsifier verify`."""
    words = ["verify", str(query), f"--network={network}", f"--timeout={limit:g}", "--json=-"]
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-P", "-m", "falsifier", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - start
    if not done.stdout:
        return {"verdict": "none", "s": round(seconds, 2), "stderr": done.stderr[-300:]}
    result = json.loads(done.stdout)
    stages = {
        name: [r["evaluations"], round(r["seconds"], 2)] for name, r in result["stages"].items() if r["seconds"] > 0.01
    }
    return {
        "verdict": result["verdict"],
        "s": round(seconds, 2),
        "in_time": seconds <= limit,
        "stage": result["stage"],
        "margin": max((m for m in result["margins"] if m is not None), default=None),
        "evaluations": result["evaluations"],
        "stages": stages,
    }


def _plain(network: str) -> dict[str, float]:
    import onnxruntime

    session = onnxruntime.InferenceSession(network, providers=["CPUExecutionProvider"])
    feed = {i.name: np.zeros(i.shape, np.float32) for i in session.get_inputs()}
    session.run(None, feed)
    return {**_spent("run"), **_memory()}


def _ours(network: str, query: str) -> dict[str, float]:
    from falsifier.falsify import Prepared

    prepared = Prepared(network, query)
    figures = _spent("read")
    problems = prepared.problems
    single = problems.single
    half = (np.asarray(single.box(np.zeros(1, np.int64))[0]) + np.asarray(single.box(np.zeros(1, np.int64))[1])) / 2
    single.evaluate(half.astype(single.dtype), np.zeros(1, np.int64))
    figures |= _spent("evaluation") | {f"evaluation_{key}": value for key, value in _memory().items()}
    problem = problems.batched
    figures |= _spent("engine")
    if problem.differentiable:
        problem.ascend(half.astype(problem.dtype), np.zeros(1, np.int64))
    return {**figures, **_spent("gradient"), **_memory()}


def _spent(what: str) -> dict[str, float]:
    """Seconds since this process began, and of processors."""
    from falsifier.cli.process import age

    return {f"{what}_s": age(), f"{what}_cpu_s": time.process_time()}


def _memory() -> dict[str, float]:
    """Resident memory now, without pages of files, and at most, in MB."""
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return {name: int(lines[key].split()[0]) / 1e3 for name, key in (("held_MB", "RssAnon"), ("peak_MB", "VmHWM"))}


def _table(networks: dict[str, Any]) -> str:
    head = (
        "network",
        "MB",
        "plain",
        "first evaluation",
        "first gradient",
        "to plain",
        "held",
        "at most",
        "plain at most",
    )
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    for name, r in networks.items():
        ours, plain = r["ours"], r["plain"]
        ratios = f"{r['evaluation_to_plain']}, {r['gradient_to_plain']}"
        cells = [name, r["MB"], *(round(t, 2) for t in (plain["run_cpu_s"], ours["evaluation_cpu_s"]))]
        cells += [round(ours["gradient_cpu_s"], 2), ratios]
        cells += [ours["held_MB_x"], ours["peak_MB_x"], plain["peak_MB_x"]]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
