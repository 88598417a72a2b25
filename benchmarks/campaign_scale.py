"""One campaign run in several ways: in one process, by workers, on Ray; and killed again and again.

    python benchmarks/campaign_scale.py [--arms serial 1 2 ray] [--family safenlp ...] [--expected sat] [--rows 100]
        [--timeout 20] [--max-evaluations N] [--repeat 1] [--out REPORT.json]
    python benchmarks/campaign_scale.py --kill 5 [the same]

Rows are the arena's, spread over its families, or, where there is no arena, generated ones about small random networks.
Arms: `serial` is no option at all, a number is `--workers N`, `ray` is a cluster on this machine with two workers. Each
is a process, timed from its start to its end; with `--repeat` the arms take turns.

`--kill K`: the first of the arms runs undisturbed, then again, killed (SIGKILL) K times at random and resumed each
time. Verdicts of both are compared, and every witness is judged: by the arena's judge, or by `falsifier check`.

Prints a table on standard error, and JSON on standard output or in `--out`. Exit status 1 if a witness was refused, a
row has no answer, or the two runs contradict each other: sat here and unsat there.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from peers_machine import load_average, machine, versions

ROOT = Path(__file__).resolve().parents[1]
ARENA = ROOT.parent / "shared" / "arena"
GOOD = ("exact", "correct")


@dataclass(frozen=True)
class Table:
    """An instances.csv for each family, whose rows name files below `work`, and the networks of each row
    `(onnx, vnnlib)` by name.
    """

    work: Path
    paths: list[Path] = field(default_factory=list)
    networks: dict[tuple[str, str], list[tuple[str | None, str]]] = field(default_factory=dict)

    def add(self, family: str, rows: Iterable[Sequence[str]]) -> None:
        """The rows of a family, whose folder is their category."""
        path = self.work / "tables" / family / "instances.csv"
        path.parent.mkdir(parents=True)
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(rows)
        self.paths.append(path)


def arena_table(options: argparse.Namespace, work: Path) -> Table:
    """Rows of the arena, unpacked: as many of each family as come in turn."""
    protocol = importlib.import_module("run_arena")
    with (options.arena / "instances.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["expected"] in options.expected]
    if options.family:
        rows = [row for row in rows if row["family"] in options.family]
    table = Table(work)
    taken = sorted(in_turn(rows, options.rows), key=lambda row: row["family"])
    for family, some in groupby(taken, lambda row: row["family"]):
        written = []
        for row in some:
            pairs, name = protocol.networks(row["network"], options.arena, work)
            query = protocol.plain(row["property"], options.arena, work)
            written.append([name, query, row["timeout_s"]])
            table.networks[name, query] = pairs
        table.add(family, written)
    return table


def in_turn(rows: list[dict[str, str]], count: int) -> list[dict[str, str]]:
    """The first of each family, then the second of each, up to a number; then as they were, family by family."""
    seen = Counter[str]()
    ranked = []
    for place, row in enumerate(rows):
        ranked.append((seen[row["family"]], place))
        seen[row["family"]] += 1
    return [rows[place] for place in sorted(place for _, place in sorted(ranked)[:count])]


def generated_table(options: argparse.Namespace, work: Path) -> Table:
    """Rows about four random networks: is one output above another in a small box, and by so much?"""
    from onnx import TensorProto, helper, numpy_helper, save_model

    rng = np.random.default_rng(0)
    table = Table(work)
    for name in range(4):
        weights = [rng.standard_normal(shape).astype(np.float32) for shape in ((8, 64), (64, 64), (64, 4))]
        nodes, last = [], "X"
        for i, _ in enumerate(weights):
            nodes.append(helper.make_node("MatMul", [last, f"W{i}"], [last := f"H{i}" if i < 2 else "Y"]))
            if i < 2:
                nodes.append(helper.make_node("Relu", [last], [last := f"R{i}"]))
        shapes = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, k]) for n, k in (("X", 8), ("Y", 4))]
        held = [numpy_helper.from_array(weight, f"W{i}") for i, weight in enumerate(weights)]
        graph = helper.make_graph(nodes, "random", shapes[:1], shapes[1:], held)
        model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
        save_model(model, work / f"net{name}.onnx")
    rows = []
    for i in range(options.rows):
        network, query = f"net{i % 4}.onnx", f"q{i}.vnnlib"
        centre = rng.uniform(-1, 1, 8)
        lines = [f"(declare-const X_{j} Real)" for j in range(8)] + [f"(declare-const Y_{j} Real)" for j in range(4)]
        for j, value in enumerate(centre):
            lines += [f"(assert (>= X_{j} {value - 0.1:.6f}))", f"(assert (<= X_{j} {value + 0.1:.6f}))"]
        lines.append(f"(assert (>= Y_{i % 3} Y_3))")
        (work / query).write_text("\n".join(lines) + "\n")
        rows.append([network, query, f"{options.timeout:g}"])
        table.networks[network, query] = [(None, str(work / network))]
    table.add("random", rows)
    return table


def command(arm: str, table: Table, out: Path, options: argparse.Namespace) -> list[str]:
    words = [sys.executable, "-P", "-m", "falsifier", "campaign", *map(str, table.paths), "--out", str(out)]
    words += ["--timeout", f"{options.timeout:g}", "--rng-seed", str(options.rng_seed), "--device", "cpu"]
    if options.max_evaluations:
        words += ["--max-evaluations", str(options.max_evaluations)]
    if arm == "ray":
        words += ["--executor", "ray", "--workers", "2"]
    elif arm != "serial":
        words += ["--workers", arm]
    return words


def answers(out: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """What a record says of each row: verdict, reason, and the text of a witness."""
    database = sqlite3.connect(f"file:{out / 'campaign.sqlite'}?mode=ro", uri=True)
    try:
        rows = database.execute(
            "select i.onnx, i.vnnlib, a.verdict, a.reason, w.text from instance i left join answer a"
            " on a.instance_id = i.id left join witness w on w.attempt_id = a.id"
        ).fetchall()
    finally:
        database.close()
    return {
        (network, query): {"verdict": verdict, "reason": reason, "witness": None if text is None else unpacked(text)}
        for network, query, verdict, reason, text in rows
    }


def unpacked(text: bytes) -> str:
    """Text that zlib or gzip packed."""
    return zlib.decompress(text, zlib.MAX_WBITS | 32).decode()


def run(arm: str, table: Table, out: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One campaign to its end."""
    load, start, before = load_average(), time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    words = command(arm, table, out, options)
    done = subprocess.run(words, cwd=table.work, stderr=subprocess.PIPE, text=True, check=False)
    seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    found = answers(out)
    verdicts = Counter(str(answer["verdict"]) for answer in found.values())
    return {
        "arm": arm,
        "rows": len(found),
        "seconds": round(seconds, 2),
        "rows a second": round(len(found) / seconds, 2),
        "processor seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2),
        "load": load,
        "exit status": done.returncode,
        "verdicts": dict(verdicts),
        "stderr": done.stderr.splitlines()[-5:],
    }


def killed(arm: str, table: Table, out: Path, seconds: float, options: argparse.Namespace) -> dict[str, Any]:
    """One campaign that is killed again and again, and resumed. seconds: about how long it takes."""
    rng = random.Random(options.rng_seed)
    words = [*command(arm, table, out, options), "--resume"]
    kills: list[dict[str, Any]] = []
    start = time.monotonic()
    while True:
        process = subprocess.Popen(words, cwd=table.work, stderr=subprocess.PIPE, text=True)
        last = len(kills) == options.kill
        wait = None if last else rng.uniform(0.2, 1.4) * seconds / (options.kill + 1)
        try:
            _, said = process.communicate(timeout=wait)
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            decided = sum(answer["verdict"] is not None for answer in _answers_so_far(out).values())
            kills.append({"after": round(wait or 0, 2), "decided": decided})
            print(f"killed after {wait:.1f} s: {decided} decided", file=sys.stderr)
    return {
        "arm": arm,
        "kills": kills,
        "seconds": round(time.monotonic() - start, 2),
        "exit status": process.returncode,
        "verdicts": dict(Counter(str(answer["verdict"]) for answer in answers(out).values())),
        "stderr": said.splitlines()[-5:],
    }


def _answers_so_far(out: Path) -> dict[tuple[str, str], dict[str, Any]]:
    try:
        return answers(out)
    except sqlite3.Error:  # it was killed before there was a record
        return {}


def judged(table: Table, out: Path, work: Path, options: argparse.Namespace) -> dict[str, Any]:
    """What a judge says of every witness of a record."""
    classes, refused = Counter[str](), []
    for (network, query), answer in answers(out).items():
        if answer["verdict"] == "sat":
            found = "no witness" if answer["witness"] is None else judge(table, network, query, answer["witness"], work)
            classes[found] += 1
            if found not in GOOD:
                refused.append(f"{network} {query}: {found}")
    return {"classes": dict(classes), "refused": refused}


def judge(table: Table, network: str, query: str, witness: str, work: Path) -> str:
    """The class of one witness."""
    pairs = table.networks[network, query]
    if "judge" in sys.modules:
        return str(sys.modules["judge"].judge(str(work / query), witness, pairs)[0])
    file = work / "witness.txt"
    file.write_text(witness)
    words = [sys.executable, "-P", "-m", "falsifier", "check", str(work / query), str(file)]
    words += [f"--network={path if name is None else f'{name}={path}'}" for name, path in pairs]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    return (done.stdout.split() or ["nothing"])[0].rstrip(":")


def compared(one: Path, two: Path) -> dict[str, Any]:
    """Where two records differ: contradictions, where one has a witness and the other claims that there is none; rows
    without an answer; and other differences, which a clock or another stack may make.
    """
    first, second = answers(one), answers(two)
    differ = {key: (first[key]["verdict"], second[key]["verdict"]) for key in first}
    differ = {key: pair for key, pair in differ.items() if pair[0] != pair[1]}
    return {
        "same": len(first) - len(differ),
        "contradictions": [f"{key}: {pair}" for key, pair in differ.items() if set(pair) == {"sat", "unsat"}],
        "without an answer": [str(key) for key in first if None in (first[key]["verdict"], second[key]["verdict"])],
        "differences": [f"{key}: {pair[0]}, {pair[1]}" for key, pair in differ.items()],
    }


def measure(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    table = (arena_table if options.arena.is_dir() else generated_table)(options, work)
    if options.kill:
        arm = options.arms[0]
        calm = run(arm, table, work / "calm", options)
        show(calm)
        report = {"undisturbed": calm, "killed": killed(arm, table, work / "killed", calm["seconds"], options)}
        report["compared"] = compared(work / "calm", work / "killed")
        report["judged"] = {name: judged(table, work / name, work, options) for name in ("calm", "killed")}
        return report
    runs = []
    for turn in range(options.repeat):
        for arm in options.arms if turn % 2 == 0 else reversed(options.arms):
            out = work / f"{arm}-{turn}"
            runs.append(run(arm, table, out, options) | {"judged": judged(table, out, work, options)})
            show(runs[-1])
    return {"runs": runs, "best": best(runs)}


def best(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The quickest run of each arm, and how it compares to the serial one."""
    found: dict[str, dict[str, Any]] = {}
    for report in runs:
        known = found.get(report["arm"])
        if known is None or report["seconds"] < known["seconds"]:
            found[report["arm"]] = report
    serial = found.get("serial", runs[0])["seconds"]
    return {
        arm: {
            "seconds": report["seconds"],
            "rows a second": report["rows a second"],
            "times serial": round(serial / report["seconds"], 2),
        }
        for arm, report in found.items()
    }


def show(report: dict[str, Any]) -> None:
    """A line of the table."""
    print(
        f"{report['arm']:>8} {report['rows']:5} rows {report['seconds']:8.2f} s {report['rows a second']:7.2f} rows/s "
        f"{report['processor seconds']:8.2f} s of processors, {report['verdicts']}",
        file=sys.stderr,
    )


def failed(report: dict[str, Any]) -> bool:
    """Whether something is wrong that no clock explains."""
    records = report.get("judged") or {str(i): one["judged"] for i, one in enumerate(report["runs"])}
    comparison = report.get("compared", {})
    return bool(
        any(one["refused"] for one in records.values())
        or comparison.get("contradictions")
        or comparison.get("without an answer")
        or any("None" in one["verdicts"] for one in report.get("runs", ()))
    )


def parse(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arms", nargs="+", default=["serial", "1", "2", "ray"], metavar="ARM")
    parser.add_argument("--family", nargs="+", default=[])
    parser.add_argument("--expected", nargs="+", default=["sat"])
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--timeout", type=float, default=20.0)
    parser.add_argument("--max-evaluations", type=int)
    parser.add_argument("--rng-seed", type=int, default=0)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--kill", type=int, default=0)
    parser.add_argument("--arena", type=Path, default=ARENA)
    parser.add_argument("--work", help="where temporary files go")
    parser.add_argument("--out", type=Path)
    return parser.parse_args(words)


def main() -> int:
    options = parse()
    if options.arena.is_dir():
        sys.path.insert(0, str(options.arena))
        importlib.import_module("judge")
    with tempfile.TemporaryDirectory(prefix="scale-", dir=options.work) as folder:
        report = measure(options, Path(folder).resolve())
    print(json.dumps({k: v for k, v in report.items() if k in ("best", "compared")}, indent=1), file=sys.stderr)
    text = json.dumps({"machine": machine(), "versions": versions(), **report}, indent=1)
    if options.out:
        options.out.write_text(text + "\n")
    else:
        print(text)
    return int(failed(report))


if __name__ == "__main__":
    sys.exit(main())
