"""More witnesses of an instance: what is asked for, what is told, and that each one passes the door."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import models
import numpy as np
import pytest
from numpy.typing import NDArray
from several_networks import VERSION, asserts, network

from falsifier import InputError, Refinement, Result, Verdict, falsify, refinement
from falsifier.arrays import Rng
from falsifier.budget import Budget
from falsifier.falsify import Prepared
from falsifier.refinement import flat
from falsifier.search.run import Run
from falsifier.witness.outcome import Witness

CAP = 8_000  # evaluations
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


def program(cost: Any, rows: Any, most: Any, free: Any) -> float:
    """The least cost . x with rows @ x <= most."""
    from scipy.optimize import linprog

    value: float = linprog(cost, A_ub=rows, b_ub=most, bounds=free).fun
    return value


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


def box_of(name: str, n: int) -> list[str]:
    return [f"({relation} {name}[0,{i}] {end})" for i in range(n) for relation, end in ((">=", "-1.0"), ("<=", "1.0"))]


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


# --- the nearest ---


def nearest(result: Result, reference: Any, norm: str) -> float:
    """The distance of the answer, measured again."""
    distances = [one.distance for one in result.witnesses]
    assert len(distances) <= 2
    assert result.witness is result.witnesses[-1].witness
    away = points(result)[-1] - np.asarray(reference)
    measured = float(np.abs(away).max() if norm == "linf" else np.sqrt((away**2).sum()))
    assert distances[-1] == pytest.approx(measured, rel=1e-9)
    assert distances[-1] == min(d for d in distances if d is not None)
    return measured


def optimum(weight: NDArray[np.float64], need: float, reference: NDArray[np.float64], norm: str) -> float:
    """The distance from a reference in [-1, 1]^n of the half-space weight . x >= need within that box: the points
    clip(reference + t * direction) are the nearest ones, and the first t that suffices is found by halving.
    """
    direction = np.sign(weight) if norm == "linf" else weight
    low, high = 0.0, 1e3
    for _ in range(200):
        middle = (low + high) / 2
        enough = weight @ np.clip(reference + middle * direction, -1, 1) >= need
        low, high = (low, middle) if enough else (middle, high)
    away = np.clip(reference + high * direction, -1, 1) - reference
    return float(np.abs(away).max() if norm == "linf" else np.sqrt((away**2).sum()))


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("share", [0.3, 0.95])  # of what the network reaches: far inside of the box, and against it
@pytest.mark.parametrize("where", ["centre", "beside"])
def test_the_nearest_point_of_a_linear_network(norm: str, share: float, where: str) -> None:
    """To five digits, over five disjuncts."""
    rng = np.random.default_rng(2)
    weight = rng.normal(size=(5, 40)).astype(np.float32).astype(np.float64)
    least = share * np.abs(weight).sum(axis=1) * (1 + 0.04 * rng.random(5))
    reference = np.zeros(40) if where == "centre" else np.clip(rng.normal(size=40), -0.9, 0.9)
    best = min(optimum(w, need, reference, norm) for w, need in zip(weight, least, strict=True))
    wish = Refinement(nearest="centre" if where == "centre" else reference, norm=norm)
    told: Report = []
    result = found(linear(weight), several(40, least.tolist()), wish, told, max_evaluations=4000)
    assert best * (1 - 1e-6) <= nearest(result, reference, norm) <= best * (1 + 1e-5)
    distances = [each.witnesses[-1].distance for each in told if each.witnesses]
    assert distances == sorted(distances, reverse=True)  # type: ignore[type-var]


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_the_nearest_point_of_several_atoms(norm: str) -> None:
    """Four rows of W x >= 5 at once, from the centre: to one part in a thousand of a linear or quadratic program."""
    from scipy.optimize import minimize

    weight = np.random.default_rng(0).normal(size=(4, 40))
    text = models.declare(40, 4) + models.box([-1] * 40, [1] * 40) + asserts(*(f"(>= Y_{i} 5)" for i in range(4)))
    if norm == "linf":
        sides = np.vstack([np.eye(40), -np.eye(40)])
        rows = np.vstack([np.c_[-weight, np.zeros(4)], np.c_[sides, -np.ones(80)]])
        best = program(np.r_[np.zeros(40), 1.0], rows, np.r_[[-5.0] * 4, np.zeros(80)], [(-1, 1)] * 40 + [(0, None)])
    else:
        inside = {"type": "ineq", "fun": lambda x: weight @ x - 5, "jac": lambda x: weight}
        square = minimize(
            lambda x: x @ x, np.zeros(40), jac=lambda x: 2 * x, bounds=[(-1, 1)] * 40, constraints=[inside]
        )
        best = float(np.sqrt(square.fun))
    result = found(linear(weight), text, Refinement(nearest="centre", norm=norm), max_evaluations=6000)
    assert best * (1 - 1e-5) <= nearest(result, np.zeros(40), norm) <= 1.001 * best


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_nearest_in_a_curved_network(norm: str) -> None:
    """y = x0^2 + x1^2 >= 1 from (0.1, 0): (1, 0) for l2, and for linf where both inputs give as much."""
    steps = [("Mul", [], {}), models.gemm([[1.0, 1.0]])]
    network = models.chain(steps, [1, 2], [1, 1])
    network.graph.node[0].input.append("X")
    text = models.declare(2, 1) + models.box([-2, -2], [2, 2]) + "(assert (>= Y_0 1))\n"
    result = found(network.SerializeToString(), text, Refinement(nearest=[0.1, 0.0], norm=norm))
    best = 0.9 if norm == "l2" else (np.sqrt(2 - 0.1**2) - 0.1) / 2  # (0.1 + r)^2 + r^2 = 1
    assert nearest(result, [0.1, 0.0], norm) == pytest.approx(best, rel=1e-4)


def test_the_nearest_whole_number() -> None:
    """3 x0 + x1 >= 10 over integers from (0, 0): (3, 1) and (2, 4) for l2, (3, 1) and its like for linf."""
    network = models.chain([("Cast", [], {"to": 1}), models.gemm([[3.0, 1.0]])], [1, 2], [1, 1], np.float32)
    network.graph.input[0].type.tensor_type.elem_type = 7
    text = models.declare(2, 1) + models.box([-9, -9], [9, 9]) + "(assert (>= Y_0 10))\n"
    for norm, best in (("linf", 3.0), ("l2", 10**0.5)):
        result = found(network.SerializeToString(), text, Refinement(nearest="centre", norm=norm))
        assert nearest(result, [0, 0], norm) == best


def test_the_nearest_point_of_two_tied_inputs() -> None:
    """x_f == x_g, y_f + y_g = 4 x0 >= 1: both copies of x0 move."""
    text = VERSION + network("f", n=2) + network("g", n=2)
    text += asserts(
        "(== X_f[0,0] X_g[0,0])", "(== X_f[0,1] X_g[0,1])", "(>= (+ Y_f[0,0] Y_g[0,0]) 1.0)", *box_of("X_f", 2)
    )
    networks = {"f": linear([[3.0, -1.0]]), "g": linear([[1.0, 1.0]])}
    for norm, best in (("linf", 0.25), ("l2", 0.25 * 2**0.5)):
        result = found(networks, text, Refinement(nearest="centre", norm=norm))
        assert nearest(result, np.zeros(4), norm) == pytest.approx(best, rel=1e-5)


def test_nearest_in_an_input_region() -> None:
    """y = x0 + x1 >= 0.5 with x0 x1 <= 0 (polynomial, of inputs alone): (0.5, 0) from the centre, by either norm."""
    text = (
        "(vnnlib-version <2.0>)\n(declare-network N (declare-input X float32 [1,2]) (declare-output Y float32 [1,1]))\n"
        + asserts(*box_of("X", 2), "(<= (* X[0,0] X[0,1]) 0.0)", "(>= Y[0,0] 0.5)")
    )
    for norm in ("linf", "l2"):
        result = found(linear([[1.0, 1.0]]), text, Refinement(nearest="centre", norm=norm))
        assert nearest(result, [0, 0], norm) == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_nearer_without_gradients(norm: str) -> None:
    prepared = Prepared(
        linear([[1.0, 2.0]]), models.declare(2, 1) + models.box([-1] * 2, [1] * 2) + asserts("(>= Y_0 1)")
    )
    prepared.problems._on = lambda engine: prepared.problems.single  # type: ignore[method-assign]
    result = prepared.search(float("inf"), max_evaluations=CAP, refinement=Refinement(nearest="centre", norm=norm))
    best = 1 / 3 if norm == "linf" else 1 / 5**0.5
    assert nearest(result, [0, 0], norm) == pytest.approx(best, rel=1e-2)


def test_a_point_of_another_size_is_refused_before_the_search() -> None:
    with pytest.raises(InputError, match="has 2 numbers, the inputs 3"):
        found(linear(np.eye(3)), one_of(3, 0.5), Refinement(nearest=[0.0, 1.0]))
