"""The experiments of source paper B: coverage-guided fuzzing against random search at equal evaluations.

    python benchmarks/coverage_fuzzing.py numerical|natural|disagree|words|throughput|growth [--runs 10] --json FILE

numerical: networks of 32 kinds whose only NaN has under 10^-9 of the box; natural: a badly built loss behind a digit
classifier. disagree: float32 against float16 and int8 around the centres of queries (--arena FOLDER with an
instances.csv). words: a character-level GRU (--language FOLDER, made by language_model.py). throughput: evaluations per
second of a small network. growth: what one evaluation's coverage costs with up to 10^6 vectors kept, made up; those of
real sessions are in coverage_sessions.py.

Configurations: `uniform` (random inputs), `noise` (random mutations of the starts, no coverage), `paper` (the same with
nearest neighbours, threshold 1.0), `unguided` (all mutators, no coverage), `default`. Statistics as in
fuzzing_statistics.py.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import fuzz_networks
import numpy as np
from coverage_configurations import CONFIGURATIONS, configured, found
from coverage_starts import centres_of
from fuzzing_statistics import compared
from peers_machine import load_average, machine, versions

from falsifier.arrays import Rng
from falsifier.fuzz.build import build
from falsifier.fuzz.coverage.nearest import NearestNeighbour
from falsifier.fuzz.fuzzer import Fuzzer
from falsifier.fuzz.quantize import quantize
from falsifier.fuzz.settings import Settings
from falsifier.fuzz.space import Space


def _broken(causes: dict[str, int]) -> bool:
    return any(c.startswith(("nan-", "error-")) for c in causes)


def numerical(options: argparse.Namespace) -> dict[str, Any]:
    """Per run, on how many of the generated networks the NaN was found."""
    samples: dict[str, list[float]] = {c: [] for c in options.configurations}
    first: dict[str, dict[str, list[int | None]]] = {c: {} for c in options.configurations}
    for run in range(options.runs):
        for kind in options.kinds:
            faulty = fuzz_networks.faulty(kind, 100 + run)
            for name in options.configurations:
                fuzzer = build(Settings(faulty.model, ranges=faulty.ranges, rng_seed=run, lanes=256))
                fuzzer.space = _without_the_fault(fuzzer)
                causes = found(configured(fuzzer, name), options.evaluations, until=_broken)
                hit = min((n for c, n in causes.items() if c.startswith(("nan-", "error-"))), default=None)
                first[name].setdefault(kind, []).append(hit)
        for name in options.configurations:
            samples[name].append(float(sum(first[name][k][-1] is not None for k in first[name])))
        _said(options, f"run {run}: " + ", ".join(f"{c} {samples[c][-1]:.0f}" for c in samples))
    return {"of": len(options.kinds), "found": samples, "first": first}


def _without_the_fault(fuzzer: Fuzzer) -> Space:
    """The same space with a random start where the centre is a hit itself: nobody is to win by that."""
    if fuzzer.objective.confirm(fuzzer.space.starts[0], 0) is not None:
        fuzzer.space.starts[:] = fuzzer.space.uniform(Rng(5), 1)
    return fuzzer.space


def natural(options: argparse.Namespace) -> dict[str, Any]:
    """The cross-entropy of a digit classifier, -sum p log p with p by hand, around real images: causes found."""
    import onnx
    from onnx import helper, numpy_helper
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]

    root = Path(__file__).resolve().parents[1]
    model = onnx.load_model(str(root / "examples" / "digits.onnx"))
    (output,), opset = model.graph.output, model.opset_import[0].version
    axes = [numpy_helper.from_array(np.array([1], np.int64), "of_classes")]
    scale = numpy_helper.from_array(np.array(options.sharpness, np.float32), "sharpness")
    model.graph.initializer.extend([*axes, scale])
    total = (
        helper.make_node("ReduceSum", ["loss_exp", "of_classes"], ["loss_sum"], keepdims=1)
        if opset >= 13
        else helper.make_node("ReduceSum", ["loss_exp"], ["loss_sum"], axes=[1], keepdims=1)
    )
    model.graph.node.extend(
        [
            helper.make_node("Mul", [output.name, "sharpness"], ["loss_logits"]),
            helper.make_node("Exp", ["loss_logits"], ["loss_exp"]),
            total,
            helper.make_node("Div", ["loss_exp", "loss_sum"], ["loss_p"]),
            helper.make_node("Log", ["loss_p"], ["loss_log"]),
            helper.make_node("Mul", ["loss_p", "loss_log"], ["loss"]),
        ]
    )
    model.graph.output.append(helper.make_tensor_value_info("loss", 1, None))
    images = load_digits().images[:20].astype(np.float32) / 16
    name = model.graph.input[0].name
    samples: dict[str, list[float]] = {c: [] for c in options.configurations}
    for run in range(options.runs):
        for configuration in options.configurations:
            settings = Settings(
                model, inputs={name: images}, ranges={"": (0.0, 1.0)}, radius=options.radius, rng_seed=run, lanes=256
            )
            causes = found(configured(build(settings), configuration), options.evaluations, until=_broken)
            samples[configuration].append(float(min(causes.values(), default=options.evaluations)))
        _said(options, f"run {run}: " + ", ".join(f"{c} {samples[c][-1]:.0f}" for c in samples))
    return {"evaluations_to_first_fault": samples, "cap": options.evaluations, "sharpness": options.sharpness}


def disagree(options: argparse.Namespace) -> dict[str, Any]:
    """Distinct (start, class pair) on which a copy disagrees, around the centres of a family's queries."""
    network, inputs = centres_of(options.arena, options.network)
    (starts,) = inputs.values()
    out: dict[str, Any] = {"network": network.name, "starts": len(starts), "radius": options.radius}
    with tempfile.TemporaryDirectory() as scratch:
        for kind in ("float16", "int8"):
            copy = Path(scratch) / f"{kind}.onnx"
            quantize(network, copy, kind, inputs=inputs)
            samples: dict[str, list[float]] = {c: [] for c in options.configurations}
            for run in range(options.runs):
                for configuration in options.configurations:
                    settings = Settings(
                        network,
                        "disagree",
                        copy,
                        inputs=inputs,
                        radius=options.radius,
                        ranges={"": tuple(options.range)},
                        rng_seed=run,
                        lanes=256,
                    )
                    causes = found(
                        configured(build(settings), configuration),
                        options.evaluations,
                        key=lambda finding, oldest: f"{oldest}: {finding.cause}",
                    )
                    samples[configuration].append(float(len(causes)))
                _said(options, f"{kind}, run {run}: " + ", ".join(f"{c} {samples[c][-1]:.0f}" for c in samples))
            out[kind] = samples
    return out


def words(options: argparse.Namespace) -> dict[str, Any]:
    """Distinct words of the list that the language model was made to write."""
    samples: dict[str, list[float]] = {c: [] for c in options.configurations}
    folder = options.language
    for run in range(options.runs):
        for configuration in options.configurations:
            settings = Settings(
                folder / "lm.onnx",
                f"words:{folder / 'words.txt'}",
                tokens=folder / "vocabulary.json",
                sample_seed=options.sample,
                rng_seed=run,
            )
            causes = found(configured(build(settings), configuration), options.evaluations)
            samples[configuration].append(float(len(causes)))
        _said(options, f"run {run}: " + ", ".join(f"{c} {samples[c][-1]:.0f}" for c in samples))
    return {"words": len((folder / "words.txt").read_text().split()), "found": samples}


def throughput(options: argparse.Namespace) -> dict[str, Any]:
    """Evaluations per second of a network of 8-32-32-4, coverage on, all mutators."""
    rng = np.random.default_rng(0)
    net = fuzz_networks.Net(rng)
    x = net.x(8)
    for size in (32, 32):
        x = net("Relu", net.affine(x, rng.normal(size=(size, 8 if x == "X" else 32)) / 4, rng.normal(size=size)))
    model = net.model(net.affine(x, rng.normal(size=(4, 32)), np.zeros(4)))
    out: dict[str, Any] = {}
    for objective, coverage in (
        ("range:-1e9,1e9", "nearest"),
        ("range:-1e9,1e9", "none"),
        ("nonfinite", "nearest"),
    ):
        fuzzer = build(Settings(model, objective, coverage=coverage))
        loop = fuzzer.loop(lambda point, oldest: False)
        started, processor = time.perf_counter(), time.process_time()
        while time.perf_counter() - started < options.seconds:
            loop.step()
        seconds, used = time.perf_counter() - started, time.process_time() - processor
        count = loop.progress.evaluations
        out[f"{objective} {coverage}"] = {
            "per_second": round(count / seconds),
            "per_processor_second": round(count / used),
            "entries": loop.progress.entries,
            "covered": loop.progress.covered,
            "lanes": fuzzer.lanes,
        }
        _said(options, f"{objective} {coverage}: {count / seconds:.0f}/s, {count / used:.0f} per processor second")
    return out


def growth(options: argparse.Namespace) -> dict[str, Any]:
    """Microseconds of coverage for one evaluation, with more and more vectors kept: batches as a fuzzer makes them."""
    d, lanes, threshold = options.dimensions, 4096, options.threshold
    rng = np.random.default_rng(0)
    coverage = NearestNeighbour(d, threshold)
    figures = []
    for size in options.kept:
        while coverage.size < size:
            coverage.restore(rng.normal(size=(min(size - coverage.size, 10_000), d)).astype(np.float32))
        parents = rng.normal(size=(lanes, d)).astype(np.float32)
        # a third stays near its parent, the rest is looked up as far as a batch may
        near = 0.5 * np.sqrt(threshold / d)
        children = parents + np.where(rng.random((lanes, 1)) < 1 / 3, near, 0.5) * rng.normal(size=(lanes, d))
        batches = [children.astype(np.float32) + 0.01 * k for k in range(20)]
        started, processor = time.perf_counter(), time.process_time()
        for batch in batches:
            coverage.novel(batch, parents)
        seconds, used = time.perf_counter() - started, time.process_time() - processor
        figures.append(
            {
                "kept": size,
                "microseconds": round(1e6 * seconds / lanes / len(batches), 3),
                "processor_microseconds": round(1e6 * used / lanes / len(batches), 3),
            }
        )
        _said(options, str(figures[-1]))
    return {"dimensions": d, "lanes": lanes, "threshold": threshold, "figures": figures}


EXPERIMENTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    e.__name__: e for e in (numerical, natural, disagree, words, throughput, growth)
}


def tables(results: dict[str, Any]) -> list[dict[str, Any]]:
    """The statistics of every set of samples in a result, by its place."""
    out = []
    for place, samples in _samples(results):
        means = {c: float(np.mean(v)) for c, v in samples.items()}
        pairs = [asdict(c) for c in compared(samples)] if min(len(v) for v in samples.values()) > 1 else []
        out.append({"of": place, "means": means, "pairs": pairs})
    return out


def _samples(results: dict[str, Any], place: str = "") -> list[tuple[str, dict[str, list[float]]]]:
    out = []
    for name, value in results.items():
        if isinstance(value, dict) and name != "first":
            if value and set(value) <= set(CONFIGURATIONS) and all(isinstance(v, list) for v in value.values()):
                out.append((f"{place}{name}", value))
            else:
                out += _samples(value, f"{place}{name} ")
    return out


def plot(results: dict[str, Any], path: Path) -> None:
    """One PNG: a box for each configuration, or the costs over the size of the store."""
    from matplotlib.figure import Figure

    sets = _samples(results)
    figure = Figure(figsize=(4.2 * max(len(sets), 1), 3.6), layout="constrained")
    if "figures" in results:
        axes = figure.add_subplot()
        kept = [f["kept"] for f in results["figures"]]
        axes.plot(kept, [f["processor_microseconds"] for f in results["figures"]], marker="o")
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_xlabel("vectors kept")
        axes.set_ylabel("processor microseconds of an evaluation")
    for i, (place, samples) in enumerate(sets):
        axes = figure.add_subplot(1, len(sets), i + 1)
        axes.boxplot(list(samples.values()))
        axes.set_xticks(range(1, len(samples) + 1), list(samples), rotation=30)
        axes.set_title(place, fontsize="small")
    figure.savefig(path, format="png", dpi=150)


def _said(options: argparse.Namespace, text: str) -> None:
    if not options.quiet:
        print(text, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--evaluations", type=int, default=20_000)
    parser.add_argument("--configurations", nargs="+", choices=CONFIGURATIONS, default=list(CONFIGURATIONS))
    parser.add_argument(
        "--kinds", nargs="+", choices=sorted(fuzz_networks.KINDS), default=sorted(fuzz_networks.KINDS), help="numerical"
    )
    parser.add_argument("--arena", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "arena")
    parser.add_argument("--network", default="mnist-net_256x2", help="disagree: a part of the network's path")
    parser.add_argument("--range", type=float, nargs=2, default=(0.0, 1.0), help="disagree: ends of inputs")
    parser.add_argument("--radius", type=float, default=0.2)
    parser.add_argument("--sharpness", type=float, default=1.7, help="natural: what logits are multiplied by")
    parser.add_argument("--sample", type=int, default=1, help="words: the rng seed of what the model draws")
    parser.add_argument("--language", type=Path, help="words: the folder that language_model.py wrote")
    parser.add_argument(
        "--kept",
        type=int,
        nargs="+",
        default=[1_000, 4_000, 10_000, 30_000, 100_000, 300_000, 1_000_000],
        help="growth",
    )
    parser.add_argument("--dimensions", type=int, default=10, help="growth: of normal vectors")
    parser.add_argument("--threshold", type=float, default=1e-3, help="growth: squared distance")
    parser.add_argument("--seconds", type=float, default=10.0, help="throughput: of each measurement")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, help="a PNG (needs matplotlib, the extra [plots])")
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args(arguments)
    started = time.perf_counter()
    results = EXPERIMENTS[options.experiment](options)
    statistics = tables(results)
    record = {
        "experiment": options.experiment,
        "runs": options.runs,
        "evaluations": options.evaluations,
        "results": results,
        "statistics": statistics,
        "machine": machine(),
        "versions": versions(),
        "load": load_average(),
        "seconds": round(time.perf_counter() - started, 1),
    }
    for table in statistics:
        _said(options, json.dumps(table["means"]))
    if options.json is not None:
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    if options.plot is not None:
        plot(results, options.plot)


if __name__ == "__main__":
    main()
