"""What the fuzzing loop adds to evaluation and mutation: drawing, energy, admission, what a batch is made of."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import torch
from engine_loop import Laps, query_of
from engine_networks import CASES, build

from falsifier.arrays import Rng
from falsifier.budget import Budget
from falsifier.network.from_torch import export
from falsifier.network.load import load
from falsifier.network.onnxruntime_engine import OnnxruntimeEngine
from falsifier.problem import Problem
from falsifier.query import parse
from falsifier.search.loop import Loop
from falsifier.search.recipes import our_recipe, paper_recipe
from falsifier.spec import Rounding, compile_query

RECIPES = {"paper": paper_recipe, "ours": our_recipe}
_WARM_UP = 20  # steps


def fuzzing_shares(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """One network: where the CPU time of the fuzzing loop's steps goes, for given numbers of lanes, single-threaded.

    `evaluated` and `mutated` are shares of the whole, gradients and their rules among what mutates; `loop` is the rest.
    """
    case = CASES[name]
    network = load(export(build(case, options.rng_seed), torch.zeros(1, *case.shape)))
    query = parse(query_of(network.lowered.n, network.lowered.m).encode())
    spec = compile_query(query, network.reference.dtype, Rounding.INWARD)
    problem = Problem(spec, OnnxruntimeEngine(network.lowered, 1), Budget.of_seconds(3600))
    results = []
    for title, recipe in RECIPES.items():
        for lanes in options.step_lanes:
            loop = Loop(problem, recipe(), Rng(options.rng_seed))
            for _ in range(_WARM_UP):
                loop.step(lanes)
            evaluated, mutated = Laps(loop, "_evaluate"), Laps(loop, "_mutated")
            began = time.thread_time()
            for _ in range(options.fuzzing_steps):
                loop.step(lanes)
            whole = time.thread_time() - began
            figures = {
                "network": name,
                "recipe": title,
                "lanes": lanes,
                "microseconds_per_step": round(1e6 * whole / options.fuzzing_steps, 1),
                "evaluated": round(evaluated.total() / whole, 3),
                "mutated": round(mutated.total() / whole, 3),
                "loop": round(1 - (evaluated.total() + mutated.total()) / whole, 3),
            }
            results.append(figures)
            print(json.dumps(figures), file=sys.stderr, flush=True)
    return results
