"""Each stage alone: what it is there for falls within so many evaluations, whatever the rng seed."""

from __future__ import annotations

import numpy as np
import pytest
from toy_problems import Floats, Formula, Toy, relu_network, run, toy

from falsifier.arrays import Rng
from falsifier.budget import Budget
from falsifier.search.run import Run
from falsifier.search.stages.descent import Descent
from falsifier.search.stages.enumerate import Enumeration
from falsifier.search.stages.evolution import Evolution
from falsifier.search.stages.flips import Flips
from falsifier.search.stages.gradient import Gradient
from falsifier.search.stages.hopping import DilatedHopping, Hopping
from falsifier.search.stages.last_bits import LastBits
from falsifier.search.stages.nearest import Nearest
from falsifier.search.stages.probe import Probe
from falsifier.search.stages.reach import Reach
from falsifier.search.stages.sampling import Sampling
from falsifier.search.stages.screen import Screen
from falsifier.spec import Rounding
from falsifier.verdict import StopReason

SEEDS = range(5)
ARRAYS = pytest.mark.parametrize("torch", [False, True])


def plus(*weights: float) -> Formula:
    """One output, a weighted sum of the inputs."""
    row = np.array(weights, dtype=np.float32)
    return Formula(
        len(row),
        1,
        lambda x: np.asarray((x * row).sum(axis=1, keepdims=True)),
        lambda x, seed: np.asarray(seed * row),
    )


def test_probe_begins_with_the_centre() -> None:
    instance = toy(plus(1, 1), "(assert (>= Y_0 9))", [0, 2], [1, 4])
    result = run(instance, stages=[Probe(points=50)])
    assert result.reason is StopReason.EXHAUSTED
    points = instance.one.points()
    assert len(points) == 50
    np.testing.assert_array_equal(points[0], [0.5, 3])
    np.testing.assert_array_equal(points[1:3], [[0, 2], [1, 4]])
    assert not instance.many.seen


def test_probe_gives_way_where_samples_are_slow() -> None:
    seconds = [0.0]

    def slow(x: Floats) -> Floats:
        seconds[0] += 0.05 * len(x)
        return x[:, :1]

    instance = toy(Formula(2, 1, slow), "(assert (>= Y_0 9))", [0, 2], [1, 4])
    run(Toy(instance.formula, instance.text, Budget(deadline=60.0, clock=lambda: seconds[0])), stages=[Probe()])
    assert 1 <= seconds[0] / 0.05 <= 4


@ARRAYS
def test_sampling_fills_few_dimensions(torch: bool) -> None:
    def bump(x: Floats) -> Floats:
        return np.asarray(0.05 - np.abs(x - np.array([0.31, -0.57, 0.83])).max(axis=1, keepdims=True))

    for seed in SEEDS:  # a cube of side 0.1 in one of side 2: one point in 8000
        instance = toy(Formula(3, 1, bump), "(assert (>= Y_0 0))", [-1] * 3, [1] * 3, 60_000, torch=torch)
        assert run(instance, seed, [Sampling()]).found


def test_enumeration_meets_every_integer_point() -> None:
    def spot(x: Floats) -> Floats:
        return np.asarray((np.floor(x) == [17, 42]).all(axis=1, keepdims=True) * 1.0)

    for seed in SEEDS:
        instance = toy(Formula(2, 1, spot), "(assert (>= Y_0 1))", [0, 0], [62, 62], 2 * 63 * 63, differentiable=False)
        result = run(instance, seed, [Enumeration()])
        assert result.found
        assert result.evaluations <= 4 * 1024 + 1
    instance = toy(Formula(2, 1, spot), "(assert (>= Y_0 2))", [0, 0], [62, 62], 10**6, differentiable=False)
    assert run(instance, 0, [Enumeration()]).reason is StopReason.EXHAUSTED
    whole = np.unique(np.concatenate([instance.one.points(), instance.many.points()]), axis=0)
    assert len(whole[(whole == np.round(whole)).all(axis=1)]) == 63 * 63


def test_enumeration_begins_one_by_one_and_at_the_ends() -> None:
    """An engine is asked for only where single samples do not find it soon; a strip along an edge is met at once."""

    def strip(x: Floats) -> Floats:
        return np.asarray(((x[:, :1] == 0) & (x[:, 1:] > 20) & (x[:, 1:] < 30)) * 1.0)

    for seed in SEEDS:
        instance = toy(Formula(2, 1, strip), "(assert (>= Y_0 1))", [0, 0], [62, 62], 4000, differentiable=False)
        result = run(instance, seed, [Probe(), Enumeration()])
        assert result.found
        assert result.evaluations <= 128
        assert not len(instance.many.points())
        assert result.stages["probe"].evaluations < 20


def test_enumeration_goes_where_margins_rise() -> None:
    """Margins that fall off slowly from one point lead there; the same point alone takes half of all on the average."""

    def hill(x: Floats) -> Floats:
        return np.asarray(-np.abs(x - [17, 42]).max(axis=1, keepdims=True) // 6 - (x != [17, 42]).any(axis=1)[:, None])

    for seed in SEEDS:
        instance = toy(Formula(2, 1, hill), "(assert (>= Y_0 0))", [0, 0], [62, 62], 2 * 63 * 63, differentiable=False)
        result = run(instance, seed, [Enumeration()])
        assert result.found
        assert result.evaluations <= 12 * 64


def test_enumeration_leaves_other_boxes_alone() -> None:
    for lower, upper in (([0, 0.5], [9, 9]), ([0] * 4, [9] * 4)):
        instance = toy(plus(*[1.0] * len(lower)), "(assert (>= Y_0 99))", lower, upper)
        assert run(instance, 0, [Enumeration()]).evaluations == 0


@ARRAYS
def test_screen_looks_into_every_box(torch: bool) -> None:
    edges = np.arange(3000) / 3000
    boxes = "".join(f"(and (>= X_0 {a:.7f}) (<= X_0 {a + 1 / 4000:.7f}) (>= Y_0 0.5))\n" for a in edges)

    def peak(x: Floats) -> Floats:
        return np.asarray(1 - np.abs(x - edges[1234]) * 20000)

    instance = toy(Formula(1, 1, peak), f"(assert (or {boxes}))", [0], [1], torch=torch)
    result = run(instance, 0, [Screen()])
    assert result.found
    assert result.target == 1234
    assert result.evaluations <= 3 * 3000 + 1


@ARRAYS
def test_reach_solves_affine_networks_at_once(torch: bool) -> None:
    weights = np.random.default_rng(0).normal(size=200)
    most = float(np.abs(weights).sum())
    instance = toy(plus(*weights), f"(assert (>= Y_0 {most - 1e-3}))", [-1] * 200, [1] * 200, torch=torch)
    result = run(instance, 0, [Reach()])
    assert result.found
    assert result.evaluations == 3  # a gradient, its corner, the door


def test_reach_is_what_a_first_order_step_promises() -> None:
    """The second disjunct is farther at the centre and nearer at its best corner."""
    formula = Formula(
        2,
        2,
        lambda x: np.stack([0.1 * x[:, 0], 4.9 * x[:, 1]], axis=1),
        lambda x, seed: np.stack([0.1 * seed[:, 0], 4.9 * seed[:, 1]], axis=1),
    )
    instance = toy(formula, "(assert (or (and (>= Y_0 0.6)) (and (>= Y_1 5))))", [-1, -1], [1, 1])
    state = Run.start(instance, instance.budget, Rng(0), instance.holds)
    state.until = np.inf
    Reach().turn(state)
    np.testing.assert_allclose(state.ledger.reach, [-0.5, -0.1], atol=1e-5)
    assert state.ledger.ranked().tolist() == [1, 0]


@ARRAYS
def test_descent_finds_a_narrow_conjunction(torch: bool) -> None:
    """Four atoms over five inputs, satisfied in a region of about 1e-7 of the box."""
    network = relu_network(3, (5, 24, 24, 4))
    peak = np.array([[0.3, -0.2, 0.7, -0.6, 0.1]], dtype=np.float32)
    values = network.function(peak)[0]
    clauses = "".join(f"(assert ({'<=' if i % 2 else '>='} Y_{i} {v:.6f}))" for i, v in enumerate(values))
    width = "".join(
        f"(assert ({'>=' if i % 2 else '<='} Y_{i} {v + (-0.01 if i % 2 else 0.01):.6f}))" for i, v in enumerate(values)
    )
    for seed in SEEDS:
        instance = toy(network, clauses + width, [-1] * 5, [1] * 5, 400_000, torch=torch, differentiable=False)
        assert run(instance, seed, [Descent()]).found


@ARRAYS
def test_evolution_finds_the_end_of_a_rugged_valley(torch: bool) -> None:
    """Inputs that count from 1 to 30, with ripples that mislead short differences: 1e-40 of the box."""
    counts, peak = np.arange(1, 31, dtype=np.float32), np.linspace(-0.8, 0.8, 30, dtype=np.float32)

    def valley(x: Floats) -> Floats:
        off = counts * (x - peak)
        return np.asarray(1 - (off**2 + 0.05 * (1 - np.cos(40 * off))).sum(axis=1, keepdims=True))

    for seed in SEEDS:
        instance = toy(Formula(30, 1, valley), "(assert (>= Y_0 0))", [-1] * 30, [1] * 30, 30_000, torch=torch)
        assert run(instance, seed, [Evolution()]).found


def test_evolution_leaves_gradients_alone() -> None:
    instance = toy(plus(1, 1), "(assert (>= Y_0 3))", [0, 2], [1, 4])
    assert run(instance, stages=[Evolution()]).evaluations == 0


@ARRAYS
def test_gradient_climbs_in_many_dimensions(torch: bool) -> None:
    network = relu_network(5, (300, 40, 40, 3))
    for seed in SEEDS:
        instance = toy(network, "(assert (>= Y_0 Y_1))(assert (>= Y_0 Y_2))", [-0.5] * 300, [0.5] * 300, torch=torch)
        result = run(instance, seed, [Gradient()])
        assert result.found
        assert result.evaluations <= 400


@ARRAYS
def test_hopping_leaves_local_optima(torch: bool) -> None:
    """Many bumps of growing height: a climb from a random start ends on a low one."""

    def height(x: Floats) -> Floats:
        return np.asarray((np.cos(9 * x) + 0.9 * x).mean(axis=1, keepdims=True))

    def slope(x: Floats, seed: Floats) -> Floats:
        return np.asarray(seed * (0.9 - 9 * np.sin(9 * x)) / x.shape[1])

    bumps = np.cos(9 * np.linspace(-1, 1, 10001)) + 0.9 * np.linspace(-1, 1, 10001)
    assert 1.6 < bumps.max() < 1.65
    for seed in SEEDS:
        formula = Formula(8, 1, height, slope)
        instance = toy(formula, "(assert (>= Y_0 1.6))", [-1] * 8, [1] * 8, 150_000, torch=torch)
        assert run(instance, seed, [Hopping()]).found


@ARRAYS
def test_dilated_hopping_finds_what_one_weighting_of_atoms_hides(torch: bool) -> None:
    """Two atoms along one direction of 100 dimensions conflict everywhere but in a narrow band behind a moat.

    Weighed alike they meet in a local optimum short of the moat; lanes that weigh the first one most cross it.
    """
    direction = np.where(np.random.default_rng(1).random(100) < 0.5, -1, 1) / 100
    knots, heights = [-1, 0.5, 0.86, 0.92, 1], [0.8, -2.8, 0.1, 0.1, -1.5]

    def both(x: Floats) -> Floats:
        along = x @ direction
        return np.stack([along - 0.88, np.interp(along, knots, heights)], axis=1)

    def pullback(x: Floats, seed: Floats) -> Floats:
        piece = np.clip(np.searchsorted(knots, x @ direction) - 1, 0, 3)
        slope = (np.diff(heights) / np.diff(knots))[piece]
        return np.asarray((seed[:, :1] + seed[:, 1:] * slope[:, None]) * direction)

    def instance(cap: int) -> Toy:
        formula = Formula(100, 2, both, pullback)
        return toy(formula, "(assert (>= Y_0 0))(assert (>= Y_1 0))", [-1] * 100, [1] * 100, cap, torch=torch)

    for seed in SEEDS:
        assert run(instance(20_000), seed, [DilatedHopping()]).found
    assert not run(instance(20_000), 0, [Hopping()]).found


@ARRAYS
def test_flips_satisfy_clauses(torch: bool) -> None:
    """A planted 3-SAT formula over 24 variables as a step function: no gradient, plateaus everywhere."""
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 2, 24)
    variables = np.stack([rng.permutation(24)[:3] for _ in range(90)])
    negated = rng.integers(0, 2, (90, 3))
    negated[:, 0] = 1 - truth[variables[:, 0]]  # the first literal of each clause is true

    def satisfied(x: Floats) -> Floats:
        literal = (x[:, variables] >= 0.5) != negated.astype(bool)
        return np.asarray(literal.any(axis=2).sum(axis=1, keepdims=True), dtype=np.float32)

    for seed in SEEDS:
        instance = toy(Formula(24, 1, satisfied), "(assert (>= Y_0 90))", [0] * 24, [1] * 24, 200_000, torch=torch)
        assert run(instance, seed, [Flips()]).found


@pytest.mark.parametrize("lower", [0.1, 0.3])
def test_nearest_looks_just_outside(lower: float) -> None:
    """T04: float32(0.3) is the only float32 that is at least 0.3 and at most the rounded bound."""
    text = "(assert (>= Y_0 0.3))"
    inner = toy(plus(1), text, [0.1], [0.3])
    outer = toy(plus(1), text, [0.1], [0.3], rounding=Rounding.NEAREST)
    outer.budget = inner.budget
    inner.nearest = outer
    result = run(inner, 0, [Probe(), Nearest()], confirm=outer.holds)
    assert result.found
    assert result.point is not None
    assert result.point[0] == np.float32(0.3)
    assert result.stage is not None
    assert result.stage.startswith("nearest")


@ARRAYS
def test_nearest_searches_inputs_that_are_fixed_inwards(torch: bool) -> None:
    """Inwards one input is free, in the rounded boxes two are, one of them whole: points of the one are none of the
    other.
    """
    one = np.nextafter(np.float32(0.3), np.float32(1))
    parts = plus(1, 1), "(assert (>= Y_0 5))", [0.3, 0], [float(one) - 1e-9, 4]
    inner = toy(*parts, 20_000, torch=torch)
    outer = toy(*parts, rounding=Rounding.NEAREST, torch=torch)
    assert (inner.single.f, outer.single.f) == (1, 2)
    outer.budget, inner.nearest = inner.budget, outer
    result = run(inner, 0, [Sampling(0.01), Nearest(0.5)], confirm=lambda x: False)
    assert not result.found
    assert len(outer.many.points()) > 1000


def test_last_bits_meets_what_rounding_hides() -> None:
    """The margin is a few roundings short of 0 but for one point in 512 of those that nearly satisfy."""

    def rough(x: Floats) -> Floats:
        short = np.abs(x - 0.3).max(axis=1, keepdims=True)
        bits = np.ascontiguousarray(x).view(np.int32) % 8
        missed = ~(bits == 5).all(axis=1, keepdims=True)
        return np.asarray(1 - np.maximum(short - 2e-3, 0) - 4e-7 * missed, dtype=np.float32)

    for seed in SEEDS:
        parts = (Formula(3, 1, rough), "(assert (>= Y_0 1))", [-1] * 3, [1] * 3, 60_000)
        assert run(toy(*parts), seed, [Descent(), LastBits(1.0)]).found
    assert not run(toy(*parts), 0, [Descent(), Flips()]).found


def test_last_bits_shows_the_door_what_is_within_rounding() -> None:
    """The door counts as satisfied what the search's bound, rounded inwards, excludes by less than one step."""
    shown = []

    def door(x: Floats) -> bool:
        shown.append(x)
        return bool(np.float32(x[0]) == np.float32(0.1))

    instance = toy(plus(1), "(assert (>= Y_0 0.1))(assert (<= Y_0 0.1))", [-1], [1], 20_000)
    result = run(instance, 0, [Hopping(), LastBits()], door)
    assert result.found
    assert len(shown) <= 48
