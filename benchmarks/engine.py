"""Gradient lanes per second of each engine against a network hand-written in torch, and what the search loop adds.

    python benchmarks/engine.py [--network small_mlp mlp conv residual vit] [--lanes 64 512] [--threads 1 2]
        [--repeats 7] [--seconds 0.2] [--device cpu] [--rng-seed 0] [--no-loop | --loop-only]

One gradient run is what a step of the search asks for: outputs, slacks, score and the score's gradient by the input.
The hand-written side computes the same from the module by autograd, on the whole batch at once. Sides take turns,
`--repeats` times; figures are medians. Before they are timed, gradients are compared. On CUDA, time is read after the
device is done.

The loop: stages of the search on a query that nothing satisfies, and the share of their seconds spent outside the
engine (all bookkeeping) and outside `Problem`, which adds margins and boxes to the engine's run; and the same of single
steps with given numbers of lanes; and what drawing, energy and admission take of the fuzzing loop's steps. Prints
JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from engine_fuzzing import fuzzing_shares
from engine_loop import loop_shares, step_shares
from engine_networks import CASES, Case, build
from peers_machine import load_average, machine, versions

from falsifier.network.from_torch import export
from falsifier.network.load import Network, load
from falsifier.network.selection import choose
from falsifier.objective import ObjectiveForm, Reduction

HAND = "hand-written"
_AGREE = 1e-3  # of a lane's largest entry; rounding moves lanes across kinks, so a few lanes may differ more


@dataclass(frozen=True)
class Side:
    """One way to compute a gradient run of the same batch: `run` gives the gradient `[b, n]`."""

    name: str
    run: Callable[[], Any]


def hand_written(module: torch.nn.Module, case: Case, data: Batch, device: str) -> Side:
    """The module on the batch, differentiated by autograd."""
    module = module.to(device)
    x = torch.from_numpy(data.x).to(device)
    rows, offset = torch.from_numpy(data.rows).to(device), torch.from_numpy(data.offset).to(device)
    shape = (len(data.x), *case.shape)

    def run() -> Any:
        points = x.detach().requires_grad_()
        outputs = module(points.reshape(shape))
        slack = (rows @ outputs[:, :, None])[:, :, 0] + offset
        score = slack.clamp(max=0).sum(dim=1)
        (gradient,) = torch.autograd.grad(score.sum(), points)
        return gradient

    return Side(HAND, run)


@dataclass(frozen=True)
class Batch:
    """Points `[b, n]` and an objective of two atoms that no point satisfies: rows `[1, 2, m]`, offset `[b, 2]`."""

    x: Any
    rows: Any
    offset: Any

    @classmethod
    def drawn(cls, lanes: int, n: int, m: int, rng_seed: int) -> Batch:
        rng = np.random.default_rng(rng_seed)
        rows = rng.normal(size=(1, 2, m)).astype(np.float32)
        return cls(rng.random((lanes, n), dtype=np.float32), rows, np.full((lanes, 2), -1e3, np.float32))


def engine_side(engine: Any, data: Batch) -> Side:
    """An engine on the batch."""
    x = engine.asarray(data.x)
    scale = engine.asarray(np.ones_like(data.offset))
    form = ObjectiveForm(engine.asarray(data.rows), engine.asarray(data.offset), scale, Reduction.HINGE)
    return Side(engine.name, lambda: engine.ascend(x, form).gradient)


def engines(network: Network, threads: int, device: str) -> list[Any]:
    """The engines that run on a device."""
    from falsifier.network.onnxruntime_engine import OnnxruntimeEngine
    from falsifier.network.torch_engine import TorchEngine

    made: list[Any] = [TorchEngine(network.lowered, device, threads=threads)]
    return [OnnxruntimeEngine(network.lowered, threads), *made] if device == "cpu" else made


def agreement(sides: list[Side]) -> dict[str, float]:
    """Per engine, the share of lanes whose gradient is the hand-written one up to rounding."""
    gradients = {side.name: np.asarray(torch.as_tensor(side.run()).cpu()) for side in sides}
    hand = gradients.pop(HAND)
    largest = np.abs(hand).max(axis=1)
    return {name: float(np.mean(np.abs(own - hand).max(axis=1) <= _AGREE * largest)) for name, own in gradients.items()}


def rates(sides: list[Side], lanes: int, options: argparse.Namespace) -> dict[str, float]:
    """Median gradient lanes per second of each side."""
    calls: dict[str, int] = {}
    seconds: dict[str, list[float]] = {}
    for side in sides:
        _timed(side, 2, options.device)
        once = _timed(side, 3, options.device) / 3
        calls[side.name] = max(1, round(options.seconds / once))
        seconds[side.name] = []
    for repeat in range(options.repeats):
        turn = repeat % len(sides)
        for side in sides[turn:] + sides[:turn]:
            seconds[side.name].append(_timed(side, calls[side.name], options.device) / calls[side.name])
    return {name: lanes / statistics.median(each) for name, each in seconds.items()}


def _timed(side: Side, calls: int, device: str) -> float:
    """Seconds of so many calls."""
    _finish(device)
    start = time.perf_counter()
    for _ in range(calls):
        side.run()
    _finish(device)
    return time.perf_counter() - start


def _finish(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def measure(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """One network with every number of threads and lanes."""
    case = CASES[name]
    module = build(case, options.rng_seed)
    network = load(export(module, torch.zeros(1, *case.shape)))
    chosen = choose(network, options.device, None)[0].name
    results = []
    for threads in options.threads:
        made = engines(network, threads, options.device)
        torch.set_num_threads(threads)
        for lanes in options.lanes:
            data = Batch.drawn(lanes, network.lowered.n, network.lowered.m, options.rng_seed)
            sides = [hand_written(module, case, data, options.device), *(engine_side(e, data) for e in made)]
            agree, busy = agreement(sides), load_average()
            found = rates(sides, lanes, options)
            ratio = {key: round(value / found[HAND], 3) for key, value in found.items() if key != HAND}
            results.append(
                {
                    "network": name,
                    "threads": threads,
                    "lanes": lanes,
                    "chosen": chosen,
                    "lanes_per_second": {key: round(value) for key, value in found.items()},
                    "ratio_to_hand_written": ratio,
                    "lanes_that_agree": agree,
                    "load_average": busy,
                }
            )
            print(f"{name:10} {threads} threads {lanes:4} lanes  {json.dumps(ratio)}", file=sys.stderr, flush=True)
    return results


def main() -> None:
    """Parse the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--network", nargs="*", choices=list(CASES), default=list(CASES))
    add("--lanes", type=int, nargs="*", default=[64, 512])
    add("--threads", type=int, nargs="*", default=[1, 2])
    add("--repeats", type=int, default=7, help="turns of each side")
    add("--seconds", type=float, default=0.2, help="of one turn, about")
    add("--device", default="cpu", help="cpu, cuda or cuda:i")
    add("--rng-seed", type=int, default=0)
    add("--loop-seconds", type=float, default=2.0, help="of each stage of the loop's measurement")
    add("--no-loop", action="store_true", help="engines alone")
    add("--loop-only", action="store_true", help="the loop alone")
    add("--step-lanes", type=int, nargs="*", default=[64, 256], help="of the measurement of single steps")
    add("--step-rounds", type=int, default=6, help="of 40 steps each")
    add("--fuzzing-steps", type=int, default=60, help="of the fuzzing loop")
    options = parser.parse_args()
    start = load_average()
    results = [] if options.loop_only else [one for name in options.network for one in measure(name, options)]
    loop = [] if options.no_loop else [one for name in options.network for one in loop_shares(name, options)]
    on_cpu = options.device == "cpu" and not options.no_loop
    steps = [one for name in options.network for one in step_shares(name, options)] if on_cpu else []
    fuzzing = [one for name in options.network for one in fuzzing_shares(name, options)] if on_cpu else []
    report = {
        "benchmark": "engine",
        "units": {
            "lanes_per_second": "gradient runs of one sample per s of wall time, median over repeats",
            "outside_engine, outside_problem": "share of a stage's seconds, or of a step's microseconds",
        },
        "machine": machine() | ({} if options.device == "cpu" else {"accelerator": torch.cuda.get_device_name()}),
        "versions": versions(),
        "load_average": {"start": start, "end": load_average()},
        "options": vars(options),
        "engines": results,
        "loop": loop,
        "steps": steps,
        "fuzzing": fuzzing,
    }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
