"""The fuzzing loop on real engines: onnxruntime, torch on the CPU, and torch on a GPU where there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from falsifier.arrays import Rng, to_host
from falsifier.budget import Budget
from falsifier.falsify import falsify
from falsifier.network import load
from falsifier.network.onnxruntime_engine import OnnxruntimeEngine
from falsifier.network.torch_engine import TorchEngine
from falsifier.problem import Problem
from falsifier.query import read
from falsifier.search import search
from falsifier.search.groups import Groups
from falsifier.search.loop import Loop
from falsifier.search.recipes import our_recipe, paper_recipe
from falsifier.search.run import Run
from falsifier.search.search import search_run
from falsifier.spec import compile_query
from falsifier.testing.problems import small_problem
from falsifier.verdict import StopReason, Verdict

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def GPU(test: Any) -> Any:  # noqa: N802
    """Marks a test that needs a CUDA device."""
    torch = pytest.importorskip("torch")
    without = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
    return pytest.mark.gpu(without(test))


RECIPES = pytest.mark.parametrize("recipe", [paper_recipe, our_recipe])


def _problem(engine: Any) -> Problem:
    spec = compile_query(read(EXAMPLES / "digits_violated.vnnlib"))
    return Problem(spec, engine(load(EXAMPLES / "digits.onnx").lowered))


@RECIPES
@pytest.mark.parametrize("engine", [OnnxruntimeEngine, lambda lowered: TorchEngine(lowered, "cpu")])
def test_both_engines_fuzz(engine: Any, recipe: Any) -> None:
    problem = _problem(engine)
    loop = Loop(problem, recipe(), Rng(0))
    violated = 0
    for _ in range(12):
        step = loop.step(16)
        assert step is not None
        violated += int(step.violated.sum())
        margins = to_host(problem.screen(step.x)).max(axis=1)
        np.testing.assert_allclose(to_host(step.margin), margins, rtol=1e-4, atol=1e-4)
    assert violated > 0
    figures = loop.figures()
    assert figures["entries"] > 1
    assert figures.get("fired", 1) > 0
    assert figures.get("patterns", 1) > 0


@GPU
@pytest.mark.parametrize("portfolio", ["paper", "fuzzing"])
def test_a_gpu_fuzzes(portfolio: str) -> None:
    files = EXAMPLES / "digits.onnx", EXAMPLES / "digits_violated.vnnlib"
    result = falsify(*files, timeout=120, device="cuda", portfolio=portfolio)
    assert result.verdict is Verdict.SAT


@GPU
@RECIPES
def test_a_gpu_makes_the_same_corpus_twice(recipe: Any) -> None:
    def grown() -> dict[str, Any]:
        loop = Loop(_problem(lambda lowered: TorchEngine(lowered, "cuda")), recipe(), Rng(3))
        for _ in range(20):
            loop.step(32)
        return loop.corpus.host()

    one, two = grown(), grown()
    assert len(one["x"]) == len(two["x"])
    np.testing.assert_allclose(one["x"], two["x"], atol=1e-4)


def test_many_instances_share_the_batch() -> None:
    """Three instances of one network: each is closed by a point of its own."""
    budget = Budget(max_evaluations=20_000)
    small = small_problem()
    problem = Problem(small.spec, small.engine, budget)

    class Source:
        single = batched = problem
        nearest = None

        def accelerate(self) -> bool:
            return False

    found: list[int] = []

    def confirm(group: int, point: Any) -> bool:
        found.append(group)
        return True

    result = search(Source(), budget, Rng(0), Groups([1, 1, 1], confirm), "fuzzing")
    assert result.reason is StopReason.CONFIRMED
    assert sorted(found) == [0, 1, 2]


def test_coverage_is_there_for_progress_reports() -> None:
    budget = Budget(max_evaluations=3_000)
    spec = compile_query(read(EXAMPLES / "digits_robust.vnnlib"))
    problem = Problem(spec, OnnxruntimeEngine(load(EXAMPLES / "digits.onnx").lowered), budget)

    class Source:
        single = batched = problem
        nearest = None

        def accelerate(self) -> bool:
            return False

    run = Run.start(Source(), budget, Rng(0), lambda point: False)
    result = search_run(run, "paper")
    (last,) = [record.notes["history"][-1] for record in result.stages.values() if "history" in record.notes]
    assert run.coverage == last["fired"] / last["neurons"]
    assert 0 < last["fired"] <= last["neurons"]
