"""Both engines against the reference on real networks.

    python benchmarks/agreement.py [--family NAME] [--arena FOLDER] [--points N] [--json FILE]

For every network of the arena (a folder beside the repository) it prints a row of a Markdown table: sizes, the largest
deviation of each engine's batch from single samples of the original, as a part of each output's spread over the points;
how far the two engines' gradients differ; and the engine that the self-check chooses. Points are drawn from the box of
one query on that network (the unit box where none is found), widened to a tenth of each input's magnitude: in a tighter
box some outputs vary by less than float32 rounds.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from ast import literal_eval
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import FalsifierError
from falsifier.network import Network, load

ARENA = Path(__file__).resolve().parents[1].parent / "shared" / "arena"
Box = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True)
class Row:
    """One network. Deviations are parts of spread; None where the engine does not run it (`note` says why)."""

    family: str
    network: str
    n: int
    m: int
    onnxruntime: float | None = None
    torch: float | None = None
    gradients: float | None = None  # the difference between the engines', as a part of the lane's largest entry
    engine: str = ""
    note: str = ""
    seconds: float = 0.0


def networks(arena: Path, family: str | None = None) -> Iterator[tuple[str, Path, Path]]:
    """(family, network, a query on it) for every distinct network of single-network rows, in the file's order."""
    seen: set[str] = set()
    with (arena / "instances.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if family is not None and row["family"] != family:
                continue
            text = row["network"]
            names = [name for _, name in literal_eval(text)] if text.startswith("[") else [text]
            for name in names:
                if name not in seen:
                    seen.add(name)
                    yield row["family"], arena / name, arena / row["property"]


def query_box(query: Path, n: int) -> Box | None:
    """The box of a query's first n inputs over all its disjuncts, `[n]` each; None where there is none."""
    from falsifier.query import read
    from falsifier.spec import compile_query

    try:
        spec = compile_query(read(query))
    except FalsifierError:
        return None
    if spec.targets is None or spec.domain is None or spec.n < n:
        return None
    corners = np.stack([spec.targets.lower.min(axis=0), spec.targets.upper.max(axis=0)])
    full = spec.domain.embed(corners)
    return full.min(axis=0)[:n], full.max(axis=0)[:n]


def compare(family: str, path: Path, query: Path | None, points: int = 16) -> Row:
    """One network in both engines against single samples, over the box of a query on it (else the unit box)."""
    from falsifier.network.selfcheck import check_points

    begin = time.perf_counter()
    network = load(path)
    reference = network.reference
    box = query_box(query, reference.n) if query is not None else None
    x = check_points(reference, None if box is None else widened(box), points)
    expected = np.stack([reference.run_flat(row) for row in x]).astype(np.float64)
    noise = step_noise(network, x, expected)
    found: dict[str, float] = {}
    gradients: dict[str, NDArray[Any]] = {}
    notes: list[str] = []
    for name in ("onnxruntime", "torch"):
        try:
            engine = build(network, name)
            outputs = np.asarray(engine.outputs(engine.asarray(x)), dtype=np.float64)
            found[name] = deviation(outputs, expected, noise)
            seed = np.random.default_rng(0).normal(size=expected.shape)
            gradients[name] = np.asarray(engine.vjp(engine.asarray(x), engine.asarray(seed))[1], dtype=np.float64)
        except FalsifierError as error:
            notes.append(f"{name}: {error}")
    chosen = network.engine("cpu", box)
    return Row(
        family,
        path.name.removesuffix(".gz").removesuffix(".onnx"),
        reference.n,
        expected.shape[1],
        found.get("onnxruntime"),
        found.get("torch"),
        gradient_difference(*gradients.values()) if len(gradients) == 2 else None,
        chosen.name,
        "; ".join(notes),
        time.perf_counter() - begin,
    )


def widened(box: Box) -> Box:
    """A box at least a tenth of each input's magnitude wide."""
    lower, upper = (np.asarray(side, dtype=np.float64) for side in box)
    more = np.maximum(0.05 * np.maximum(np.abs(lower), np.abs(upper)) - (upper - lower) / 2, 0)
    return lower - more, upper + more


def build(network: Network, name: str) -> Any:
    """One engine on one CPU thread, without a self-check. Raises UnsupportedError, EngineError."""
    if name == "torch":
        from falsifier.network.torch_engine import TorchEngine

        return TorchEngine(network.lowered, "cpu", threads=1)
    from falsifier.network.onnxruntime_engine import OnnxruntimeEngine

    return OnnxruntimeEngine(network.lowered, threads=1)


def deviation(got: NDArray[Any], expected: NDArray[Any], noise: NDArray[Any] | float = 0.0) -> float:
    """The largest deviation of `[b, m]`, each output's as a part of its spread over the points.

    An output that hardly varies is measured by a millionth of the largest output, or 32 times its `noise` `[m]`: what
    one step of the inputs' last bit changes.
    """
    spread = expected.max(axis=0) - expected.min(axis=0)
    least = max(1e-6 * float(np.abs(expected).max()), 1e-30)
    return float((np.abs(got - expected) / np.maximum(np.maximum(spread, least), 32 * noise)).max())


def step_noise(network: Network, x: NDArray[Any], expected: NDArray[Any]) -> NDArray[Any]:
    """How much each output changes at most, over points `[b, n]`, when inputs move by one step of their last bit."""
    moved = np.nextafter(x, np.asarray(np.inf, dtype=x.dtype))
    there = np.stack([network.reference.run_flat(row) for row in moved])
    change: NDArray[Any] = np.abs(there - expected).max(axis=0)
    return change


def gradient_difference(a: NDArray[Any], b: NDArray[Any]) -> float:
    """How far two gradients `[b, n]` differ, each lane as a part of its largest entry: the most that three quarters of
    the lanes stay within, since a lane on a kink may take either side.

    A lane whose gradient has all but vanished is measured by a millionth of the largest entry of all.
    """
    largest = np.maximum(np.abs(a).max(axis=1, keepdims=True), np.abs(b).max(axis=1, keepdims=True))
    lanes = (np.abs(a - b) / np.maximum(largest, max(1e-6 * float(largest.max()), 1e-30))).max(axis=1)
    return float(np.sort(lanes)[-1 - len(lanes) // 4])


def table(rows: list[Row]) -> str:
    """Markdown."""
    lines = ["| family | network | n | m | onnxruntime | torch | gradients | engine |"]
    lines.append("|---|---|---:|---:|---:|---:|---:|---|")
    for r in rows:
        numbers = " | ".join("-" if v is None else f"{v:.0e}" for v in (r.onnxruntime, r.torch, r.gradients))
        lines.append(f"| {r.family} | {r.network} | {r.n} | {r.m} | {numbers} | {r.engine} |")
    return "\n".join(lines)


def family_table(rows: list[Row]) -> str:
    """The worst of each family's networks, as Markdown."""
    lines = ["| family | networks | onnxruntime | torch | gradients | served by |", "|---|---:|---:|---:|---:|---|"]
    for family in dict.fromkeys(r.family for r in rows):
        own = [r for r in rows if r.family == family]
        columns = ([r.onnxruntime for r in own], [r.torch for r in own], [r.gradients for r in own])
        worst = " | ".join("-" if None in c else f"{max(v for v in c if v is not None):.0e}" for c in columns)
        engines = ", ".join(f"{e} {n}" for e, n in Counter(r.engine for r in own).items())
        lines.append(f"| {family} | {len(own)} | {worst} | {engines} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arena", type=Path, default=ARENA)
    parser.add_argument("--family")
    parser.add_argument("--points", type=int, default=16)
    parser.add_argument("--json", type=Path, help="write every row here")
    options = parser.parse_args()
    rows = []
    for family, path, query in networks(options.arena, options.family):
        rows.append(compare(family, path, query, options.points))
        print(table(rows[-1:]).splitlines()[-1], f"{rows[-1].seconds:.1f} s", rows[-1].note, flush=True)
    print()
    print(table(rows))
    print()
    print(family_table(rows))
    if options.json:
        options.json.write_text(json.dumps([asdict(r) for r in rows], indent=0) + "\n")


if __name__ == "__main__":
    main()
