"""More witnesses of an instance: what is asked for, what is told, and that each one passes the door."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import models
import numpy as np
import pytest
from numpy.typing import NDArray

from falsifier import InputError, Refinement, Result, Verdict, falsify
from falsifier.falsify import Prepared
from falsifier.refinement import flat
from falsifier.witness.outcome import Witness

CAP = 20_000  # evaluations
Report = list[Result]


def linear(weight: Any, bias: Any = None) -> bytes:
    data: bytes = models.affine(weight, bias).SerializeToString()
    return data


def several(n: int, least: list[float]) -> str:
    """One disjunct Y_i >= least[i] for every output, on [-1, 1]^n."""
    parts = " ".join(f"(and (>= Y_{i} {value}))" for i, value in enumerate(least))
    return models.declare(n, len(least)) + models.box([-1] * n, [1] * n) + f"(assert (or {parts}))\n"


def found(network: Any, query: str, wish: Refinement, told: Report | None = None, **more: Any) -> Result:
    report = told.append if told is not None else None
    options = {"timeout": 120.0, "max_evaluations": CAP, **more}
    result = falsify(network, query, refinement=wish, report=report, **options)
    assert result.verdict is Verdict.SAT
    for one in result.witnesses:  # all of them are the door's
        assert isinstance(Prepared(network, query).door.replay(one.witness.inputs), Witness)  # type: ignore[union-attr]
    return result


def points(result: Result) -> NDArray[np.float64]:
    return np.stack([flat(one.witness).astype(np.float64) for one in result.witnesses])


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


def test_no_more_than_were_asked_for() -> None:
    result = found(linear(np.eye(5)), several(5, [0.5] * 5), Refinement(witnesses=3))
    assert len(result.witnesses) == 3
    assert result.evaluations < 1000


def test_a_query_of_one_disjunct_has_one() -> None:
    result = found(linear(np.eye(2)), one_of(2, 0.5), Refinement(witnesses=3))
    assert len(result.witnesses) == 1


def one_of(n: int, least: float) -> str:
    """Y_0 >= least on [-1, 1]^n, n outputs."""
    return models.declare(n, n) + models.box([-1] * n, [1] * n) + f"(assert (>= Y_0 {least}))\n"


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
