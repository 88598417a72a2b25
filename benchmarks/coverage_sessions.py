"""What nearest-neighbour coverage costs in real sessions as the corpus grows, and what its search misses.

    python benchmarks/coverage_sessions.py mlp|mnist|FILE.onnx [--hidden] [--kept 10000 100000 1000000] --json FILE

mlp: a network of 32-32-32-10, random weights. mnist: the first of a family's networks (--network), around the centres
of its queries (--arena FOLDER with an instances.csv). --hidden: coverage of the activations, not of the outputs. At
each number of kept vectors: processor time of one evaluation, in all and of coverage alone, since the number before;
what was looked up and found; of the last 1024 looked up what an exact search finds, and what was missed, in all and of
those whose nearest is beyond 0.7 of the threshold.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import fuzz_networks
import numpy as np
from coverage_starts import centres_of
from numpy.typing import NDArray
from peers_machine import load_average, machine, versions

from falsifier.fuzz.build import build
from falsifier.fuzz.coverage.kept import Kept
from falsifier.fuzz.settings import Settings

Array = NDArray[Any]

_ASKED = 1024


class Watched(Kept):
    """Remembers what it keeps and what it was asked last, and the processor time that it took."""

    def __init__(self, d: int, threshold: float, exact: int) -> None:
        super().__init__(d, threshold, exact)
        self.threshold = threshold
        self.all: list[Array] = []
        self.asked: list[tuple[Array, Array, int]] = []
        self.looked_up = self.found = 0

    def near(self, rows: Array) -> Array:
        near = super().near(rows)
        self.looked_up += len(rows)
        self.found += int(near.sum())
        self.asked = [*self.asked[-_ASKED // 16 :], (rows, near, self.size)]
        return near

    def add(self, rows: Array) -> None:
        self.all.append(rows.copy())
        super().add(rows)

    def judged(self) -> dict[str, Any]:
        """The last ones that were asked for, against an exact search of what was kept then."""
        kept = np.concatenate(self.all)
        norms = (kept.astype(np.float64) ** 2).sum(axis=1)
        near, found = [], []
        for rows, answer, size in self.asked:
            nearest = (norms[:size] - 2 * (rows.astype(np.float64) @ kept[:size].T)).argmin(axis=1)
            near.append(((rows - kept[nearest]) ** 2).sum(axis=1))
            found.append(answer)
        distance, answers = np.concatenate(near)[-_ASKED:], np.concatenate(found)[-_ASKED:]
        within = distance <= self.threshold
        edge = within & (distance > 0.7 * self.threshold)
        return {
            "asked": len(answers),
            "near": int(within.sum()),
            "missed": int((within & ~answers).sum()),
            "near_the_threshold": int(edge.sum()),
            "missed_near_the_threshold": int((edge & ~answers).sum()),
        }


def settings_of(options: argparse.Namespace) -> Settings:
    """The session that is asked for; its objective never holds."""
    never = "range:-1e9,1e9"
    if options.model == "mlp":
        rng = np.random.default_rng(0)
        net = fuzz_networks.Net(rng)
        x, last, hidden = net.x(32), 32, []
        for size in (32, 32):
            x = net("Relu", net.affine(x, 0.25 * rng.normal(size=(size, last)), 0.3 * rng.normal(size=size)))
            hidden.append(x)
            last = size
        model = net.model(net.affine(x, rng.normal(size=(10, last)) / np.sqrt(last), np.zeros(10)))
        return Settings(model, never, cover=tuple(hidden) if options.hidden else ())
    if options.model == "mnist":
        network, starts = centres_of(options.arena, options.network)
        return Settings(
            network, never, inputs=starts, radius=0.2, ranges={"": (0.0, 1.0)}, cover=_hidden(network, options.hidden)
        )
    return Settings(Path(options.model), never, cover=_hidden(Path(options.model), options.hidden))


def _hidden(network: Path, wanted: bool) -> tuple[str, ...]:
    from falsifier.network import load
    from falsifier.network.observation import layers_of

    return tuple(layer.name for layer in layers_of(load(network).lowered)) if wanted else ()


def session(options: argparse.Namespace) -> dict[str, Any]:
    """One session, to the last number of kept vectors or until the processor time is used up."""
    for library in ("faiss", "scipy.spatial"):
        import_module(library)  # before the clock runs
    fuzzer = build(settings_of(options))
    coverage: Any = fuzzer.coverage
    kept = coverage._kept = Watched(coverage._kept._d, coverage.threshold, coverage._kept._exact)
    spent, novel = 0.0, coverage.novel

    def timed(vectors: Array, parents: Array) -> Array:
        nonlocal spent
        began = time.process_time()
        new: Array = novel(vectors, parents)
        spent += time.process_time() - began
        return new

    coverage.novel = timed
    loop = fuzzer.loop(lambda point, oldest: False)
    figures: list[dict[str, Any]] = []
    first = time.process_time()
    for size in options.kept:
        began, before, evaluations, looked_up, found = (
            time.process_time(),
            spent,
            loop.progress.evaluations,
            kept.looked_up,
            kept.found,
        )
        while coverage.size < size and time.process_time() - first < options.seconds:
            loop.step()
        done = max(loop.progress.evaluations - evaluations, 1)
        figures.append(
            {
                "kept": coverage.size,
                "evaluations": loop.progress.evaluations,
                "microseconds": round(1e6 * (time.process_time() - began) / done, 3),
                "of_coverage": round(1e6 * (spent - before) / done, 3),
                "looked_up": kept.looked_up - looked_up,
                "found": kept.found - found,
                "search": "graph" if kept._graph is not None else "trees" if kept._trees is not None else "exact",
                **kept.judged(),
            }
        )
        if not options.quiet:
            print(json.dumps(figures[-1]), flush=True)
        if coverage.size < size:
            break
    return {"threshold": coverage.threshold, "lanes": fuzzer.lanes, "figures": figures}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="mlp|mnist|FILE.onnx")
    parser.add_argument("--hidden", action="store_true", help="cover the activations, not the outputs")
    parser.add_argument("--kept", type=int, nargs="+", default=[3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000])
    parser.add_argument("--seconds", type=float, default=600.0, help="of processor time")
    parser.add_argument("--arena", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "arena")
    parser.add_argument("--network", default="mnist-net_256x2", help="mnist: a part of the network's path")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args(arguments)
    record = {
        "model": options.model,
        "hidden": options.hidden,
        **session(options),
        "machine": machine(),
        "versions": versions(),
        "load": load_average(),
    }
    if options.json is not None:
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
