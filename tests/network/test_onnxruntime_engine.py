"""The onnxruntime engine: objective forms in the same run, activations, shared constants, and how it fails."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from models import affine, identity, save
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from small_networks import AFFINE, SMOOTH, read

from falsifier.errors import EngineError
from falsifier.network import onnxruntime_engine, work
from falsifier.network.division import Division
from falsifier.network.lowering import lower
from falsifier.network.onnx_graph import SHARED_BYTES, write_graph
from falsifier.network.onnxruntime_engine import OnnxruntimeEngine
from falsifier.network.peeling import on_logits
from falsifier.network.work import division, work_per_lane
from falsifier.objective import ObjectiveForm, Reduction

Array = NDArray[Any]
B, K = 6, 4


def engine_of(name: str) -> OnnxruntimeEngine:
    return OnnxruntimeEngine(lower({**AFFINE, **SMOOTH}[name]))


def formula(z: Array, real: Array, reduction: Reduction) -> tuple[Array, Array]:
    """Scaled slacks -> score `[b]` and its derivative by each, lane by lane, as `Reduction` defines them."""
    score, share = np.zeros(len(z)), np.zeros_like(z)
    for lane in range(len(z)):
        atoms = z[lane][real[lane]]
        if not len(atoms):
            continue
        if reduction is Reduction.HINGE:
            score[lane], d = np.minimum(atoms, 0).sum(), (atoms < 0) * 1.0
        elif reduction is Reduction.HARD:
            score[lane], d = atoms.min(), (np.arange(len(atoms)) == atoms.argmin()) * 1.0
        else:
            score[lane], d = -np.log(np.exp(-atoms).sum()), np.exp(-atoms) / np.exp(-atoms).sum()
        share[lane][real[lane]] = d
    return score, share


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("shared_rows", [True, False])
@pytest.mark.parametrize("reduction", Reduction)
def test_ascend_is_the_formula_and_the_chain_rule(
    reduction: Reduction, shared_rows: bool, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "_LARGE", 0 if large else np.inf)
    engine = engine_of("products and quotients")
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (B, engine.n))
    rows = rng.normal(size=(1 if shared_rows else B, K, engine.m))
    offset, scale = rng.normal(size=(B, K)), rng.uniform(0.5, 2, (B, K))
    scale[1, 2:] = 0
    scale[2] = 0
    offset[1, 3] = np.inf  # of a padded atom
    found = engine.ascend(x, ObjectiveForm(rows, offset, scale, reduction))
    y = engine.outputs(x)
    slack = np.einsum("bkm,bm->bk", np.broadcast_to(rows, (B, K, engine.m)), y) + offset
    score, share = formula(np.where(scale > 0, slack, 0) * scale, scale > 0, reduction)
    np.testing.assert_allclose(found.outputs, y, rtol=1e-12)
    np.testing.assert_allclose(found.slack, slack, rtol=1e-9)
    np.testing.assert_allclose(found.score, score, rtol=1e-9)
    np.testing.assert_allclose(found.weight, share * scale, rtol=1e-9)
    _, gradient = engine.vjp(x, np.einsum("bk,bkm->bm", share * scale, np.broadcast_to(rows, (B, K, engine.m))))
    np.testing.assert_allclose(found.gradient, gradient, rtol=1e-9, atol=1e-12)
    assert found.score[2] == 0
    assert not found.gradient[2].any()


@pytest.mark.parametrize("reduction", Reduction)
def test_broken_lanes_neither_win_nor_spread(reduction: Reduction) -> None:
    """Lane 0: sqrt of a negative is NaN. Lane 1: the slope of sqrt at 0 has no end. Lane 2 is healthy."""
    engine = OnnxruntimeEngine(lower(read("net (float[1,1] x) => (float[1,1] y) { y = Sqrt (x) }")))
    rows = np.array([[[1.0], [0.5]]], np.float32)
    form = ObjectiveForm(rows, np.full((3, 2), -1, np.float32), np.ones((3, 2), np.float32), reduction)
    found = engine.ascend(np.array([[-1.0], [0.0], [0.25]], np.float32), form)
    assert np.isnan(found.slack[0]).all()
    assert found.score[0] < -1e20
    assert found.score.argmax() == 2
    assert np.isfinite(found.gradient).all()
    assert not found.gradient[0].any()
    assert found.gradient[2] > 0


def test_infinite_slacks_stay_ordered() -> None:
    engine = OnnxruntimeEngine(lower(identity(1)))
    x = np.array([[1.0], [1.0]], np.float32)
    offset = np.array([[np.inf, -np.inf], [1.0, 2.0]], np.float32)
    rows, scale = np.ones((1, 2, 1), np.float32), np.ones((2, 2), np.float32)
    for reduction in Reduction:
        found = engine.ascend(x, ObjectiveForm(rows, offset, scale, reduction))
        assert not np.isnan(found.score).any(), reduction
        assert found.score[0] < found.score[1], reduction


def test_a_gradient_that_is_not_finite_is_zero_in_ascend_alone() -> None:
    """1 / x at 0: infinite outputs and slope."""
    engine = OnnxruntimeEngine(lower(read("net (float[1,1] x) => (float[1,1] y) <float c = {1.0}> { y = Div (c, x) }")))
    x, one = np.zeros((1, 1), np.float32), np.ones((1, 1), np.float32)
    assert not np.isfinite(engine.vjp(x, one)[1]).any()
    found = engine.ascend(x, ObjectiveForm(one[None], -one, one, Reduction.HARD))
    np.testing.assert_array_equal(found.gradient, [[0]])


SOFTMAX = """net (float[1,3] x) => (float[1,3] y) <float[3,3] w = {90.0,0.0,9.0,9.0,60.0,0.0,0.0,9.0,-60.0}> {
    z = MatMul (x, w)
    s = Softmax (z)
    y = Identity (s)
    }"""


def test_an_engine_on_the_logits_has_slopes_where_the_softmax_has_none() -> None:
    """The softmax is (1, 0, 0) to the last bit."""
    lowered = lower(read(SOFTMAX))
    engine = OnnxruntimeEngine(lowered)
    x, seed = np.array([[3.0, 1.0, 1.0]], np.float32), np.array([[-1.0, 1.0, 0.0]], np.float32)
    y, gradient = engine.vjp(x, seed)
    np.testing.assert_array_equal(y, [[1, 0, 0]])
    assert np.abs(gradient).max() < 1e-6
    y, gradient = on_logits(engine, lowered).vjp(x, seed)
    w = np.array([[90, 0, 9], [9, 60, 0], [0, 9, -60]])
    np.testing.assert_allclose(y, x @ w)
    np.testing.assert_allclose(gradient, seed @ w.T)


def test_the_logits_of_a_softmax_alone_are_the_inputs() -> None:
    lowered = lower(read("net (float[1,3] x) => (float[1,3] y) { y = Softmax <axis = -1> (x) }"))
    x = np.array([[1, 2, 3], [-4, 0, 5]], np.float32)
    assert on_logits(OnnxruntimeEngine(lowered), lowered).outputs(x).tolist() == x.tolist()


@pytest.mark.parametrize(
    "body",
    [
        "net (float[2,3] x) => (float[2,3] y) { y = Softmax <axis = -1> (x) }",
        "net (float[1,3] x) => (float[1,3] y) { s = Softmax (x) y = Add (s, s) }",
        "net (float[1,3] x) => (float[1,3] y, float[1,3] z) { y = Softmax (x) z = Neg (x) }",
    ],
)
def test_only_one_softmax_over_all_outputs_has_logits(body: str) -> None:
    lowered = lower(read(body))
    assert lowered.logits is None
    engine = OnnxruntimeEngine(lowered)
    assert on_logits(engine, lowered) is engine


def test_activations_by_the_models_names() -> None:
    engine = engine_of("attention")
    x = np.random.default_rng(0).normal(size=(3, engine.n))
    found = engine.activations(x, ["s", "x", "q", "y", "p"])
    assert {name: a.shape for name, a in found.items()} == {
        "s": (3, 9),
        "x": (3, 6),
        "q": (3, 4),
        "y": (3, 6),
        "p": (3, 9),
    }
    np.testing.assert_array_equal(found["x"], x)
    np.testing.assert_array_equal(found["y"], engine.outputs(x))
    np.testing.assert_allclose(found["p"].reshape(3, 3, 3).sum(axis=2), 1)
    with pytest.raises(EngineError, match="no tensor 'nowhere'"):
        engine.activations(x, ["nowhere"])


def test_folded_activations_are_unfolded() -> None:
    """A tensor stored with leading axes among the lanes comes back as `[b, size]`, lane by lane."""
    engine = engine_of("rows of a sequence")
    x = np.random.default_rng(0).normal(size=(3, engine.n)).astype(np.float32)
    m = engine.activations(x, ["m"])["m"]
    w = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    np.testing.assert_allclose(m, (x.reshape(3, 4, 3) @ w).reshape(3, 8), rtol=1e-5)


def test_large_constants_are_handed_over_and_small_ones_written() -> None:
    rng = np.random.default_rng(0)
    w = rng.normal(size=(160, 160)).astype(np.float32)
    assert w.nbytes >= SHARED_BYTES
    lowered = lower(affine(w))
    graph = write_graph(lowered.program, [lowered.x], [lowered.y])
    assert [a.shape for a in graph.shared.values()] == [(160, 160)]
    assert len(graph.model) < SHARED_BYTES
    engine = OnnxruntimeEngine(lowered)
    x, seed = (rng.normal(size=(2, 160)).astype(np.float32) for _ in range(2))
    y, gradient = engine.vjp(x, seed)
    np.testing.assert_allclose(y, x @ w.T, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(gradient, seed @ w, rtol=1e-4, atol=1e-4)
    assert len(engine._shared) == 1, "the graphs share the weight"


def sessions(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The models of all sessions that are made from now on."""
    made = []
    make = OnnxruntimeEngine._session

    def noted(self: OnnxruntimeEngine, graph: Any, **options: Any) -> Any:
        made.append(graph)
        return make(self, graph, **options)

    monkeypatch.setattr(OnnxruntimeEngine, "_session", noted)
    return made


def test_a_large_network_has_one_session_for_both_reductions(monkeypatch: pytest.MonkeyPatch) -> None:
    made = sessions(monkeypatch)
    one = np.ones((1, 1), np.float32)
    for large, count in ((np.inf, 3), (0, 2)):
        monkeypatch.setattr(work, "_LARGE", large)
        made.clear()
        engine = OnnxruntimeEngine(lower(affine([[1.0, -1.0]])))
        for reduction in (Reduction.HINGE, Reduction.HARD, Reduction.HINGE):
            engine.ascend(np.ones((1, 2), np.float32), ObjectiveForm(one[None], one, one, reduction))
        assert len(made) == count


def test_matrices_of_a_heavy_network_are_in_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are fed, the forward and the backward product from the same array, with the same results."""
    rng = np.random.default_rng(0)
    model = affine(rng.normal(size=(120, 130)).astype(np.float32), rng.normal(size=120).astype(np.float32))
    lowered = lower(model)
    x, seed = rng.normal(size=(3, 130)).astype(np.float32), rng.normal(size=(3, 120)).astype(np.float32)
    form = ObjectiveForm(seed[:1, None], np.ones((3, 1), np.float32), np.ones((3, 1), np.float32), Reduction.HARD)
    plain = OnnxruntimeEngine(lowered)
    monkeypatch.setattr(work, "_HEAVY", SHARED_BYTES)
    made = sessions(monkeypatch)
    heavy = OnnxruntimeEngine(lowered)
    np.testing.assert_allclose(heavy.outputs(x), plain.outputs(x), rtol=1e-5, atol=1e-5)
    for mine, other in ((heavy.vjp(x, seed), plain.vjp(x, seed)), (heavy.ascend(x, form), plain.ascend(x, form))):
        for found, wanted in zip(mine, other, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    made = [graph for graph in made if graph.fed]  # the others are the plain engine's
    assert len(made) == 3
    matrix = next(c for c in lowered.program.constants.values() if c.nbytes >= SHARED_BYTES)
    for graph in made:
        assert [a is matrix for a in graph.fed.values()] == [True]
        assert not graph.shared
        assert len(graph.model) < matrix.nbytes / 4


def test_what_onnxruntime_has_no_kernel_for_is_refused_when_the_engine_is_made() -> None:
    model = read("net (double[1,1,4] x) => (double[1,1,3] y) { y = Relu (x) }")
    model.graph.node[0].CopyFrom(helper.make_node("Conv", ["x", "w"], ["y"]))
    model.graph.initializer.append(numpy_helper.from_array(np.ones((1, 1, 2)), "w"))
    with pytest.raises(EngineError, match="Conv") as refusal:
        OnnxruntimeEngine(lower(model))
    assert "\n" not in str(refusal.value)


def test_a_missing_adjoint_leaves_an_engine_without_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    from falsifier.network.operators import PrimitiveRule, pointwise

    monkeypatch.setitem(pointwise.PRIMITIVES, "Neg", PrimitiveRule(pointwise.PRIMITIVES["Neg"].torch))
    engine = OnnxruntimeEngine(lower(read("net (float[1,2] x) => (float[1,2] y) { y = Neg (x) }")))
    assert engine.adjoint_error() == "the primitive Neg has no adjoint"
    assert not engine.differentiable
    assert engine.why_no_gradient == "the primitive Neg has no adjoint"
    np.testing.assert_array_equal(engine.outputs(np.ones((1, 2), np.float32)), [[-1, -1]])


def test_memory_that_runs_out_is_a_memory_error(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = OnnxruntimeEngine(lower(identity(2)))

    class Starving:
        def run(self, *arguments: Any) -> None:
            raise RuntimeError("Failed to allocate memory for requested buffer of size 123")

    monkeypatch.setattr(engine._forward, "_session", Starving())
    with pytest.raises(MemoryError):
        engine.outputs(np.ones((1, 2), np.float32))


def test_a_run_that_fails_is_an_engine_error() -> None:
    engine = OnnxruntimeEngine(lower(identity(2)))
    with pytest.raises(EngineError, match="onnxruntime fails"):
        engine.outputs(np.ones((1, 3), np.float32))


def test_small_networks_get_one_thread_and_large_ones_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "free_cores", lambda: 7)
    small, large = lower(affine(np.ones((3, 5)))), lower(affine(np.ones((1000, 1200))))
    assert work_per_lane(small) == 15
    assert work_per_lane(large) == 1_200_000
    assert division(small) == Division(1)
    assert division(large).threads == 7
    assert OnnxruntimeEngine(small, threads=3).threads == 3


@pytest.mark.parametrize(
    ("name", "work"),
    [
        ("rows of a sequence", 4 * 3 * 2),
        ("matrix on the left", 2 * 3 * 2),
        ("convolution in one dimension", 2 * 2 * 5 * 3),
        ("transposed convolution of a given size", 3 * 3),
    ],
)
def test_work_is_counted_in_multiplications(name: str, work: int) -> None:
    assert work_per_lane(lower(AFFINE[name])) == work


def test_no_lanes_are_no_outputs() -> None:
    engine = engine_of("flatten at axis 0")
    assert engine.outputs(np.empty((0, engine.n), np.float32)).shape == (0, 1)


def test_gradients_without_torch(tmp_path: Any) -> None:
    path = save(affine([[1.0, 2.0]]), tmp_path / "a.onnx")
    script = (
        "import sys, numpy as np\n"
        "from falsifier.network import load\n"
        f"e = load({str(path)!r}).engine()\n"
        "print(e.name, e.differentiable, e.vjp(np.ones((1, 2), np.float32), np.ones((1, 1), np.float32))[1].tolist())\n"
        "print(sorted({'torch', 'scipy', 'array_api_compat'} & set(sys.modules)))\n"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out.split("\n")[:2] == ["onnxruntime True [[1.0, 2.0]]", "[]"]


def test_the_module_itself_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        f"import {onnxruntime_engine.__name__}, falsifier.network.selection\n"
        "print(sorted({'torch', 'onnx', 'onnxruntime', 'scipy'} & set(sys.modules)))\n"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
