"""The parts of a search: ledger, candidates, allocation, population, starts, pace."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_problems import Floats, Formula, run, toy

from falsifier.arrays import Rng
from falsifier.budget import Budget
from falsifier.search.allocation import spread
from falsifier.search.candidates import Candidates
from falsifier.search.groups import Groups
from falsifier.search.ledger import Ledger
from falsifier.search.moves import kick
from falsifier.search.pace import Pace, Work
from falsifier.search.population import Population, luby
from falsifier.search.run import Run, integer_valued
from falsifier.search.stages.enumerate import coarse_to_fine
from falsifier.search.starts import interleaved, kronecker, lattice, mixed, place, uniform, vertices


def fresh_run(targets: int) -> Run:
    """A run over this many targets, none of them evaluated."""
    clauses = "".join(f"(and (>= Y_0 {i + 9}))" for i in range(targets))
    instance = toy(Formula(2, 1, lambda x: x[:, :1]), f"(assert (or {clauses}))", [0, 0], [1, 1])
    return Run.start(instance, instance.budget, Rng(0), instance.holds)


# --- ledger ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(-5, 5)), max_size=30))
def test_ledger_keeps_the_best_of_each_target(offers: list[tuple[int, float]]) -> None:
    ledger = Ledger(5, 1)
    for part in (offers[:10], offers[10:]):
        target = np.array([t for t, _ in part], dtype=np.int64)
        margin = np.array([m for _, m in part], dtype=np.float64)
        lanes = ledger.improving(target, margin)
        ledger.raise_margin(target[lanes], margin[lanes], margin[lanes][:, None])
    for aim in range(5):
        own = [m for t, m in offers if t == aim]
        assert ledger.margin[aim] == max(own, default=-np.inf)
        point = ledger.point(aim)
        assert (point is None) == (not own)
        assert point is None or point[0] == ledger.margin[aim]


def test_ledger_with_little_room_keeps_the_nearest_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("falsifier.search.ledger._KEPT_VALUES", 64)
    ledger = Ledger(1000, 1)
    margin = np.random.default_rng(0).permutation(1000).astype(np.float64)
    for part in np.split(np.arange(1000), 10):
        ledger.raise_margin(part, margin[part], margin[part][:, None])
    kept = [aim for aim in range(1000) if ledger.point(aim) is not None]
    assert sorted(margin[kept]) == list(range(936, 1000))
    assert all(ledger.point(aim) == margin[aim] for aim in kept)
    np.testing.assert_array_equal(ledger.margin, margin)


def test_nan_never_improves() -> None:
    for targets in (1, 3):
        ledger = Ledger(targets, 1)
        assert ledger.improving(np.zeros(2, dtype=np.int64), np.array([-np.inf, -np.inf])).size == 0


# --- candidates -----------------------------------------------------------------------------------------------------


def admit(candidates: Candidates, points: Floats, margin: list[float]) -> tuple[int, Floats] | None:
    offered = candidates.admit(lambda lanes: points[lanes], np.zeros(len(margin), dtype=np.int64), np.array(margin))
    return next(offered, None)


def test_best_candidates_go_first_and_never_twice() -> None:
    seen: list[float] = []

    def door(x: Floats) -> bool:
        seen.append(float(x[0]))
        return False

    candidates = Candidates(Groups.single(1, door), Budget())
    points = np.array([[1.0], [2.0], [3.0]])
    assert admit(candidates, points, [-1.0, 0.0, 0.5]) is None
    assert admit(candidates, points, [-1.0, 0.0, 0.5]) is None
    assert seen == [3.0, 2.0]
    assert candidates.refused[0] == 0.5
    assert candidates.rejections == 2


@pytest.mark.parametrize("groups", [1, 2])
def test_what_was_refused_does_not_stand_in_the_way(groups: int) -> None:
    """Eight targets of one point each, all of the same margin: the door takes the seventh."""

    def door(x: Floats) -> bool:
        return float(x[0]) == 6

    stack = Groups.single(8, door) if groups == 1 else Groups([8, 1], lambda _, x: door(x))
    candidates = Candidates(stack, Budget())
    points = np.arange(8.0)[:, None]
    found = []
    for turn in range(2):
        for lane, _ in candidates.admit(lambda lanes: points[lanes], np.arange(8), np.zeros(8)):
            stack.close(0)
            found.append((turn, lane))
    assert found == [(1, 6)]
    assert candidates.rejections == 6


def test_a_search_whose_candidates_fail_goes_on_searching() -> None:
    """The door refuses all: few of the evaluations go into it, and most are not points offered before."""
    offered: list[bytes] = []

    def door(x: Floats) -> bool:
        offered.append(x.tobytes())
        return False

    result = run(toy(Formula(2, 1, lambda x: x[:, :1]), "(assert (>= Y_0 0))", [0, 0], [1, 1], 30_000), confirm=door)
    assert not result.found
    assert len(set(offered)) == len(offered) == result.rejections
    assert result.rejections <= 0.02 * 30_000


@pytest.mark.parametrize("torch", [False, True])
def test_refused_hits_are_pushed_deeper(torch: bool) -> None:
    """The door demands more margin than the search sees at first: a plain first hit is not the end."""

    def height(x: Floats) -> Floats:
        return np.asarray(1e-3 - np.abs(x - 0.37).sum(axis=1, keepdims=True))

    def slope(x: Floats, seed: Floats) -> Floats:
        return np.asarray(-seed * np.sign(x - 0.37))

    for seed in range(3):
        instance = toy(Formula(20, 1, height, slope), "(assert (>= Y_0 0))", [-1] * 20, [1] * 20, 200_000, torch=torch)
        result = run(instance, seed, confirm=lambda x: bool(height(x[None])[0, 0] >= 5e-4))
        assert result.found
        assert result.rejections < 100


# --- allocation -----------------------------------------------------------------------------------------------------


@given(st.integers(1, 40), st.integers(1, 64))
def test_every_open_target_gets_its_turn(targets: int, lanes: int) -> None:
    state = fresh_run(targets)
    state.ledger.margin[:] = -np.arange(targets)
    state.ledger.open[1::3] = False
    open_targets = np.flatnonzero(state.ledger.open)
    dealt = [spread(state, lanes) for _ in range(2 * targets + 2)]
    assert all(len(d) == lanes and (np.diff(d) >= 0).all() for d in dealt)
    assert set(np.concatenate(dealt).tolist()) == set(open_targets.tolist())
    counts = np.bincount(np.concatenate(dealt), minlength=targets)
    assert counts[0] >= counts.max() - 1  # the nearest target gets most


def test_promising_targets_get_most_lanes() -> None:
    state = fresh_run(100)
    state.ledger.margin[:] = -10.0
    state.ledger.margin[7], state.ledger.reach[55] = -1.0, 3.0
    counts = np.bincount(spread(state, 200), minlength=100)
    assert counts.argmax() == 55
    assert counts[7] > np.median(counts)
    assert counts.min() <= 1


# --- population -----------------------------------------------------------------------------------------------------


def population() -> Population:
    target = np.array([0, 0, 0, 0, 2, 2, 5])
    return Population(target, np.array([-1.0, -3, -2, -4, -7, -6, -9]), np.arange(7.0)[:, None])


def test_lanes_are_taken_over_best_first() -> None:
    source, has = population().dealt(np.array([0, 0, 1, 2, 2, 2]))
    assert has.tolist() == [True, True, False, True, True, False]
    assert source[has].tolist() == [0, 2, 5, 4]


@given(st.lists(st.floats(0, 0.999), min_size=7, max_size=7))
def test_partners_share_the_target(draw: list[float]) -> None:
    lanes = population()
    np.testing.assert_array_equal(lanes.target[lanes.partners(np.array(draw))], lanes.target)


def test_renewal_copies_the_best_of_each_target() -> None:
    target = np.repeat([0, 1], 20)
    margin = np.tile(-np.arange(20.0), 2)
    lanes = Population(target, margin, np.arange(40.0)[:, None])
    lanes.renew()
    changed = np.flatnonzero(lanes.x[:, 0] != np.arange(40))
    assert changed.tolist() == [19, 39]
    assert lanes.x[changed, 0].tolist() == [0, 20]
    assert lanes.margin[changed].tolist() == [0, 0]


def test_islands_do_not_mix() -> None:
    lanes = Population(np.zeros(256, dtype=np.int64), np.zeros(256), np.zeros((256, 1)))
    partner = lanes.partners(np.random.default_rng(0).random(256))
    assert partner[:128].max() < 128 <= partner[128:].min()
    assert len(np.unique(partner)) > 100


def test_islands_without_gain_start_anew() -> None:
    lanes = Population(np.zeros(256, dtype=np.int64), np.full(256, -1.0), np.zeros((256, 1)))
    anew = []
    for i in range(60):
        lanes.margin[:128] = -1.0
        lanes.margin[128:] = -1.0 / (i + 1)  # gains all the time, by more than a fiftieth until the end
        lanes.renew()
        assert np.isfinite(lanes.margin[128:]).all() or i > 50
        if not np.isfinite(lanes.margin[0]):
            anew.append(i)
    assert anew == [8, 17, 34, 43, 52]  # 8 rounds after the first, 8 more, 16, 8, 8
    assert lanes.exploring[:128].all()  # after an odd number of restarts
    assert lanes.exploring[128:].all()


def test_luby() -> None:
    assert [luby(i) for i in range(1, 16)] == [1, 1, 2, 1, 1, 2, 4, 1, 1, 2, 1, 1, 2, 4, 8]


def test_acceptance() -> None:
    lanes = population()
    lanes.accept(lanes.x + 100, lanes.margin + np.array([0, 1, -1e-9, -100, -100, 1, 0]), np.full(7, 0.5))
    assert lanes.x[:, 0].tolist() == [100, 101, 102, 3, 4, 105, 106]


# --- starts and moves -----------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32), st.integers(1, 6))
def test_unit_points_stay_in_the_box(seed: int, free: int) -> None:
    rng = Rng(seed)
    like = np.empty(0, dtype=np.float32)
    lower = rng.normal((1, free), like) * 1e3
    upper = lower + rng.uniform((1, free), like) ** 8
    for draw in (uniform, vertices, mixed, interleaved):
        unit = draw(rng, 32, free, like)
        assert unit.dtype == np.float32
        points = place(unit, lower, upper)
        assert ((points >= lower) & (points <= upper)).all()
        fresh = np.full((32, 1), 0.3, np.float32)
        moved = kick(rng, unit, unit[::-1].copy(), np.roll(unit, 1, axis=0), fresh)
        assert moved.shape == unit.shape
        assert moved.dtype == np.float32
        assert ((moved >= 0) & (moved <= 1)).all()
    corners = place(vertices(rng, 64, free, like), lower, upper)
    assert ((corners == lower) | (corners == upper)).all()


def test_low_discrepancy_is_more_even_than_chance() -> None:
    def emptiest(points: Floats) -> int:
        cells = np.floor(points * 16).astype(int) @ np.array([1, 16])
        return int(np.bincount(cells, minlength=256).min())

    parts = [kronecker(first, 512, 2, np.array([0.3, 0.9]), np.float64) for first in range(0, 2048, 512)]
    points = np.concatenate(parts)
    assert len(np.unique(points, axis=0)) == 2048
    assert emptiest(points) > emptiest(np.random.default_rng(0).random((2048, 2)))


def test_lattice_rounds_inside_the_box() -> None:
    points = np.array([[0.4, 0.4], [9.7, 9.7]], dtype=np.float32)
    lower, upper = np.array([[0.2, 0.0]], np.float32), np.array([[9.6, 10.0]], np.float32)
    rounded = lattice(points, lower, upper, np.array([True, False]))
    np.testing.assert_array_equal(rounded, np.array([[1, 0.4], [9, 9.7]], np.float32))


def test_integer_valued_inputs_are_recognised() -> None:
    instance = toy(Formula(4, 1, lambda x: x[:, :1]), "(assert (>= Y_0 0))", [0, 0, 0.5, 0], [255, 1, 9, 2])
    assert integer_valued(instance.single).tolist() == [True, False, False, True]


# --- pace -----------------------------------------------------------------------------------------------------------


def test_with_a_cap_no_clock_counts() -> None:
    def stopped() -> float:
        raise AssertionError("the clock was read")

    pace = Pace(Budget(max_evaluations=1000, clock=stopped))
    start = pace.now()
    pace.note(Work.BATCH, 100, 12.0)
    assert pace.now() - start == pytest.approx(100 * Work.BATCH.value)
    assert pace.fits(Work.BATCH, 1.0, 7) == 999  # one is kept for the door
    assert pace.fits(Work.BATCH, 50 * Work.BATCH.value, 7) in (49, 50)


def test_without_a_cap_speed_is_measured() -> None:
    pace = Pace(Budget(clock=lambda: 0.0))
    assert pace.fits(Work.BATCH, 1.0, 7) == 7
    pace.note(Work.BATCH, 10, 1.0)
    assert pace.fits(Work.BATCH, 1.0, 7) == 10
    for _ in range(20):
        pace.note(Work.BATCH, 100, 1.0)
    assert 90 <= pace.fits(Work.BATCH, 1.0, 7) <= 100
    assert pace.fits(Work.BATCH, -1.0, 7) == 1
    pace.note(Work.BATCH, 1, 0.5)  # the cost of a call, not of an evaluation
    assert pace.fits(Work.BATCH, 1.0, 7) >= 90
    for _ in range(20):
        pace.note(Work.BATCH, 100, 10.0)
    assert pace.fits(Work.BATCH, 1.0, 7) <= 11


def test_a_cap_set_later_changes_nothing() -> None:
    budget = Budget(clock=lambda: 3.0)
    pace = Pace(budget)
    budget.max_evaluations = 10
    assert pace.now() == 3.0


# --- enumeration -----------------------------------------------------------------------------------------------------


def test_lattices_are_visited_coarse_to_fine() -> None:
    index = np.stack(np.meshgrid(np.arange(63), np.arange(40), indexing="ij"), axis=2).reshape(-1, 2)
    for shift in (np.zeros(2, dtype=np.int64), np.array([5, 1234])):
        key = coarse_to_fine(index, shift)
        first = index[np.argsort(key)[: 18 * 12 + 30]]  # as many as a grid of spacing 4 has, with its ends
        gaps = [np.abs(first - corner).max(axis=1).min() for corner in index]
        assert max(gaps) <= 4
