"""What follows a free input is exact: the equality holds in rational arithmetic, not only after rounding."""

from __future__ import annotations

from fractions import Fraction

import models
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from query_trees import bounds, compare, query, slots
from several_networks import VERSION, asserts, inside, network

from falsifier import Result, falsify
from falsifier.arrays import spacing
from falsifier.query.tree import Constant, Product, Sum
from falsifier.spec import Spec, compile_query
from falsifier.spec.lattice import lattice
from falsifier.spec.margin import Rounding

ONE_BOX = (np.zeros(2, np.float32), np.ones(2, np.float32))


def tied(weights: list[str], constant: str, rounding: Rounding = Rounding.INWARD) -> Spec:
    """x_last = sum of weights * x + constant, over inputs in [0, 1]."""
    n = len(weights) + 1
    x = slots(0, n)
    terms = [Product((Constant(weight), x[i])) for i, weight in enumerate(weights)]
    tie = compare(x[-1], "==", Sum((*terms, Constant(constant))))
    box = bounds([0] * (n - 1), [1] * (n - 1))
    wide = [compare(x[-1], ">=", -1000), compare(x[-1], "<=", 1000)]
    return compile_query(query([*box, *wide, tie, compare(slots(n, 1)[0], ">=", 0)], n, 1), np.float32, rounding)


DYADIC = st.sampled_from(["1.0", "-1.0", "0.5", "2.0", "3.0", "-0.75", "0.25"])


@given(st.lists(DYADIC, min_size=1, max_size=4), st.sampled_from(["0.0", "1.0", "-0.375", "100.0"]), st.integers(0, 9))
@settings(deadline=None, max_examples=60)
def test_equalities_of_short_binary_numbers_are_exact(weights: list[str], constant: str, rng_seed: int) -> None:
    spec = tied(weights, constant)
    assert spec.domain is not None
    assume(spec.domain.lattice is not None)
    (leader, *_) = (i for i in range(len(weights) + 1) if i not in spec.domain.free)
    points = np.random.default_rng(rng_seed).random((200, spec.domain.f), dtype=np.float32)
    if leader != len(weights):  # another input was eliminated: its box does not bound the others
        points *= np.float32(0.01)
    inputs = spec.domain.embed(points)
    exact = 0
    for row in inputs.tolist():
        total = sum((Fraction(w) * Fraction(v) for w, v in zip(weights, row, strict=False)), Fraction(constant))
        exact += total == Fraction(row[-1])
    assert exact >= 198  # where the greatest number grows to a power of two by rounding, its last place doubles
    moved = np.abs(inputs[:, spec.domain.free] - points)
    assert (moved <= 1e-3).all()


def test_points_stay_inside() -> None:
    low, high = np.float32(0.3), np.float32(0.7)
    kept = lattice([({0: Fraction(1)}, Fraction(50))], np.full(2, low), np.full(2, high))
    assert kept is not None
    points = np.array([[low, low], [high, high], [0.5, 0.123]], np.float32)
    rounded = kept.round(points)
    assert ((rounded >= low) & (rounded <= high))[:2].all()
    assert (rounded[:, 0] * 2**18 % 1 == 0).all()
    assert rounded[:, 1].tolist() == points[:, 1].tolist()  # nothing follows it


@pytest.mark.parametrize(
    "expression",
    [
        ({0: Fraction("0.1")}, Fraction(0)),
        ({0: Fraction(1)}, Fraction("0.1")),
        ({0: Fraction(1, 3), 1: Fraction(1)}, Fraction(0)),
        ({0: Fraction(1 + 2**20)}, Fraction(1)),  # a grid of a few values
        ({0: Fraction(1)}, Fraction(10**4)),  # of 1024
        ({0: Fraction(2)}, Fraction(0)),  # exact everywhere
    ],
)
def test_no_lattice(expression: tuple[dict[int, Fraction], Fraction]) -> None:
    assert lattice([expression], *ONE_BOX) is None


def test_torch_gives_what_numpy_gives() -> None:
    torch = pytest.importorskip("torch")
    spec = tied(["1.0", "-0.75", "3.0"], "1.0")
    assert spec.domain is not None
    points = np.random.default_rng(0).random((50, 3), dtype=np.float32)
    moved = spec.domain.moved(lambda x: torch.from_numpy(np.array(x)))
    np.testing.assert_array_equal(moved.embed(torch.from_numpy(points)).numpy(), spec.domain.embed(points))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_spacing(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    x = np.array([1.0, -1.0, 1.5, 0.75, 1e30, -3e-30, 0.0, 1e-45], dtype)
    expected = np.maximum(np.spacing(np.abs(x)), np.finfo(dtype).tiny)
    assert spacing(x).tolist() == expected.tolist() == spacing(torch.from_numpy(x)).tolist()


def shifted(*atoms: str, cap: int = 20_000) -> Result:
    """X_g = X_f + 100, both networks the identity."""
    text = VERSION + network("f") + network("g") + inside("X_f[0,0]", "0.0", "1.0")
    text += asserts("(== X_g[0,0] (+ X_f[0,0] 100.0))", *atoms)
    nets = [("f", models.identity()), ("g", models.identity())]
    return falsify(nets, text, timeout=60, max_evaluations=cap)


def test_a_shift_that_float32_cannot_follow_everywhere() -> None:
    assert shifted("(>= Y_g[0,0] 100.3)", "(<= Y_g[0,0] 100.4)").class_ == "exact"


def test_what_lies_between_the_grid_s_values_is_still_found() -> None:
    """Y_f in [1e-7, 2e-7]: X_g is 100 there, which equals X_f + 100 in float32 alone."""
    result = shifted("(>= Y_f[0,0] 0.0000001)", "(<= Y_f[0,0] 0.0000002)", cap=200_000)
    assert result.class_ == "correct"
