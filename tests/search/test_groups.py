"""Searches over many groups: each is closed by a point of its own, and its lanes go to the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from toy_problems import Floats, Formula, FormulaEngine, relu_network

from falsifier.arrays import Rng
from falsifier.budget import Budget
from falsifier.problem import Problem
from falsifier.query import parse
from falsifier.search import search
from falsifier.search.allocation import nearest, spread
from falsifier.search.groups import Groups
from falsifier.search.run import Run
from falsifier.spec import Rounding, compile_query
from falsifier.spec.stacking import part_of, stacked
from falsifier.verdict import StopReason

import models  # isort: skip


class Many:
    """A `ProblemSource` of many questions about one formula; `closed` lists groups in the order they fell."""

    nearest = None

    def __init__(self, formula: Formula, queries: list[str], cap: int, torch: bool = False) -> None:
        self.budget = Budget(max_evaluations=cap)
        specs = [compile_query(parse(text)) for text in queries]
        self.spec = stacked([part_of(spec) for spec in specs], formula.m, Rounding.INWARD)
        self.sizes = [spec.targets.t for spec in specs if spec.targets is not None]
        self.engine = FormulaEngine(formula, torch=torch)
        self.single = Problem(self.spec, FormulaEngine(formula, name="single-sample"), self.budget)
        self.batched = Problem(self.spec, self.engine, self.budget)
        self._doors = [Problem(spec, FormulaEngine(formula)) for spec in specs]
        self.closed: list[int] = []
        self.points: dict[int, Floats] = {}

    def confirm(self, group: int, x: Floats) -> bool:
        """What a door would say: by the question alone."""
        door = self._doors[group]
        free = door.domain.restrict(x[None].astype(np.float32))
        held = bool(np.array_equal(door.embed(free)[0], x)) and bool((door.screen(free) >= 0).any())
        if held:
            self.closed.append(group)
            self.points[group] = x
        return held

    def accelerate(self) -> bool:
        return False

    def groups(self, watch: Any = None) -> Groups:
        return Groups(self.sizes, self.confirm, watch)


def question(lower: list[float], upper: list[float], clauses: str, m: int = 2) -> str:
    return models.declare(len(lower), m) + models.box(lower, upper) + clauses


NET = relu_network(3, (4, 24, 24, 2))


def near(centre: Floats, radius: float, clauses: str) -> str:
    return question((centre - radius).tolist(), (centre + radius).tolist(), clauses)


def reachable(count: int, pinned: bool = False) -> list[str]:
    """Questions with an answer each: an output a little above its value at a point of the box."""
    rng = np.random.default_rng(1)
    out = []
    for _ in range(count):
        centre = rng.uniform(-1, 1, 4).round(3)
        inside: Floats = (centre + 0.2 * rng.choice([-1, 1], 4)).astype(np.float32)
        if pinned:
            inside[3] = np.float32(centre[3])
        value = float(NET.function(inside[None])[0, 0])
        text = near(centre, 0.25, f"(assert (or (>= Y_0 {value - 1e-3:.4f}) (>= Y_1 99)))\n")
        out.append(text + (f"(assert (== X_3 {inside[3]:.9f}))\n" if pinned else ""))
    return out


@pytest.mark.parametrize("torch", [False, True])
def test_every_question_falls_to_a_point_of_its_own(torch: bool) -> None:
    many = Many(NET, reachable(40), 400_000, torch)
    result = search(many, many.budget, Rng(0), many.groups())
    assert sorted(many.closed) == list(range(40))
    assert result.reason is StopReason.CONFIRMED
    assert result.evaluations < 400_000


def test_questions_that_pin_an_input_at_different_values() -> None:
    texts = [
        t.replace("(assert (== X_3 ", "(assert (>= X_3 -9))\n(assert (== X_3 ") for t in reachable(12, pinned=True)
    ]
    many = Many(NET, texts, 300_000)
    search(many, many.budget, Rng(0), many.groups())
    assert sorted(many.closed) == list(range(12))
    assert len({float(x[3]) for x in many.points.values()}) > 6


def test_lanes_of_closed_groups_go_to_the_open_ones() -> None:
    """One question has no answer: in the end every lane aims at its two targets."""
    never = near(np.zeros(4), 0.5, "(assert (or (>= Y_0 999) (>= Y_1 999)))\n")
    many = Many(NET, [*reachable(6), never], 60_000)
    seen: list[set[int]] = []
    evaluate = many.batched.evaluate

    def spy(points: Any, target: Any) -> Any:
        seen.append({int(t) for t in np.unique(target)})
        return evaluate(points, target)

    many.batched.evaluate = spy  # type: ignore[method-assign]
    result = search(many, many.budget, Rng(0), many.groups())
    assert sorted(many.closed) == list(range(6))
    assert result.found
    assert result.reason is StopReason.EVALUATIONS
    assert seen[-1] <= {12, 13}
    assert any(len(targets) > 4 for targets in seen)


def test_a_watch_closes_groups_without_a_point() -> None:
    texts = [near(np.full(4, 0.1 * i), 0.5, "(assert (>= Y_0 999))\n") for i in range(5)]
    many = Many(NET, texts, 50_000)

    def watch() -> list[int]:
        return [g for g in range(4) if many.budget.evaluations > 2000 * (g + 1)]

    groups = many.groups(watch)
    result = search(many, many.budget, Rng(0), groups)
    assert groups.open.tolist() == [False] * 4 + [True]
    assert not result.found
    assert result.reason is StopReason.EVALUATIONS


def test_the_search_ends_with_its_last_group() -> None:
    texts = [near(np.full(4, 0.1 * i), 0.5, "(assert (>= Y_0 999))\n") for i in range(5)]
    many = Many(NET, texts, 50_000)
    result = search(many, many.budget, Rng(0), many.groups(lambda: range(5) if many.budget.evaluations > 3000 else []))
    assert not result.found
    assert result.evaluations < 40_000


def test_same_seed_same_points() -> None:
    def once() -> tuple[list[int], Floats]:
        many = Many(NET, reachable(15), 100_000)
        search(many, many.budget, Rng(5), many.groups())
        return many.closed, np.stack([many.points[g] for g in sorted(many.points)])

    one, two = once(), once()
    assert one[0] == two[0]
    np.testing.assert_array_equal(one[1], two[1])


def test_a_door_that_refuses_one_question_leaves_the_others_their_candidates() -> None:
    many = Many(NET, [*reachable(8), near(np.zeros(4), 0.5, "(assert (>= Y_0 -99))\n")], 150_000)
    asked = [0]

    def stubborn(group: int, x: Floats) -> bool:
        asked[0] += group == 8
        return group != 8 and many.confirm(group, x)

    result = search(many, many.budget, Rng(0), Groups(many.sizes, stubborn))
    assert sorted(many.closed) == list(range(8))
    assert result.rejections == asked[0] < 0.02 * 150_000


# --- allocation over groups ------------------------------------------------------------------------------------------


def started(sizes: list[int]) -> Run:
    clause = "(assert (or {}))\n"
    texts = [
        question([0] * 4, [1] * 4, clause.format(" ".join(f"(>= Y_0 {i + 0.5})" for i in range(size))))
        for size in sizes
    ]
    many = Many(NET, texts, 1000)
    return Run.start(many, many.budget, Rng(0), many.groups())


@pytest.mark.parametrize("lanes", [1, 2, 3, 7, 30, 300])
def test_open_groups_get_equal_numbers_of_lanes(lanes: int) -> None:
    run = started([1, 5, 2])
    counts = np.zeros(3, dtype=np.int64)
    for _ in range(6):
        target = spread(run, lanes)
        assert target.size == lanes
        assert (np.diff(target) >= 0).all()
        counts += np.bincount(run.groups.of[target], minlength=3)
    assert counts.max() - counts.min() <= 1


def test_within_a_group_the_nearest_get_most_and_each_its_turn() -> None:
    run = started([1, 12])
    run.ledger.margin[:] = -np.arange(13.0)
    counts = np.zeros(13)
    for _ in range(50):
        counts += np.bincount(spread(run, 8), minlength=13)
    assert counts[0] == 200
    assert counts[1] == counts[1:].max()
    assert counts[1] > 3 * counts[12] > 0


def test_nearest_takes_the_best_of_every_group_first() -> None:
    run = started([3, 1, 2])
    run.ledger.margin[:] = [-3.0, -1.0, -2.0, -9.0, -0.5, -0.25]
    assert nearest(run, 2).tolist() == [1, 3, 5, 2, 4]
    run._close(1)
    assert nearest(run, 1).tolist() == [1, 5]
