"""The witness nearest to a point: measured again, and against optima that are known."""

from __future__ import annotations

from typing import Any

import models
import numpy as np
import pytest
from numpy.typing import NDArray
from refinement_cases import CAP, Report, box_of, found, linear, one_of, points, program, several
from several_networks import VERSION, asserts, network

from falsifier import InputError, Refinement, Result
from falsifier.falsify import Prepared


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
