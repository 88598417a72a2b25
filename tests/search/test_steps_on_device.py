"""Steps of lanes on a device: nothing in them waits for it, and they are the steps that the host makes."""

from __future__ import annotations

import models
import numpy as np
import pytest
import torch

from falsifier.arrays import Array, Rng, as_like, to_host
from falsifier.budget import Budget
from falsifier.network.load import load
from falsifier.network.onnxruntime_engine import OnnxruntimeEngine
from falsifier.network.torch_engine import TorchEngine
from falsifier.objective import Reduction
from falsifier.problem import Problem
from falsifier.query import parse
from falsifier.search.ascent import _Path, _Rules
from falsifier.search.lanes import Lanes
from falsifier.search.run import bounds
from falsifier.search.stages.gradient import AUTO, FINE, STEADY, VERTEX_FIRST
from falsifier.spec import Rounding, compile_query

_STEPS = 6
_TWO = "(assert (or (and (>= Y_0 9) (>= Y_1 Y_0)) (and (<= Y_1 -9))))"  # the second has padding
_ONE = "(assert (>= Y_0 9))(assert (>= Y_1 Y_0))"


def problem(device: str, text: str) -> Problem:
    rng = np.random.default_rng(0)
    steps = [models.gemm(rng.normal(size=(8, 3)), name="a"), ("Relu", [], {}), models.gemm(rng.normal(size=(2, 8)))]
    network = load(models.chain(steps, [1, 3], [1, 2]))
    query = models.declare(3, 2) + models.box([-1] * 3, [1] * 3) + text
    spec = compile_query(parse(query.encode()), np.dtype(np.float32), Rounding.INWARD)
    engine = OnnxruntimeEngine(network.lowered) if device == "" else TorchEngine(network.lowered, device)
    return Problem(spec, engine, Budget())


class Scene:
    """Gradient lanes and a climb, both on the device before the first step."""

    def __init__(self, problem: Problem, lanes: int) -> None:
        self.problem = problem
        target = np.arange(lanes) % problem.t
        self.aim = as_like(target, problem.like)
        start = as_like(np.random.default_rng(1).uniform(-1, 1, (lanes, problem.f)).astype(np.float32), problem.like)
        self.rounds = Lanes.at(problem, target, start, [VERTEX_FIRST, AUTO, STEADY, FINE], _STEPS)
        even = as_like(np.arange(lanes) % 2 == 0, problem.like)
        cap = as_like(np.full(lanes, 0.1, np.float32), problem.like)
        self.rules, self.path = _Rules(cap, even, even[:, None], _STEPS), _Path(start, *bounds(problem, self.aim))

    def walked(self, first: int = 0, steps: int = _STEPS) -> tuple[Array, Array]:
        """Points of both after some steps, without a look at anything."""
        problem, rounds, rules, path = self.problem, self.rounds, self.rules, self.path
        scale: Array | None = None
        for step in range(first, first + steps):
            evaluation, _, gradient = problem.ascend(rounds.x, self.aim)
            rounds.take(evaluation.margin)
            rounds.move(gradient)
            if step == 3:
                rounds.checkpoint()
            evaluation, score, gradient = problem.ascend(path.x, self.aim, Reduction.HINGE, scale)
            path.move(gradient, rules, -score, step)
            scale = rules.scale(evaluation.slack)
        return rounds.x, path.x


@pytest.mark.parametrize("text", [_ONE, _TWO])
def test_steps_read_nothing(text: str) -> None:
    # a meta tensor has no numbers: whoever asks for one raises
    for points in Scene(problem("meta", text), 8).walked():
        assert points.shape == (8, 3)
        assert points.device.type == "meta"


@pytest.mark.parametrize("text", [_ONE, _TWO])
def test_steps_are_those_of_the_host(text: str) -> None:
    for ours, theirs in zip(Scene(problem("", text), 8).walked(), Scene(problem("cpu", text), 8).walked(), strict=True):
        np.testing.assert_allclose(ours, to_host(theirs), atol=1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("text", [_ONE, _TWO])
def test_steps_on_cuda(text: str) -> None:
    scene = Scene(problem("cuda", text), 64)
    scene.walked(steps=2)  # the first steps allocate and load kernels
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = scene.walked(first=2, steps=_STEPS)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    host = Scene(problem("", text), 64)
    host.walked(steps=2)
    for ours, theirs in zip(host.walked(first=2, steps=_STEPS), found, strict=True):
        np.testing.assert_allclose(ours, to_host(theirs), atol=1e-3)


def test_draws_of_rules_have_the_kind_of_the_points() -> None:
    rules = _Rules.drawn(Rng(0), torch.zeros(4, 2), True, 3)
    assert rules.scale(torch.zeros(4, 2)) is not None
