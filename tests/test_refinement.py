"""More witnesses of an instance: what is asked for, what is told, and that each one passes the door."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import models
import numpy as np
import pytest
from refinement_cases import CAP, Report, box_of, found, linear, one_of, points, program, several
from several_networks import VERSION, asserts, network

from falsifier import InputError, Refinement, Result, falsify, refinement
from falsifier.arrays import Rng
from falsifier.budget import Budget
from falsifier.falsify import Prepared
from falsifier.refinement import flat
from falsifier.search.run import Run
from falsifier.witness.outcome import Witness

# --- distinct by disjunct ---


def test_a_witness_for_every_disjunct_that_has_one() -> None:
    """Six thresholds of y = W x, one out of reach."""
    weight = np.random.default_rng(3).normal(size=(6, 4))
    reach = np.abs(weight).sum(axis=1)
    least = [0.5 * reach[0], 0.9 * reach[1], 0.8 * reach[2], 1.1 * reach[3], 0.95 * reach[4], 0.7 * reach[5]]
    told: Report = []
    result = found(linear(weight), several(4, least), Refinement(witnesses=10), told)
    assert sorted(one.disjunct for one in result.witnesses if one.disjunct is not None) == [0, 1, 2, 4, 5]
    for one in result.witnesses:
        assert one.disjunct is not None
        y = weight.astype(np.float32) @ flat(one.witness)
        assert y[one.disjunct] >= least[one.disjunct] - 1e-5
        assert one.margin >= 0
    assert len({row.tobytes() for row in points(result)}) == 5
    counts = [len(each.witnesses) for each in told if each.witnesses]
    assert counts == sorted(counts)  # each is told when it is there
    assert counts[0] == 1
    assert result.witness is result.witnesses[0].witness


def test_the_first_witness_is_told_before_anything_else_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> None:
        raise RuntimeError("nothing of a refinement was made yet")

    monkeypatch.setattr(refinement, "_home", failing)
    told: Report = []
    with pytest.raises(RuntimeError):
        found(linear(np.eye(5)), several(5, [0.5] * 5), Refinement(witnesses=3), told)
    assert told[-1].witness is not None


class Offers:
    """A stage that knows one point, for every target."""

    name, slice, growth = "offers", 1.0, 1.0
    done = False

    def __init__(self, *point: float) -> None:
        self.point = np.array(point, np.float32)

    def applies(self, run: Run) -> bool:
        return not self.done

    def turn(self, run: Run) -> None:
        self.done, t = True, run.batched.t
        run.offer(run.batched, np.repeat(self.point[None], t, axis=0), np.arange(t), np.zeros(t))


def test_no_two_are_the_same_point() -> None:
    """Two disjuncts hold at float32(0.3) alone, which lies beyond its bound: `correct`, and the witness of one."""
    parts = "(and (>= Y_0 0.3)) (and (>= Y_1 0.3)) (and (<= Y_2 0.25))"
    text = models.declare(1, 3) + models.box(["0.1"], ["0.3"]) + f"(assert (or {parts}))\n"
    prepared = Prepared(linear([[1.0], [1.0], [1.0]]), text)
    door, problems, stage = prepared.door, prepared.problems, Offers(0.3)
    assert door is not None
    first = door.replay([np.array([0.2], np.float32)])
    assert isinstance(first, Witness)
    wish, told = Refinement(witnesses=3), list[int]()
    rest = (Budget(), Rng(0), first, lambda found: told.append(len(found.witnesses)), lambda: [stage])
    result = refinement.Refining(wish, problems, door, *rest).run()
    assert [one.witness.class_.value for one in result.witnesses] == ["exact", "correct"]
    assert told == [1, 2]


def test_no_more_than_were_asked_for() -> None:
    result = found(linear(np.eye(5)), several(5, [0.5] * 5), Refinement(witnesses=3))
    assert len(result.witnesses) == 3
    assert result.evaluations < 1000


def test_a_query_of_one_disjunct_has_one() -> None:
    result = found(linear(np.eye(2)), one_of(2, 0.5), Refinement(witnesses=3))
    assert len(result.witnesses) == 1


# --- distinct by distance ---


@pytest.mark.parametrize("apart", [0.1, 0.25, 0.5])
def test_any_two_are_as_far_apart_as_asked(apart: float) -> None:
    wish = Refinement(witnesses=12, distinct="distance", apart=apart)
    result = found(linear(np.eye(3)), one_of(3, 0.0), wish)
    assert len(result.witnesses) == 12
    for a, b in combinations(points(result) / 2, 2):  # the box is 2 wide
        assert np.abs(a - b).max() >= apart
    gaps = [one.distance for one in result.witnesses]
    assert gaps[0] is None
    assert all(gap is not None and gap >= apart for gap in gaps[1:])


def test_a_packing_that_is_full_ends_the_search() -> None:
    """y = x on [-1, 1], y >= 0: of witnesses half a width apart there are two or three."""
    wish = Refinement(witnesses=100, distinct="distance", apart=0.25)
    result = found(linear(np.eye(1)), one_of(1, 0.0), wish)
    assert 2 <= len(result.witnesses) <= 3
    assert result.evaluations < CAP


def test_whole_numbers_are_told_apart_as_whole_numbers() -> None:
    """int64 inputs 0 .. 7, y = x0 + x1 >= 12: six points, of which none lies between two."""
    network = models.chain([("Cast", [], {"to": 1}), models.gemm([[1.0, 1.0]])], [1, 2], [1, 1], np.float32)
    network.graph.input[0].type.tensor_type.elem_type = 7
    text = models.declare(2, 1) + models.box([0, 0], [7, 7]) + "(assert (>= Y_0 12))\n"
    result = found(network.SerializeToString(), text, Refinement(witnesses=10, distinct="distance", apart=0.1))
    assert len(result.witnesses) == 6


def test_without_gradients() -> None:
    """A network that runs one sample at a time."""
    prepared = Prepared(linear(np.eye(2)), one_of(2, 0.6), device="cpu")
    prepared.problems._on = lambda engine: prepared.problems.single  # type: ignore[method-assign]
    wish = Refinement(witnesses=5, distinct="distance", apart=0.15)
    result = prepared.search(float("inf"), max_evaluations=CAP, refinement=wish)
    assert len(result.witnesses) == 5


# --- what is wanted ---


@pytest.mark.parametrize(
    "wish",
    [
        {"witnesses": 0},
        {"witnesses": 2, "deepen": True},
        {"deepen": True, "nearest": "centre"},
        {"nearest": "middle"},
        {"distinct": "margin"},
        {"norm": "l1"},
        {"apart": 0.0},
        {"apart": float("nan")},
        {"apart": True},
        {"apart": "far"},
        {"witnesses": 1.5},
        {"witnesses": True},
        {"witnesses": float("nan")},
    ],
)
def test_wishes_that_cannot_be(wish: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Refinement(**wish)


def test_no_wish_costs_nothing() -> None:
    plain = falsify(linear(np.eye(2)), one_of(2, 0.5), max_evaluations=CAP)
    result = found(linear(np.eye(2)), one_of(2, 0.5), Refinement())
    assert (result.evaluations, result.witnesses) == (plain.evaluations, ())


def test_the_same_rng_seed_gives_the_same_witnesses() -> None:
    wish = Refinement(witnesses=6, distinct="distance", apart=0.3)
    one, other = (found(linear(np.eye(3)), one_of(3, 0.2), wish, rng_seed=4) for _ in range(2))
    assert np.array_equal(points(one), points(other))


# --- the deepest ---

DEEPEN = Refinement(deepen=True)


def deepest(result: Result) -> float:
    margins = [one.margin for one in result.witnesses]
    assert len(margins) <= 2
    assert margins[-1] == max(margins)
    assert result.witness is result.witnesses[-1].witness
    return margins[-1]


def test_the_deepest_vertex_of_a_linear_network() -> None:
    """The greatest of W_i x - least_i over the box is at a corner, and known: found to float32 rounding."""
    rng = np.random.default_rng(0)
    weight, least = rng.normal(size=(6, 40)), rng.normal(size=6)
    told: Report = []
    result = found(linear(weight), several(40, least.tolist()), DEEPEN, told)
    best = (np.abs(weight.astype(np.float32)).sum(axis=1) - least).max()
    assert deepest(result) == pytest.approx(best, rel=1e-5)
    margins = [each.witnesses[-1].margin for each in told if each.witnesses]
    assert margins == sorted(margins)


def test_the_deepest_point_of_several_atoms_is_that_of_a_linear_program() -> None:
    """max min_i of W_i x over the box: to one part in a thousand."""
    weight = np.random.default_rng(0).normal(size=(5, 40))
    text = models.declare(40, 5) + models.box([-1] * 40, [1] * 40)
    text += "".join(f"(assert (>= Y_{i} 0))\n" for i in range(5))
    rows = np.hstack([-weight, np.ones((5, 1))])
    best = -program(np.r_[np.zeros(40), -1.0], rows, np.zeros(5), [(-1, 1)] * 40 + [(None, None)])
    assert 0.999 * best <= deepest(found(linear(weight), text, DEEPEN)) <= best * (1 + 1e-5)


def test_what_is_asked_of_inputs_is_met_and_counts_no_further() -> None:
    """y = x0 + x1 >= 0 in the unit disc: the greatest is sqrt 2."""
    text = (
        "(vnnlib-version <2.0>)\n(declare-network N (declare-input X float32 [1,2]) (declare-output Y float32 [1,1]))\n"
        "(assert (>= X[0,0] -1.0))\n(assert (<= X[0,0] 1.0))\n(assert (>= X[0,1] -1.0))\n(assert (<= X[0,1] 1.0))\n"
        "(assert (<= (+ (* X[0,0] X[0,0]) (* X[0,1] X[0,1])) 1.0))\n(assert (>= Y[0,0] 0.0))\n"
    )
    assert 1.41 <= deepest(found(linear([[1.0, 1.0]]), text, DEEPEN)) <= 2**0.5


def test_of_several_networks_that_share_an_input() -> None:
    """y_f(x_f) - y_g(x_g) with x_f == x_g, f = 3 x0 - x1 and g = x0 + x1: 2 x0 - 2 x1 <= 4."""
    text = VERSION + network("f", n=2) + network("g", n=2)
    text += asserts(
        "(== X_f[0,0] X_g[0,0])", "(== X_f[0,1] X_g[0,1])", "(>= (- Y_f[0,0] Y_g[0,0]) 0.5)", *box_of("X_f", 2)
    )
    networks = {"f": linear([[3.0, -1.0]]), "g": linear([[1.0, 1.0]])}
    assert deepest(found(networks, text, DEEPEN)) == pytest.approx(3.5, rel=1e-5)


def test_in_float64() -> None:
    data = models.chain([("Mul", [models.constant("c", [2.0, -1.0], np.float64)], {})], [1, 2], [1, 2], np.float64)
    result = found(data.SerializeToString(), several(2, [0.5, 0.25]), DEEPEN)
    assert deepest(result) == 1.5
    assert result.witness is not None
    assert result.witness.inputs[0].dtype == np.float64


def test_the_deepest_whole_number() -> None:
    network = models.chain([("Cast", [], {"to": 1}), models.gemm([[1.0, -2.0]])], [1, 2], [1, 1], np.float32)
    network.graph.input[0].type.tensor_type.elem_type = 7
    text = models.declare(2, 1) + models.box([0.5, -3.5], [7.5, 3]) + "(assert (>= Y_0 2))\n"
    assert deepest(found(network.SerializeToString(), text, DEEPEN)) == 11.0


def test_deeper_without_gradients() -> None:
    prepared = Prepared(linear(np.eye(3)), one_of(3, 0.6), device="cpu")
    prepared.problems._on = lambda engine: prepared.problems.single  # type: ignore[method-assign]
    result = prepared.search(float("inf"), max_evaluations=CAP, refinement=DEEPEN)
    assert deepest(result) == pytest.approx(0.4, abs=1e-6)


def test_from_a_witness_in_hand() -> None:
    prepared = Prepared(linear(np.eye(3)), one_of(3, 0.6))
    assert prepared.door is not None
    start = prepared.door.replay([np.array([0.7, 0.1, 0.2])])
    assert isinstance(start, Witness)
    result = prepared.search(float("inf"), max_evaluations=CAP, refinement=DEEPEN, witness=start)
    assert result.witnesses[0].witness is start
    assert deepest(result) == pytest.approx(0.4, abs=1e-6)
