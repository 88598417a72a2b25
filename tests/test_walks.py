"""Walks: the same steps as by hand, cut and ended as the search needs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import models
import numpy as np
import pytest
from numpy.typing import NDArray

from falsifier import walks
from falsifier.arrays import Rng
from falsifier.budget import Budget
from falsifier.errors import EngineError
from falsifier.network.load import Network, load
from falsifier.network.onnxruntime_engine import OnnxruntimeEngine
from falsifier.network.single import SingleSampleEngine
from falsifier.network.walk import Rule
from falsifier.objective import Reduction
from falsifier.problem import Problem
from falsifier.query import parse
from falsifier.search.ascent import Climb, climb
from falsifier.search.dilation import dilated_climb
from falsifier.search.run import Run
from falsifier.search.stages.gradient import AUTO, FINE, STEADY, VERTEX_FIRST, _Round
from falsifier.spec import Rounding, compile_query

_LANES, _STEPS = 24, 30
_PADDED = "(assert (or (and (>= Y_0 9) (>= Y_1 Y_0) (<= Y_2 -3)) (and (<= Y_1 -9))))"
_PINNED = "(assert (and (>= X_1 0.25) (<= X_1 0.25)))"
_TIED = "(assert (>= X_2 (* 0.5 X_0)))(assert (<= X_2 (* 0.5 X_0)))"
Climbing = Callable[..., Climb]


class _Source:
    nearest = None

    def __init__(self, single: Problem, batched: Problem) -> None:
        self.single, self.batched = single, batched

    def accelerate(self) -> bool:
        return False


def network(step: str = "Relu") -> Network:
    rng = np.random.default_rng(0)
    first = models.gemm(rng.normal(size=(8, 3)).astype(np.float32), name="a")
    return load(models.chain([first, (step, [], {}), models.gemm(rng.normal(size=(3, 8)))], [1, 3], [1, 3]))


def scene(text: str, *, cap: int | None = None, step: str = "Relu", door: bool = False) -> tuple[Run, Problem]:
    net = network(step)
    query = models.declare(3, 3) + models.box([-1] * 3, [1] * 3) + text
    spec = compile_query(parse(query.encode()), np.dtype(np.float32), Rounding.INWARD)
    budget = Budget(max_evaluations=cap)
    batched = Problem(spec, OnnxruntimeEngine(net.lowered), budget)
    source = _Source(Problem(spec, SingleSampleEngine(net.reference), budget), batched)
    run = Run.start(source, budget, Rng(0), lambda _: door)
    run.until = float("inf")
    return run, batched


def start(problem: Problem) -> tuple[NDArray[np.int64], NDArray[Any]]:
    target = np.arange(_LANES) % problem.t
    lower, upper = problem.box(target)
    return target, lower + (upper - lower) * Rng(3).uniform((_LANES, problem.f), problem.like)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Steps of each run of a walk from now on."""
    made: list[int] = []
    go = walks.Walk.go

    def noted(self: walks.Walk, *arguments: Any) -> int:
        made.append(go(self, *arguments))
        return made[-1]

    monkeypatch.setattr(walks.Walk, "go", noted)
    return made


@pytest.mark.parametrize("ascent", [climb, dilated_climb])
@pytest.mark.parametrize("reduction", [Reduction.HINGE, Reduction.HARD])
@pytest.mark.parametrize(("text", "step"), [("", "Relu"), (_PINNED, "Relu"), ("", "Sign")])
def test_climbs_are_those_by_hand(
    ascent: Climbing, reduction: Reduction, text: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = counted(monkeypatch)
    found = []
    for by_hand in (10**9, 0):
        monkeypatch.setattr(walks, "_BY_HAND", by_hand)
        run, problem = scene(_PADDED + text, step=step)
        target, x = start(problem)
        result = ascent(run, problem, target, x, _STEPS, Rng(1), reduction)
        assert run.budget.evaluations == _LANES * _STEPS
        found.append(result)
    assert sum(made) == _STEPS
    hand, whole = found
    np.testing.assert_allclose(whole.margin, hand.margin, atol=1e-4)
    np.testing.assert_allclose(whole.best, hand.best, atol=1e-4)


@pytest.mark.parametrize("text", [_PINNED, _TIED])
def test_what_embeds_points_as_a_matrix(text: str) -> None:
    _, problem = scene(_PADDED + text)
    affine = problem.domain.affine()
    assert affine is not None
    _, x = start(problem)
    np.testing.assert_allclose(x @ affine[0] + affine[1], problem.embed(x), atol=1e-6)


@pytest.mark.parametrize("text", ["", _PINNED])
def test_rounds_are_those_by_hand(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = counted(monkeypatch)
    found = []
    for by_hand in (10**9, 0):
        monkeypatch.setattr(walks, "_BY_HAND", by_hand)
        run, problem = scene(_PADDED + text)
        round_ = _Round(run, problem, _LANES, _STEPS, [VERTEX_FIRST, AUTO, STEADY, FINE], 2)
        assert round_.work(run)
        found.append(round_.lanes)
    assert sum(made) == _STEPS
    assert len(made) > 2  # checkpoints lie between runs
    hand, whole = found
    np.testing.assert_allclose(whole.best_margin, hand.best_margin, atol=1e-4)
    np.testing.assert_allclose(whole.x, hand.x, atol=1e-4)


@pytest.mark.parametrize("ascent", [climb, dilated_climb])
def test_a_run_ends_at_a_better_point_that_satisfies(ascent: Climbing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks, "_BY_HAND", 0)
    made = counted(monkeypatch)
    run, problem = scene("(assert (>= Y_0 0.5))", door=True)
    target, x = start(problem)
    result = ascent(run, problem, target, x, _STEPS, Rng(1), Reduction.HINGE)
    assert run.finds
    assert result.margin.max() >= 0
    assert sum(made) < _STEPS
    assert run.budget.evaluations == sum(made) * _LANES + 1  # the door's


def test_only_what_reaches_the_bar_ends_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes of a closed target have an infinite one."""
    monkeypatch.setattr(walks, "_BY_HAND", 0)
    for bar, made in ((0.0, 1), (np.inf, 5)):
        _, problem = scene("(assert (>= Y_0 -100))")
        walk = problem.walks.begin(*_dilated(problem, *start(problem)))
        assert walk is not None
        assert walk.go(5, np.full(_LANES, bar)) == made
        assert walk.margin().min() > 0


@pytest.mark.parametrize("ascent", [climb, dilated_climb])
def test_how_steps_are_cut_decides_nothing(ascent: Climbing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks, "_BY_HAND", 0)
    found = []
    for most in (1, 7, 100):
        monkeypatch.setattr(walks.Walk, "fits", lambda self, seconds, most=most: most)
        run, problem = scene(_PADDED, cap=20 * _LANES + 5)
        run.until = 0.03
        target, x = start(problem)
        result = ascent(run, problem, target, x, _STEPS, Rng(1), Reduction.HINGE)
        found.append((result.best.tolist(), result.margin.tolist(), run.budget.evaluations, run.pace.now()))
    assert found[0] == found[1] == found[2]
    assert 0 < found[0][2] < _LANES * _STEPS


def test_what_a_graph_does_not_pay_for_is_made_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    _, problem = scene(_PADDED)
    target, x = start(problem)
    assert problem.walks.begin(*_dilated(problem, target, x)) is None  # the first steps
    monkeypatch.setattr(walks, "_BY_HAND", 0)
    assert problem.walks.begin(*_dilated(problem, target, x)) is not None
    monkeypatch.setattr(walks, "_METRICS", x.size)
    assert problem.walks.begin(*_dilated(problem, target, x)) is None
    monkeypatch.setattr(walks, "_METRICS", 1 << 20)
    _, other = scene("(assert (>= (+ Y_0 X_0) 9))")  # atoms of inputs are not in the graph
    assert other.walks.begin(*_dilated(other, target, x)) is None


def test_a_network_whose_steps_are_no_graph_is_stepped_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks, "_BY_HAND", 0)
    _, problem = scene(_PADDED)

    def refused(*_: Any) -> None:
        raise EngineError("no kernel")

    monkeypatch.setattr(problem.engine, "walk_session", refused)
    target, x = start(problem)
    assert problem.walks.begin(*_dilated(problem, target, x)) is None
    monkeypatch.undo()
    monkeypatch.setattr(walks, "_BY_HAND", 0)
    assert problem.walks.begin(*_dilated(problem, target, x)) is None  # not tried again


def failing(monkeypatch: pytest.MonkeyPatch, problem: Problem, error: Exception) -> list[int]:
    """The engine walks once, in steps of 2, and fails from then on: how often it was asked."""
    asked: list[int] = []
    engine: Any = problem.engine
    walk = engine.walk

    def fails(*arguments: Any) -> Any:
        asked.append(1)
        if len(asked) > 1:
            raise error
        return walk(*arguments)

    monkeypatch.setattr(walks, "_BY_HAND", 0)
    monkeypatch.setattr(walks.Walk, "fits", lambda self, seconds: 2)
    monkeypatch.setattr(engine, "walk", fails)
    return asked


@pytest.mark.parametrize("error", [EngineError("index out of range"), MemoryError()])
def test_where_the_engine_fails_on_a_lane_steps_go_on_by_hand(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = scene(_PADDED)
    whole = scene(_PADDED)
    asked = failing(monkeypatch, whole[1], error)
    monkeypatch.setattr(hand[1].walks, "_able", False)
    for ascent in (climb, dilated_climb):
        by_hand, walked = (
            ascent(run, problem, *start(problem), _STEPS, Rng(1), Reduction.HINGE).margin
            for run, problem in (hand, whole)
        )
        np.testing.assert_allclose(by_hand, walked, atol=1e-4)
    assert len(asked) == 2  # no other walk is begun


def test_a_round_goes_on_by_hand_from_where_its_walk_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = []
    for walks_ in (False, True):
        run, problem = scene(_PADDED)
        if walks_:
            failing(monkeypatch, problem, EngineError("index out of range"))
        round_ = _Round(run, problem, _LANES, _STEPS, [VERTEX_FIRST, AUTO, STEADY, FINE], 2)
        assert round_.work(run)
        assert run.budget.evaluations == _LANES * _STEPS
        rounds.append(round_)
    np.testing.assert_allclose(rounds[1].lanes.best_margin, rounds[0].lanes.best_margin, atol=1e-4)


def _dilated(problem: Problem, target: NDArray[np.int64], x: NDArray[Any]) -> tuple[Any, ...]:
    zero = 0 * x
    state = {"metric": zero[:, :, None] + np.eye(problem.f, dtype=x.dtype), "unit": zero, "along": zero}
    given = {"shortening": np.ones((1, 1)), "level": zero[:, :1], "floor": np.full((1, 1), -np.inf)}
    return Rule.DILATED, Reduction.HINGE, target, x, _STEPS, state, given
