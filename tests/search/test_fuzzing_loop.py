"""The fuzzing loop and its parts: the paper's formulas, judging by groups, feedback, reproducibility."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from toy_problems import relu_network, run, toy

from falsifier.arrays import Rng, as_like, to_host
from falsifier.budget import Budget
from falsifier.network.observation import Layer
from falsifier.problem import Problem
from falsifier.search.coverage.neurons import Neurons
from falsifier.search.coverage.patterns import Patterns
from falsifier.search.directions import MarginDirection, PaperDirection, labels_of
from falsifier.search.energy import DecayingEnergy, News, PaperEnergy
from falsifier.search.loop import Loop, Recipe, _fitting
from falsifier.search.mutators.boundary import Boundary
from falsifier.search.mutators.climb import Climb
from falsifier.search.mutators.noise import Noise
from falsifier.search.mutators.pgd import Pgd
from falsifier.search.projection import IntoBall, IntoBox
from falsifier.search.recipes import our_recipe, paper_recipe
from falsifier.search.scaling.anisotropic import Anisotropic
from falsifier.search.scaling.dynamic import Dynamic
from falsifier.search.scaling.fixed import Fixed
from falsifier.search.scaling.isotropic import Isotropic
from falsifier.search.siblings import Siblings, groups_of
from falsifier.search.stages.fuzzing import Fuzzing
from falsifier.testing.contracts import some_batch
from falsifier.testing.problems import SmallEngine, small_problem
from falsifier.verdict import StopReason

KINDS = pytest.mark.parametrize("kind", ["numpy", "torch"])


@KINDS
def test_scalings_are_the_papers(kind: str) -> None:
    batch = some_batch(kind)
    width = to_host(batch.upper - batch.lower)
    assert to_host(Fixed(0.02).eta(batch)).item() == np.float32(0.02)
    assert to_host(Isotropic(0.3).eta(batch)).item() == pytest.approx(0.3 * width.mean(), rel=1e-5)
    np.testing.assert_allclose(to_host(Anisotropic(0.2).eta(batch)), 0.2 * width, rtol=1e-6)
    drawn = to_host(batch.drawn)
    assert drawn.max() > drawn.min()
    reach = np.maximum(to_host(batch.x - batch.lower), to_host(batch.upper - batch.x))
    expected = (1 - 0.9 ** (drawn + 1))[:, None] * reach
    np.testing.assert_allclose(to_host(Dynamic(0.1).eta(batch)), expected, rtol=1e-4, atol=1e-9)


@KINDS
def test_heuristic_mutators_go_half_a_step(kind: str) -> None:
    batch = some_batch(kind)
    eta = Anisotropic(0.1).eta(batch)
    moved = to_host(Boundary()(batch, eta, Rng(0)) - batch.x)
    np.testing.assert_allclose(np.abs(moved), to_host(eta) / 2, atol=3e-8)
    assert 0.3 < (moved[:, 0] > 0).mean() < 0.9
    draws = np.stack([to_host(Noise()(batch, eta, Rng(i)) - batch.x)[:, 0] for i in range(300)])
    assert draws.std() == pytest.approx(to_host(eta)[:, 0].mean() / 2, rel=0.2)


@KINDS
def test_pgd_steps_are_twice_eta_in_all(kind: str) -> None:
    """On a linear piece: start within eta, then 2 * eta along the signs of the gradient, clipped into the box."""
    batch = some_batch(kind)
    assert batch.slope is not None
    steady = batch.slope(batch.x)
    constant = replace(batch, slope=lambda x: steady, lower=batch.lower - 100, upper=batch.upper + 100)
    eta = Anisotropic(0.1).eta(batch)
    sign = np.sign(to_host(steady.gradient))
    moved = to_host(Pgd(5)(constant, eta, Rng(0)) - batch.x)
    assert (np.abs(moved - 2 * sign * to_host(eta)) <= to_host(eta) + 1e-6).all()
    scalar = to_host(Pgd(5, scalar=True)(constant, eta, Rng(0)) - batch.x)
    assert (np.abs(scalar - 2 * sign * to_host(eta).mean()) <= to_host(eta) + 1e-6).all()


@KINDS
def test_the_ball_is_anchored_at_the_original(kind: str) -> None:
    batch = some_batch(kind)
    x = batch.x
    for _ in range(20):  # a chain of mutations
        x = IntoBall(0.02)(x + 1, batch)
        assert np.abs(to_host(x - batch.original)).max() <= 0.02 + 1e-6
    assert to_host(IntoBox()(x * np.nan, batch)).tolist() == to_host(batch.x).tolist()


def label_toy(kind: str = "numpy") -> Problem:
    """Class 2 of 4 over one box: three targets."""
    clauses = "(assert (or " + " ".join(f"(and (>= Y_{j} Y_2))" for j in (0, 1, 3)) + "))"
    instance = toy(relu_network(3, (6, 20, 4)), clauses, [-1] * 6, [1] * 6, torch=kind == "torch")
    return instance.batched


@KINDS
def test_a_lane_is_judged_by_all_targets_of_its_group(kind: str) -> None:
    problem = label_toy(kind)
    siblings = Siblings(problem, groups_of(problem))
    assert (siblings.groups, siblings.joined) == (1, True)
    points = as_like(np.random.default_rng(0).uniform(-1, 1, (40, 6)).astype(np.float32), problem.like)
    group = as_like(np.zeros(40, np.int64), problem.like)
    evaluation = problem.evaluate(points, group)
    margin, target = siblings.judge(evaluation.outputs, group, group, evaluation.margin)
    every = to_host(problem.screen(points))
    np.testing.assert_allclose(to_host(margin), every.max(axis=1), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(to_host(target), every.argmax(axis=1))
    draws = as_like(np.linspace(0, 0.999, 40, dtype=np.float32), problem.like)
    assert set(to_host(siblings.some(draws, group)).tolist()) == {0, 1, 2}
    assert to_host(labels_of(problem, siblings.table)).tolist() == [2]


@KINDS
def test_boxes_apart_are_groups_apart(kind: str) -> None:
    problem = small_problem(kind)
    assert groups_of(problem).tolist() == [0, 1, 2]
    siblings = Siblings(problem, groups_of(problem))
    assert to_host(labels_of(problem, siblings.table)).tolist() == [-1, -1, -1]  # conjunctions have no label
    loop = Loop(problem, our_recipe(), Rng(0))
    for _ in range(5):
        step = loop.step(12)
        assert step is not None
        np.testing.assert_array_equal(to_host(step.group), to_host(step.target))
        lower, upper = problem.box(step.target)
        assert (to_host(step.x) >= to_host(lower)).all()
        assert (to_host(step.x) <= to_host(upper)).all()
        assert np.bincount(to_host(step.group)).tolist() == [4, 4, 4]  # equal effort


def test_groups_are_boxes_of_instances() -> None:
    assert groups_of(small_problem(), np.array([0, 0, 1])).tolist() == [0, 1, 2]
    assert groups_of(label_toy(), np.array([4, 4, 7])).tolist() == [0, 0, 1]


@KINDS
def test_the_papers_objective_has_the_textbook_gradient(kind: str) -> None:
    problem = label_toy(kind)
    x = np.random.default_rng(1).uniform(-1, 1, (5, 6)).astype(np.float32)
    target = as_like(np.zeros(5, np.int64), problem.like)
    for label in (2, -1):
        labels = as_like(np.full(5, label), problem.like)
        slope = PaperDirection().slope(problem, as_like(x, problem.like), target, labels)

        def value(point: Any, label: int = label) -> Any:
            y = to_host(problem.engine.outputs(as_like(point.astype(np.float32), problem.like))).astype(np.float64)
            if label < 0:
                return y.var(axis=1)
            return np.log(np.exp(y).sum(axis=1)) - y[:, label]

        for i in range(6):
            step = np.eye(6)[i] * 1e-3
            numeric = (value(x + step) - value(x - step)) / 2e-3
            np.testing.assert_allclose(to_host(slope.gradient)[:, i], numeric, rtol=2e-2, atol=2e-3)


def test_energy_is_the_papers() -> None:
    q, v = np.array([False, True, False, True]), np.array([False, False, True, True])
    news = News(q, v, np.zeros(4), q)
    assert PaperEnergy().of_children(news).tolist() == [0.1, 10, 100, 110]
    assert PaperEnergy().of_parents(np.ones(2), np.array([0.1, 10])).tolist() == [0.1, 10]


def test_energies_of_ours_decay_and_closed_ones_stay_closed() -> None:
    energy, children = np.array([10.0, 0.0]), np.array([0.05, 30])
    for _ in range(30):
        energy = DecayingEnergy().of_parents(energy, children)
    assert energy.tolist() == [0.05, 0]


@KINDS
def test_neurons_fire_once_and_for_all(kind: str) -> None:
    like = small_problem(kind).like
    coverage = Neurons(0.1)
    batch = as_like(np.array([[0.2, 0, 0], [0.2, 0.1, 0], [0, 0, 0.05]], np.float32), like)
    assert to_host(coverage.novel(batch)).tolist() == [True, True, False]  # both fire the neuron nobody fired before
    assert coverage.figures() == {"fired": 1, "neurons": 3}
    batch = as_like(np.array([[0.2, 0.2, 0], [0, 0, 0], [0, 0, 0]], np.float32), like)
    assert to_host(coverage.novel(batch)).tolist() == [True, False, False]


@KINDS
def test_patterns_are_what_is_on_together(kind: str) -> None:
    like = small_problem(kind).like
    coverage = Patterns()
    batch = as_like(np.array([[1, 0], [2, 0], [0, 1], [1, 1]], np.float32), like)
    assert to_host(coverage.novel(batch)).tolist() == [True, False, True, True]
    assert to_host(coverage.novel(batch[2:])).tolist() == [False, False]
    assert coverage.figures() == {"patterns": 3}


@KINDS
@pytest.mark.parametrize("recipe", [paper_recipe, our_recipe])
def test_the_same_seed_makes_the_same_corpus(kind: str, recipe: Any) -> None:
    def grown() -> dict[str, Any]:
        loop = Loop(small_problem(kind), recipe(), Rng(5))
        for _ in range(40):
            loop.step(8)
        return loop.corpus.host()

    one, two = grown(), grown()
    assert len(one["x"]) > 3
    for name, values in one.items():
        np.testing.assert_array_equal(two[name], values, err_msg=name)
    depth = dict(zip(one["number"].tolist(), one["depth"].tolist(), strict=True))
    for number, parent in zip(one["number"].tolist(), one["parent"].tolist(), strict=True):
        assert (depth[number] == 0) == (parent == -1)
        assert parent not in depth or depth[parent] == depth[number] - 1


def test_memory_stays_what_it_is() -> None:
    """Counted, not timed: nothing that the loop keeps grows with the number of rounds."""
    loop = Loop(small_problem(), replace(our_recipe(), capacity=64), Rng(0))

    def kept() -> int:
        arrays = [value for value in vars(loop.corpus).values() if isinstance(value, np.ndarray)]
        arrays += [value for c in loop.recipe.coverage for value in vars(c).values() if isinstance(value, np.ndarray)]
        return sum(array.nbytes for array in arrays)

    while loop.corpus.size < 64:
        loop.step(16)
    loop.step(16)
    before = kept()
    for _ in range(400):
        loop.step(16)
    assert kept() == before
    assert loop.corpus.size == 64


@pytest.mark.parametrize("recipe", [paper_recipe, our_recipe])
def test_a_step_copies_nothing_to_the_host(recipe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    loop = Loop(small_problem("torch"), replace(recipe(), capacity=32), Rng(0))

    def copied(*_: Any, **__: Any) -> Any:
        raise AssertionError("a tensor was copied to the host")

    for name in ("cpu", "numpy", "tolist", "item", "__int__", "__float__"):
        monkeypatch.setattr(torch.Tensor, name, copied)
    for _ in range(30):
        loop.step(16)


def test_wide_layers_give_way_to_deeper_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = (Layer("wide", 1 << 20, 8), Layer("middle", 1 << 16, 64), Layer("last", 10, 10))
    assert _fitting(layers, Patterns()) == ["middle", "last"]
    assert _fitting(layers, Neurons()) == ["wide", "middle", "last"]
    monkeypatch.setattr(SmallEngine, "layers", (Layer("hidden", 1 << 20, 1 << 20),))
    loop = Loop(small_problem(), our_recipe(), Rng(0))  # nothing is left to watch: the outputs are
    assert loop.step(8) is not None
    assert loop.figures()["patterns"] > 0


@KINDS
def test_violations_on_the_way_are_shown(kind: str) -> None:
    shown: list[Any] = []
    recipe = replace(our_recipe(), mutators=[(Pgd(6), 1.0)])
    loop = Loop(small_problem(kind), recipe, Rng(0), notice=lambda *seen: shown.append([to_host(a) for a in seen]))
    loop.step(8)
    assert len(shown) == 6
    for x, target, margin in shown:
        again = loop.problem.evaluate(as_like(x, loop.problem.like), as_like(target, loop.problem.like))
        np.testing.assert_allclose(to_host(again.margin), margin, rtol=1e-4, atol=1e-5)


def test_a_step_ends_soon_when_time_is_up() -> None:
    calls = [0]

    def going() -> bool:
        calls[0] += 1
        return calls[0] <= 3

    recipe = replace(our_recipe(), mutators=[(Climb(20), 1.0)], parts=1)
    budget = Budget()
    problem = small_problem()
    loop = Loop(Problem(problem.spec, problem.engine, budget), recipe, Rng(0), going=going)
    before = budget.evaluations
    step = loop.step(8)
    assert step is not None
    assert budget.evaluations - before == 8 * (3 + 1)
    assert np.isfinite(step.x).all()


def test_retired_groups_get_no_lanes() -> None:
    loop = Loop(small_problem(), our_recipe(), Rng(0))
    loop.close(np.array([True, False, False]))
    for _ in range(4):
        step = loop.step(10)
        assert step is not None
        assert set(step.group) == {1, 2}
    loop.close(np.array([True, True, True]))
    assert loop.step(10) is None
    paper = Loop(small_problem(), paper_recipe(), Rng(0))
    paper.close(np.array([True, True, True]))
    assert paper.step(10) is not None


def test_mutators_share_a_batch_in_parts() -> None:
    class Mark:
        slopes = 0

        def __init__(self, value: float) -> None:
            self.name, self.value = f"mark {value}", value

        def __call__(self, batch: Any, eta: Any, rng: Any) -> Any:
            return batch.lower + self.value * (batch.upper - batch.lower)

    recipe = Recipe([(Mark(0.0), 1.0), (Mark(1.0), 1.0)], Fixed(), PaperEnergy(), MarginDirection(), parts=4, even=True)
    loop = Loop(small_problem(), recipe, Rng(1))
    seen = set()
    for _ in range(12):
        step = loop.step(12)
        assert step is not None
        lower, upper = loop.problem.box(step.target)
        high = (step.x[:, 0] == upper[:, 0]).reshape(3, 4)
        assert (high == high[0]).all()  # lanes 0, 4, 8 are one part
        assert ((step.x[:, 0] == upper[:, 0]) | (step.x[:, 0] == lower[:, 0])).all()
        seen.add(tuple(high[0].tolist()))
    assert len(seen) > 3


@KINDS
@pytest.mark.parametrize("portfolio", ["paper", "fuzzing"])
def test_portfolios_of_fuzzing_find_what_gradients_find(kind: str, portfolio: str) -> None:
    for seed in range(3):
        clauses = "(assert (>= Y_0 Y_1))(assert (>= Y_0 Y_2))"
        instance = toy(relu_network(5, (30, 40, 3)), clauses, [-0.7] * 30, [0.7] * 30, 20_000, torch=kind == "torch")
        result = run(instance, seed, portfolio)
        assert result.found


@pytest.mark.parametrize("portfolio", ["paper", "fuzzing"])
def test_a_cap_makes_a_search_reproducible(portfolio: str) -> None:
    def once() -> tuple[int, Any, Any]:
        instance = toy(relu_network(5, (8, 40, 3)), "(assert (>= Y_0 50))", [-1] * 8, [1] * 8, 3000)
        result = run(instance, 4, portfolio)
        assert result.reason is StopReason.EVALUATIONS
        history = result.stages[result_stage(portfolio)].notes["history"]
        return result.evaluations, result.margin.tolist(), [line["entries"] for line in history]

    assert once() == once()


def result_stage(portfolio: str) -> str:
    return {"paper": "paper", "fuzzing": "fuzzing"}[portfolio]


def test_growth_is_reported_and_a_corpus_is_taken_up_again(tmp_path: Any) -> None:
    path = tmp_path / "corpus.npz"

    def once(cap: int) -> Any:
        instance = toy(relu_network(5, (8, 40, 3)), "(assert (>= Y_0 50))", [-1] * 8, [1] * 8, cap)
        return run(instance, 4, [Fuzzing(our_recipe(), lanes=16, corpus=path)]).stages["fuzzing"].notes["history"]

    first = once(4000)
    counts = [line["evaluations"] for line in first]
    assert counts == sorted(set(counts))
    assert [line["entries"] for line in first] == sorted(line["entries"] for line in first)
    assert path.exists()
    assert once(500)[0]["entries"] == first[-1]["entries"]


def test_without_gradients_the_other_mutators_are_left() -> None:
    clauses = "(assert (>= Y_0 Y_1))"
    instance = toy(relu_network(5, (4, 20, 2)), clauses, [-1] * 4, [1] * 4, 20_000, differentiable=False)
    assert run(instance, 0, "fuzzing").found
