"""The search as a whole: it finds what it should within so many evaluations, and stops as it should."""

from __future__ import annotations

import time

import numpy as np
import pytest
from toy_problems import Floats, Formula, Toy, relu_network, run, toy

from falsifier.budget import Budget
from falsifier.errors import InputError
from falsifier.verdict import StopReason


def ramp(x: Floats) -> Floats:
    """T13: relu(1000 (x0 + x1) - 1998), flat where x0 + x1 < 1.998."""
    return np.asarray(np.maximum(1000 * x.sum(axis=1, keepdims=True) - 1998, 0))


DEAD = Formula(2, 1, ramp, lambda x, seed: np.where(ramp(x) > 0, 1000 * seed, 0) * np.ones_like(x))
ROOT = Formula(1, 1, np.sqrt, lambda x, seed: seed * 0.5 / np.sqrt(x))
BOWL = Formula(4, 1, lambda x: -((x - 0.3) ** 2).sum(axis=1, keepdims=True), lambda x, seed: -2 * seed * (x - 0.3))


@pytest.mark.parametrize("seed", range(10))
def test_dead_gradient_falls_to_corners(seed: int) -> None:
    result = run(toy(DEAD, "(assert (>= Y_0 0.5))", [0, 0], [1, 1], 5000), seed)
    assert result.found
    assert result.reason is StopReason.CONFIRMED


@pytest.mark.parametrize("torch", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_nan_in_half_the_box(seed: int, torch: bool) -> None:
    assert run(toy(ROOT, "(assert (>= Y_0 0.99))", [-1], [1], 20_000, torch=torch), seed).found
    never = run(toy(ROOT, "(assert (<= Y_0 -1))", [-1], [1], 20_000, torch=torch), seed)
    assert not never.found
    assert never.reason is StopReason.EVALUATIONS
    assert not np.isnan(never.margin).any()


@pytest.mark.parametrize(("value", "found"), [(1.0, True), (0.0, False)])
def test_fixed_inputs_take_one_evaluation(value: float, found: bool) -> None:
    formula = Formula(2, 1, lambda x: x[:, :1])
    result = run(toy(formula, "(assert (>= Y_0 0.5))", [value, 0], [value, 0]))
    assert result.found is found
    assert result.evaluations == 1 + found  # the confirmation counts
    assert result.reason is (StopReason.CONFIRMED if found else StopReason.SINGLE_POINT)


def test_the_search_goes_on_on_an_accelerator() -> None:
    """All stages take what they keep along; margins stay what they are."""
    high = "".join(f"(assert (>= Y_{i} 9))" for i in range(3))
    problems = toy(relu_network(0, (6, 20, 20, 3)), high, [-1] * 6, [1] * 6, 150_000)
    problems.accelerator = True
    before = problems.many
    result = run(problems, 0)
    assert problems.many is not before
    passes = [record.calls for name, record in result.stages.items() if name in ("gradient", "hopping", "flips")]
    assert len(passes) == 3
    assert min(passes) >= 2
    np.testing.assert_allclose(problems.margin(result.points[0]), result.margin[0], rtol=1e-5)


@pytest.mark.parametrize("torch", [False, True])
def test_same_seed_same_result(torch: bool) -> None:
    def once(cap: int, seed: int) -> tuple[int, Floats, Floats]:
        high = "".join(f"(assert (>= Y_{i} 9))" for i in range(3))
        result = run(toy(relu_network(0, (6, 20, 20, 3)), high, [-1] * 6, [1] * 6, cap, torch=torch), seed)
        return result.evaluations, result.margin, result.points[0]

    one, two = once(30_000, 0), once(30_000, 0)
    assert one[0] == two[0] <= 30_000
    np.testing.assert_array_equal(one[1], two[1])
    np.testing.assert_array_equal(one[2], two[2])


def test_other_seed_other_points() -> None:
    results = [run(toy(BOWL, "(assert (>= Y_0 1))", [-1] * 4, [1] * 4, 300), seed) for seed in (0, 1)]
    assert not np.array_equal(results[0].points[0], results[1].points[0])


@pytest.mark.parametrize("cap", [1, 2, 10, 1000])
@pytest.mark.parametrize("differentiable", [False, True])
def test_cap_is_never_exceeded(cap: int, differentiable: bool) -> None:
    instance = toy(
        relu_network(1, (5, 10, 2)), "(assert (>= Y_0 99))", [-1] * 5, [1] * 5, cap, differentiable=differentiable
    )
    result = run(instance)
    assert result.evaluations <= cap
    assert len(instance.one.points()) + len(instance.many.points()) == result.evaluations
    assert result.reason is StopReason.EVALUATIONS


def test_points_stay_in_their_boxes() -> None:
    clauses = (
        "(assert (or (and (>= X_0 0.5) (<= X_0 0.75) (>= Y_0 99)) (and (<= X_0 -0.5) (>= X_1 0.9) (>= Y_1 99))))\n"
    )
    instance = toy(relu_network(2, (4, 12, 2)), clauses, [-1] * 4, [1] * 4, 20_000)
    run(instance)
    for points in (instance.one.points(), instance.many.points()):
        first = (points[:, 0] >= 0.5) & (points[:, 0] <= 0.75)
        second = (points[:, 0] <= -0.5) & (points[:, 1] >= 0.9)
        assert (first | second).all()
        assert first.any()
        assert second.any()
        assert (abs(points) <= 1).all()


def test_deadline_ends_a_search() -> None:
    seconds = [0.0]

    def slow(x: Floats) -> Floats:
        seconds[0] += 1e-4 * len(x) + 1e-3
        return BOWL.function(x)

    instance = toy(BOWL, "(assert (>= Y_0 1))", [-1] * 4, [1] * 4)
    budget = Budget(deadline=3.0, clock=lambda: seconds[0])
    result = run(Toy(Formula(4, 1, slow, BOWL.pullback), instance.text, budget))
    assert result.reason is StopReason.DEADLINE
    assert 2.5 < seconds[0] < 3.1
    assert result.evaluations > 5000


def test_seldom_solved_by_chance() -> None:
    """A narrow peak in 12 dimensions, far from corners and the centre."""
    peak = np.linspace(-0.8, 0.7, 12, dtype=np.float32)
    formula = Formula(
        12,
        1,
        lambda x: -np.abs(x - peak).max(axis=1, keepdims=True),
        lambda x, seed: -seed * np.sign(x - peak) * (np.abs(x - peak) == np.abs(x - peak).max(axis=1, keepdims=True)),
    )
    for seed in range(3):
        assert run(toy(formula, "(assert (>= Y_0 -0.001))", [-1] * 12, [1] * 12, 300_000), seed).found


def test_unknown_portfolio() -> None:
    with pytest.raises(InputError, match="standard"):
        run(toy(BOWL, "(assert (>= Y_0 1))", [-1] * 4, [1] * 4), stages="fastest")


def test_result_tells_what_was_done() -> None:
    start = time.monotonic()
    result = run(toy(BOWL, "(assert (>= Y_0 1))", [-1] * 4, [1] * 4, 20_000))
    assert result.evaluations == sum(record.evaluations for record in result.stages.values())
    assert sum(record.seconds for record in result.stages.values()) <= time.monotonic() - start
    assert result.margin.shape == (1,)
    assert result.margin[0] == pytest.approx(-1, abs=1e-3)
    np.testing.assert_allclose(result.points[0], 0.3, atol=0.02)
