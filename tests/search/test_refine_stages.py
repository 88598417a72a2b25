"""The stages that refine, on numpy arrays and on torch tensors alike."""

from __future__ import annotations

from typing import Any

import models
import numpy as np
import pytest
from numpy.typing import NDArray
from toy_problems import Formula, Toy

from falsifier.arrays import Rng
from falsifier.budget import Budget
from falsifier.search.refine.apart import Apart, cut_off
from falsifier.search.refine.approach import Approach, Coordinates
from falsifier.search.refine.ask import Confirmed
from falsifier.search.refine.deepen import Deepen, Deepest, Vary
from falsifier.search.refine.geometry import Metric, nearest_in_half_space
from falsifier.search.refine.nearer import Nearer
from falsifier.search.run import Run
from falsifier.search.search import search_run
from falsifier.search.stage import Stage

WEIGHT = np.array([[1.0, 2.0, -1.0], [0.5, -1.0, 1.0]], np.float32)
START = np.array([0.9, 0.9, -0.5], np.float32)
TEXT = models.declare(3, 2) + models.box([-1] * 3, [1] * 3)
ONE = TEXT + "(assert (>= Y_0 1))\n"
BOTH = TEXT + "(assert (>= Y_0 1))\n(assert (>= Y_1 -1.5))\n"
kinds = pytest.mark.parametrize("torch", [False, True])


def toy(text: str, torch: bool, evaluations: int = 4000) -> Toy:
    formula = Formula(3, 2, lambda x: x @ WEIGHT.T, lambda x, seed: seed @ WEIGHT)
    return Toy(formula, text, Budget(max_evaluations=evaluations), torch=torch)


def searched(problems: Toy, stages: list[Stage]) -> Run:
    run = Run.start(problems, problems.budget, Rng(0), lambda point: False)
    search_run(run, stages)
    assert problems.budget.evaluations <= 4000
    return run


class Door:
    """Confirms what the formula says, and keeps it."""

    def __init__(self, text: str) -> None:
        self.both = text == BOTH
        self.points: list[NDArray[Any]] = []

    def __call__(self, point: NDArray[Any], aim: int) -> Confirmed | None:
        y = WEIGHT.astype(np.float64) @ point
        margin = min(y[0] - 1, y[1] + 1.5) if self.both else y[0] - 1
        if margin < 0:
            return None
        self.points.append(point)
        return Confirmed(point, float(margin))


@kinds
@pytest.mark.parametrize("text", [ONE, BOTH])
def test_the_deepest(text: str, torch: bool) -> None:
    """y0 - 1 <= 3; where y1 + 1.5 counts as well, the two sum to 3 at the most: 1.5 each at (1, 1, 0.5)."""
    door = Door(text)
    deepest = Deepest(door, START, 0, 0.1)
    searched(toy(text, torch), [Deepen(deepest), Vary(deepest)])
    best = 3.0 if text == ONE else 1.5
    assert deepest.margin <= best + 1e-5
    assert deepest.margin >= 0.999 * best


@kinds
@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("text", [ONE, BOTH])
def test_the_nearest(text: str, norm: str, torch: bool) -> None:
    door, metric = Door(text), Metric(np.zeros(3), norm)
    nearer = Nearer(door, metric, START, 0, metric.of_full(START.astype(np.float64)))
    searched(toy(text, torch), [Approach(nearer), Coordinates(nearer)])
    assert nearer.distance == pytest.approx(0.25 if norm == "linf" else 6**-0.5, rel=1e-4)


@kinds
def test_apart(torch: bool) -> None:
    door = Door(ONE)
    searched(toy(ONE, torch), [Apart(door, START, 0, 8, 0.2)])
    points = np.stack([START, *door.points]) / 2
    gaps = np.abs(points[:, None] - points[None]).max(axis=2)
    assert len(points) == 8
    assert gaps[~np.eye(8, dtype=bool)].min() >= 0.2


def test_boxes_are_cut_off_from_all_that_is_known() -> None:
    rng = np.random.default_rng(0)
    known = rng.uniform(-1, 1, (7, 4))
    lower, upper = np.full((40, 4), -1.0), np.full((40, 4), 1.0)
    alive = cut_off(Rng(0), known, 0.2, np.full(4, 2.0), lower, upper, None)
    assert alive.all()
    assert (lower <= upper).all()
    for point in known:  # any point of a box is 0.4 away in one coordinate
        assert np.maximum(lower - point, point - upper).max(axis=1).min() >= 0.4 - 1e-12
    lower, upper = np.zeros((3, 1)), np.ones((3, 1))
    assert not cut_off(Rng(0), np.array([[0.5]]), 0.6, np.ones(1), lower, upper, None).any()


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_a_half_space_that_misses_the_box_gives_a_corner(norm: str) -> None:
    base, gradient = np.zeros((1, 2)), np.array([[1.0, -1.0]])
    low, high = -np.ones((1, 2)), np.ones((1, 2))
    x = nearest_in_half_space(base, gradient, np.array([9.0]), low, high, norm)
    assert x.tolist() == [[1.0, -1.0]]
    x = nearest_in_half_space(base, gradient, np.array([-1.0]), low, high, norm)
    assert x.tolist() == [[0.0, 0.0]]  # there already
