"""Company of a run: asked for once the first pass has left the search open, looked at between batches."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from toy_problems import Floats, Formula, relu_network, toy

from falsifier.arrays import Rng
from falsifier.search import search
from falsifier.search.run import Run
from falsifier.verdict import StopReason

PLANE = Formula(2, 1, lambda x: x.sum(axis=1, keepdims=True), lambda x, seed: np.repeat(seed, 2, axis=1))
NEVER = "".join(f"(assert (>= Y_{i} 9))" for i in range(3))


@dataclass
class Watching:
    """Company that counts, and shows a point when it has been looked at often enough."""

    after: int = 10**9
    point: tuple[float, ...] = ()
    stages: list[str] = field(default_factory=list)  # at work when it was looked at
    answers: list[bool] = field(default_factory=list)

    def look(self, run: Run) -> None:
        self.stages.append(run.stage)
        if len(self.stages) % self.after == 0:
            self.answers.append(run.ask(0, np.array(self.point, np.float32)))


def test_what_the_first_pass_decides_invites_nobody() -> None:
    problems = toy(PLANE, "(assert (>= Y_0 1.5))", [0, 0], [1, 1])

    def invite(run: Run) -> Watching:
        raise AssertionError("invited")

    result = search(problems, problems.budget, Rng(0), problems.holds, "standard", invite)
    assert result.found


def test_it_is_looked_at_while_stages_work_and_changes_nothing() -> None:
    results = []
    watching = Watching()
    for invite in (None, lambda run: watching):
        problems = toy(relu_network(0, (6, 20, 20, 3)), NEVER, [-1] * 6, [1] * 6, 40_000)
        results.append(search(problems, problems.budget, Rng(0), problems.holds, "standard", invite))
    alone, together = results
    assert not alone.found
    assert {"gradient", "hopping", "dilated-hopping"} <= set(watching.stages)
    assert together.evaluations == alone.evaluations
    assert np.array_equal(together.margin, alone.margin)


@pytest.mark.parametrize("right", [True, False])
def test_a_point_that_it_shows_goes_through_the_door(right: bool) -> None:
    watching = Watching(after=5, point=(0.5,) * 6)
    problems = toy(relu_network(0, (6, 20, 20, 3)), NEVER, [-1] * 6, [1] * 6, 40_000)
    asked: list[Floats] = []

    def door(point: Floats) -> bool:
        asked.append(point)
        return right

    result = search(problems, problems.budget, Rng(0), door, "standard", lambda run: watching)
    assert result.found is right
    assert watching.answers[0] is right
    assert asked[0].tolist() == [0.5] * 6
    if right:
        assert result.reason is StopReason.CONFIRMED
        assert result.point is not None
        assert result.point.tolist() == [0.5] * 6
        assert len(asked) == 1
        assert result.stage == watching.stages[4]
    else:  # a point is asked about once
        assert result.reason is StopReason.EVALUATIONS
        assert len(asked) == 1
