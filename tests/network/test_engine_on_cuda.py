"""The torch engine on a CUDA device, judged by onnxruntime on the CPU."""

from __future__ import annotations

import models
import numpy as np
import pytest
import torch

from falsifier.budget import Budget
from falsifier.falsify import falsify
from falsifier.network.load import Network, load
from falsifier.network.onnxruntime_engine import OnnxruntimeEngine
from falsifier.network.selection import accelerated, choose
from falsifier.network.torch_engine import TorchEngine
from falsifier.objective import ObjectiveForm, Reduction
from falsifier.problem import Problem
from falsifier.query import parse
from falsifier.spec import Rounding, compile_query
from falsifier.verdict import Verdict

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


def network(width: int = 256, n: int = 8) -> Network:
    rng = np.random.default_rng(0)
    layers = [(width, n), (width, width), (3, width)]
    steps = []
    for i, shape in enumerate(layers):
        steps += [models.gemm(rng.normal(size=shape) / shape[1] ** 0.5, name=f"l{i}"), ("Relu", [], {})]
    return load(models.chain(steps[:-1], [1, n], [1, 3]))


def close(ours: torch.Tensor, theirs: np.ndarray) -> None:
    scale = float(np.abs(theirs).max())
    np.testing.assert_allclose(ours.cpu().numpy(), theirs, atol=2e-5 * scale)


@pytest.mark.parametrize("reduction", list(Reduction))
def test_outputs_and_gradients_are_those_of_the_cpu(reduction: Reduction) -> None:
    lowered = network().lowered
    cuda, cpu = TorchEngine(lowered, "cuda"), OnnxruntimeEngine(lowered)
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (512, cuda.n)).astype(np.float32)
    rows, offset = rng.normal(size=(1, 2, 3)).astype(np.float32), np.full((512, 2), -3, np.float32)
    scale = np.ones_like(offset)
    close(cuda.outputs(cuda.asarray(x)), cpu.outputs(x))
    form = ObjectiveForm(cuda.asarray(rows), cuda.asarray(offset), cuda.asarray(scale), reduction)
    ours = cuda.ascend(cuda.asarray(x), form)
    theirs = cpu.ascend(x, ObjectiveForm(rows, offset, scale, reduction))
    close(ours.score, theirs.score)
    # a rounded pre-activation may lie on the other side of a kink in a few lanes
    same = np.abs(ours.gradient.cpu().numpy() - theirs.gradient).max(axis=1) < 1e-4 * np.abs(theirs.gradient).max()
    assert same.mean() > 0.98


def test_products_are_whole_float32() -> None:
    """TF32 keeps 10 bits of a factor: 1 + 2^-12 would be 1."""
    TorchEngine(network().lowered, "cuda")
    x = torch.full((256, 256), 1 + 2.0**-12, device="cuda")
    assert float((x @ torch.eye(256, device="cuda"))[0, 0]) == 1 + 2.0**-12
    assert not torch.backends.cuda.matmul.allow_tf32
    assert not torch.backends.cudnn.allow_tf32


def test_a_chunk_that_does_not_fit_is_halved() -> None:
    net = network(width=4096)
    text = models.declare(8, 3) + models.box([-1] * 8, [1] * 8) + "(assert (>= Y_0 100))"
    spec = compile_query(parse(text.encode()), np.dtype(np.float32), Rounding.INWARD)
    engine = TorchEngine(net.lowered, "cuda")
    problem = Problem(spec, engine, Budget())
    runs: list[int] = []
    outputs = engine.outputs

    def counted(x: torch.Tensor) -> torch.Tensor:
        runs.append(x.shape[0])
        result: torch.Tensor = outputs(x)
        return result

    engine.outputs = counted  # type: ignore[method-assign]
    problem._chunks.lanes = lambda kind: 1 << 30  # as if all would fit
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, 2e9 / total))
    try:
        points = torch.zeros(1 << 17, 8, device="cuda")  # 2 GB for each of the two hidden layers
        found = problem.evaluate(points, torch.zeros(1 << 17, dtype=torch.int64, device="cuda"))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()
    assert found.margin.shape == (1 << 17,)
    assert torch.isfinite(found.margin).all()
    assert runs[0] == 1 << 17
    assert min(runs) < 1 << 17


def test_auto_finds_the_device() -> None:
    engine = accelerated(network(), (np.full(8, -1, np.float32), np.full(8, 1, np.float32)))
    assert engine is not None
    assert engine.device == "cuda:0"


def test_the_device_that_is_asked_for_serves() -> None:
    engine, attempts = choose(network(), "cuda:0", (np.full(8, -1, np.float32), np.full(8, 1, np.float32)))
    assert (engine.name, engine.device) == ("torch", "cuda:0")
    assert attempts[-1].accepted


@pytest.mark.parametrize("device", ["cuda", "auto"])
def test_a_search_finds_a_planted_point(device: str) -> None:
    """Points within 0.01 of a given one in four dimensions; none is nearer than 0."""
    centre = np.array([0.31, -0.42, 0.57, -0.63])
    eye = np.eye(4)
    first = models.gemm(np.concatenate([eye, -eye]), np.concatenate([-centre, centre]), name="a")
    last = models.gemm(-np.ones((1, 8)), name="b")
    net = models.chain([first, ("Relu", [], {}), last], [1, 4], [1, 1])  # y = -|x - centre|_1
    text = models.declare(4, 1) + models.box([-1] * 4, [1] * 4)
    found = falsify(net, text + "(assert (>= Y_0 -0.01))", device=device, max_evaluations=200_000)
    assert found.verdict is Verdict.SAT
    never = falsify(net, text + "(assert (>= Y_0 0.01))", device=device, max_evaluations=60_000)
    assert never.verdict is Verdict.UNKNOWN
    assert never.engine == "torch"
