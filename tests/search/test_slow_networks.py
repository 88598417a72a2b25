"""Networks of which one sample takes a large part of a second, on a clock of samples: what the time goes to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from toy_problems import Floats, Formula, Toy, run, toy

from falsifier.budget import Budget
from falsifier.search.result import SearchResult
from falsifier.search.stage import Stage
from falsifier.search.stages.descent import Descent
from falsifier.search.stages.gradient import Gradient
from falsifier.search.stages.hopping import DilatedHopping
from falsifier.search.stages.nearest import Nearest
from falsifier.search.stages.probe import Probe
from falsifier.search.stages.reach import Reach
from falsifier.search.stages.sampling import Sampling
from falsifier.spec import Rounding

SAMPLE = 0.4  # seconds; a gradient takes twice that
LIMIT = 20.0


class Clock:
    """Counts samples."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.most = 0  # lanes of a run

    def slowed(self, formula: Formula) -> Formula:
        def function(x: Floats) -> Floats:
            self.seconds += SAMPLE * len(x)
            self.most = max(self.most, len(x))
            return formula.function(x)

        return Formula(formula.n, formula.m, function, formula.pullback)

    def instance(self, formula: Formula, query: str, free: int) -> Toy:
        plain = toy(self.slowed(formula), query, [-1] * free, [1] * free)
        return Toy(plain.formula, plain.text, Budget(deadline=LIMIT, clock=lambda: self.seconds))


def rotated(free: int, outputs: int) -> Formula:
    """Sums of the inputs, each with signs of its own, divided by their number."""
    rows = np.sign(np.random.default_rng(0).normal(size=(outputs, free))) / free
    return Formula(free, outputs, lambda x: x @ rows.T, lambda x, seed: seed @ rows)


def dome(free: int, height: float) -> Formula:
    """Greatest, `height`, at a point inside of the box; everywhere curved."""
    top = np.random.default_rng(1).uniform(-0.8, 0.8, free)
    return Formula(
        free,
        1,
        lambda x: height - ((x - top) ** 2).mean(axis=1, keepdims=True),
        lambda x, seed: -2 * seed * (x - top) / free,
    )


def test_many_targets_cost_no_more_than_one() -> None:
    """The best point of all of them is the one that was evaluated: it is judged once, and one of them is followed."""
    clock = Clock()
    query = f"(assert (or {' '.join(f'(and (>= Y_{j} 0.999))' for j in range(500))}))"
    result = run(clock.instance(rotated(300, 500), query, 300))
    assert result.found
    assert result.stage == "reach"
    assert clock.seconds <= 8 * SAMPLE
    assert clock.most == 1


@pytest.mark.parametrize("free", [100, 3000])
def test_most_of_the_time_goes_to_gradients(free: int) -> None:
    clock = Clock()
    result = run(clock.instance(dome(free, -1.0), "(assert (>= Y_0 0))", free))
    assert not result.found
    assert clock.seconds <= LIMIT + 2 * SAMPLE
    assert result.stages["gradient"].seconds >= 0.5 * LIMIT
    for name in ("descent", "hopping", "dilated-hopping"):
        assert result.stages[name].evaluations == 0


def test_a_stage_that_a_turn_is_too_short_for_has_its_turn_later() -> None:
    """Where samples take as long, but there is time."""
    clock = Clock()
    plain = clock.instance(dome(4, -1.0), "(assert (>= Y_0 0))", 4)
    instance = Toy(plain.formula, plain.text, Budget(deadline=600.0, clock=lambda: clock.seconds))
    result = run(instance)
    for name in ("descent", "gradient", "dilated-hopping", "hopping", "flips", "sampling"):
        assert result.stages[name].evaluations > 0, name


def first_round(free: int) -> SearchResult:
    clock = Clock()
    stages: list[Stage] = [Probe(), Reach(), Descent(), Gradient(), DilatedHopping()]
    return run(clock.instance(dome(free, 0.05), "(assert (>= Y_0 0))", free), stages=stages)


def test_a_lane_alone_reaches_what_takes_several_steps() -> None:
    """From the corner that the first gradient points to, inwards."""
    result = first_round(1000)
    assert result.found
    assert result.stage == "gradient"


def test_a_stage_that_memory_is_too_small_for_leaves_the_others() -> None:
    """Gradients do not fit, samples do."""
    instance = toy(dome(4, 0.1), "(assert (>= Y_0 0))", [-1] * 4, [1] * 4, 20_000)

    def starved(*_: Any, **__: Any) -> Any:
        raise MemoryError("no room")

    instance.many.ascend = starved  # type: ignore[method-assign]
    assert run(instance, stages=[Reach(), Gradient(), Sampling()]).stage == "sampling"
    with pytest.raises(MemoryError, match="no room"):
        run(instance, stages=[Reach(), Gradient()])


def test_a_point_that_many_targets_share_is_pushed_outwards_once() -> None:
    """Its bounds are no float32, and the boxes of all targets are one."""
    clock = Clock()
    query = f"(assert (or {' '.join(f'(and (>= Y_{j} 2))' for j in range(200))}))"
    plain = toy(clock.slowed(rotated(300, 200)), query, [-0.1] * 300, [0.1] * 300)
    budget = Budget(deadline=LIMIT, clock=lambda: clock.seconds)
    nearest = Toy(plain.formula, plain.text, budget, rounding=Rounding.NEAREST)
    instance = Toy(plain.formula, plain.text, budget, nearest=nearest)
    record = run(instance, stages=[Probe(), Nearest()]).stages["nearest"]
    assert 1 <= record.evaluations <= 4 * record.calls
