"""What the search's loop costs beside evaluation: stages on a query that nothing satisfies, with the engine timed."""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from engine_networks import CASES, build

from falsifier import walks
from falsifier.arrays import Rng
from falsifier.budget import Budget
from falsifier.network.from_torch import export
from falsifier.network.load import load
from falsifier.network.onnxruntime_engine import OnnxruntimeEngine
from falsifier.network.selection import choose
from falsifier.network.single import SingleSampleEngine
from falsifier.objective import Reduction
from falsifier.problem import Problem
from falsifier.query import parse
from falsifier.search import ascent, dilation, search
from falsifier.search.ascent import climb
from falsifier.search.dilation import dilated_climb
from falsifier.search.lanes import Lanes
from falsifier.search.run import Run
from falsifier.search.stages.gradient import AUTO, FINE, STEADY, VERTEX_FIRST, Gradient, _Round
from falsifier.search.stages.hopping import Hopping
from falsifier.spec import Rounding, compile_query

STAGES: dict[str, Callable[[], Any]] = {"gradient": Gradient, "hopping": Hopping}
KINDS: dict[str, Any] = {"ascent": None, "climb": ascent, "dilated": dilation}  # of steps, and the module of a climb
_STEPS = 40
_WARM_UP = 0.3  # seconds of search before the one that is measured


class Stopwatch:
    """Seconds inside calls of some methods of an object; calls inside such calls are not counted twice."""

    def __init__(self, owner: Any, methods: tuple[str, ...], device: str = "cpu") -> None:
        self.seconds, self.calls, self._depth, self._device = 0.0, 0, 0, device
        for name in methods:
            setattr(owner, name, self._watched(getattr(owner, name)))

    def _watched(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self._depth += 1
            start = time.perf_counter()
            try:
                return method(*arguments, **named)
            finally:
                if self._device != "cpu":  # else the time would be that of queueing
                    torch.cuda.synchronize()
                self._depth -= 1
                if self._depth == 0:
                    self.seconds += time.perf_counter() - start
                    self.calls += 1

        return call


class Source:
    """The problems of a search (`ProblemSource`)."""

    nearest = None

    def __init__(self, single: Problem, batched: Problem) -> None:
        self.single, self.batched = single, batched

    def accelerate(self) -> bool:
        return False


def query_of(n: int, m: int) -> str:
    """A query over the unit box whose disjuncts, one per further output, nothing satisfies."""
    lines = [f"(declare-const X_{i} Real)" for i in range(n)] + [f"(declare-const Y_{i} Real)" for i in range(m)]
    lines += [f"(assert (and (>= X_{i} 0) (<= X_{i} 1)))" for i in range(n)]
    disjuncts = " ".join(f"(and (>= (- Y_{i} Y_0) 1000000))" for i in range(1, m))
    return "\n".join([*lines, f"(assert (or {disjuncts}))"])


def step_shares(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """One network: where the time of a step goes, for given numbers of lanes, single-threaded on the CPU.

    Microseconds of CPU time, the lower quartile over steps: what other programs take does not count. `whole`: steps as
    the search makes them once their number pays for a graph, many in one run where that is possible.
    """
    case = CASES[name]
    network = load(export(build(case, options.rng_seed), torch.zeros(1, *case.shape)))
    query = parse(query_of(network.lowered.n, network.lowered.m).encode())
    spec = compile_query(query, network.reference.dtype, Rounding.INWARD)
    results = []
    for lanes in options.step_lanes:
        engine: Any = OnnxruntimeEngine(network.lowered, 1)
        budget = Budget.of_seconds(3600)
        single, batched = Problem(spec, SingleSampleEngine(network.reference), budget), Problem(spec, engine, budget)
        run = Run.start(Source(single, batched), budget, Rng(options.rng_seed), lambda _: False)
        run.until = float("inf")
        for kind, module in KINDS.items():
            inner, outer = Laps(engine, "ascend"), Laps(batched, "ascend")
            owner, rule, before, moves = _watched_rule(module)
            together: list[float] = []
            for turn in range(2 * options.step_rounds):
                walks._BY_HAND = 0 if turn % 2 else math.inf  # type: ignore[assignment]
                began = time.thread_time()
                _steps_of(kind, run, batched, lanes, options.rng_seed)
                if turn % 2:
                    together.append((time.thread_time() - began) / _STEPS)
            whole, in_problem = outer.between(), outer.inside()
            in_engine = in_problem * inner.total() / outer.total()  # which may run a batch in several chunks
            figures = {
                "network": name,
                "steps_of": kind,
                "lanes": lanes,
                "microseconds_per_step": round(whole, 1),
                "in_engine": round(in_engine, 1),
                "outside_engine": round(1 - in_engine / whole, 3),
                "outside_problem": round(1 - in_problem / whole, 3),
                "rule": round((in_rule := moves.inside()) / whole, 3),
                "bookkeeping": round(1 - (in_problem + in_rule) / whole, 3),
                "whole": round(as_made := 1e6 * float(np.percentile(together, 25)), 1),
                "whole_outside_engine": round(1 - in_engine / as_made, 3),
            }
            results.append(figures)
            print(json.dumps(figures), file=sys.stderr, flush=True)
            del engine.ascend, batched.ascend
            setattr(owner, rule, before)
    return results


def _steps_of(kind: str, run: Run, problem: Problem, lanes: int, rng_seed: int) -> None:
    """The steps of a round of gradient lanes, or of a climb."""
    if kind == "ascent":
        _Round(run, problem, lanes, _STEPS, [VERTEX_FIRST, AUTO, STEADY, FINE], 2).work(run)
        return
    start = Rng(rng_seed).uniform((lanes, problem.f), problem.like)
    climb_of = climb if kind == "climb" else dilated_climb
    climb_of(run, problem, np.arange(lanes) % problem.t, start, _STEPS, Rng(rng_seed), Reduction.HINGE)


def _watched_rule(module: Any) -> tuple[Any, str, Any, Laps]:
    """Where steps are computed from gradients, under watch: the owner, the name and what stood there, and the laps."""
    if module is None:
        before = Lanes.move
        return Lanes, "move", before, Laps(Lanes, "move")
    laps, before = Laps(), module.climb_by
    module.climb_by = lambda move, *arguments, **named: before(laps.watched(move), *arguments, **named)
    return module, "climb_by", before, laps


class Laps:
    """When each call of a function began and ended, in CPU time of this thread, in which the engine computes too."""

    def __init__(self, owner: Any = None, name: str = "") -> None:
        self._times: list[tuple[float, float]] = []
        if owner is not None:
            setattr(owner, name, self.watched(getattr(owner, name)))

    def total(self) -> float:
        """Seconds of all calls together."""
        return sum(end - start for start, end in self._times)

    def watched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function under watch."""

        def call(*arguments: Any, **named: Any) -> Any:
            start = time.thread_time()
            result = function(*arguments, **named)
            self._times.append((start, time.thread_time()))
            return result

        return call

    def inside(self) -> float:
        """Microseconds of a call, the lower quartile."""
        return 1e6 * float(np.percentile([end - start for start, end in self._times], 25))

    def between(self) -> float:
        """Microseconds from the beginning of a call to that of the next, the lower quartile."""
        return 1e6 * float(np.percentile(np.diff([start for start, _ in self._times]), 25))


def loop_shares(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """One network: for each stage, the share of its seconds outside the engine and outside `Problem`."""
    case = CASES[name]
    network = load(export(build(case, options.rng_seed), torch.zeros(1, *case.shape)))
    engine: Any = choose(network, options.device, None)[0]
    query = parse(query_of(network.lowered.n, network.lowered.m).encode())
    spec = compile_query(query, network.reference.dtype, Rounding.INWARD)
    inner = Stopwatch(engine, ("outputs", "vjp", "ascend"), options.device)
    results = []
    for stage, make in STAGES.items():
        figures: dict[str, Any] = {}
        for seconds in (_WARM_UP, options.loop_seconds):
            budget = Budget.of_seconds(seconds)
            batched = Problem(spec, engine, budget)
            outer = Stopwatch(batched, ("evaluate", "screen", "ascend", "row_scale"), options.device)
            source = Source(Problem(spec, SingleSampleEngine(network.reference), budget), batched)
            inner.seconds, inner.calls = 0.0, 0
            found = search(source, budget, Rng(options.rng_seed), lambda _: False, [make()])
            total = found.stages[stage].seconds
            figures = {
                "network": name,
                "stage": stage,
                "engine": engine.name,
                "seconds": round(total, 3),
                "engine_calls": inner.calls,
                "evaluations_per_call": round(found.evaluations / max(1, inner.calls), 1),
                "microseconds_per_call_outside_engine": round(1e6 * (total - inner.seconds) / max(1, inner.calls), 1),
                "outside_engine": round(1 - inner.seconds / total, 4),
                "outside_problem": round(1 - outer.seconds / total, 4),
            }
        results.append(figures)
        print(
            f"{name:10} {stage:9} outside engine {figures['outside_engine']:.1%}, problem "
            f"{figures['outside_problem']:.1%}, {figures['evaluations_per_call']} lanes a call",
            file=sys.stderr,
            flush=True,
        )
    return results
