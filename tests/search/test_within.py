"""Searching inside of what is asked of inputs alone: witnesses near vertices of small regions, in few evaluations."""

from __future__ import annotations

import numpy as np
import pytest
from toy_problems import Toy, relu_network, run, toy

from falsifier.arrays import Rng, to_host
from falsifier.search.regions import scattered
from falsifier.search.stages.gradient import Gradient
from falsifier.search.stages.within import Within

N = 30
ORDERED = "".join(f"(assert (<= X_{i} X_{i + 1}))" for i in range(N - 1))
TOTAL = "(+ " + " ".join(f"X_{i}" for i in range(N)) + ")"
SLAB = f"(assert (>= {TOTAL} 7.0)) (assert (<= {TOTAL} 7.001))"
NETWORK = relu_network(3, (N, 24, 1))


def best_step() -> tuple[float, int]:
    """The greatest output over inputs 0 .. 0 1 .. 1, and how many zeros it takes."""
    values = NETWORK.function(np.triu(np.ones((N + 1, N), np.float32)).astype(np.float32))[:, 0]
    return float(values.max()), int(values.argmax())


def instance(clauses: str, asked: float, cap: int, torch: bool = False) -> Toy:
    return toy(NETWORK, f"{clauses}(assert (>= Y_0 {asked}))", [0] * N, [1] * N, cap, torch=torch)


@pytest.mark.parametrize("torch", [False, True])
def test_an_ordering(torch: bool) -> None:
    value, zeros = best_step()
    assert 0 < zeros < N
    for rng_seed in range(3):
        result = run(instance(ORDERED, 0.98 * value, 6000, torch), rng_seed, [Within()])
        assert result.found


def test_two_regions_in_one_batch() -> None:
    asked = 0.9 * float(NETWORK.function(np.full((1, N), 7 / N, np.float32))[0, 0])
    low = f"(and (>= {TOTAL} 3.0) (<= {TOTAL} 3.001) (>= Y_0 1000.0))"
    high = f"(and (>= {TOTAL} 7.0) (<= {TOTAL} 7.001) (>= Y_0 {asked}))"
    result = run(toy(NETWORK, f"(assert (or {low} {high}))", [0] * N, [1] * N, 3000), 0, [Within()])
    assert result.found
    assert result.target == 1


def test_it_keeps_out_where_boxes_are_all_there_is() -> None:
    result = run(instance("", 1e6, 500), 0, [Within()])
    assert (result.evaluations, result.stages["within"].calls) == (0, 0)


def test_every_point_lies_inside() -> None:
    made = instance(SLAB, 1e6, 2000)
    run(made, 0, [Within()])
    total = made.many.points().astype(np.float64).sum(axis=1)
    assert len(total) > 1000
    assert np.mean((total >= 7.0) & (total <= 7.001)) > 0.999


def test_starts_are_spread() -> None:
    made = instance(ORDERED, 1e6, 100)
    target = np.zeros(90, np.int64)
    points = np.random.default_rng(0).random((90, N)).astype(np.float32)
    inside = to_host(scattered(Rng(0), made.batched, points, target))
    assert (np.diff(inside, axis=1) >= 0).all()
    near = to_host(made.batched.settled(points, target))
    np.testing.assert_array_equal(inside[0::3], near[0::3])
    assert inside[1::3].std(axis=0).mean() > 1.2 * near.std(axis=0).mean()


def test_the_same_seed_gives_the_same_search() -> None:
    a, b = (run(instance(SLAB, 1e6, 1500), 5, [Within(), Gradient()]) for _ in range(2))
    assert a.evaluations == b.evaluations
    np.testing.assert_array_equal(a.margin, b.margin)
