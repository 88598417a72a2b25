"""The nearest points of polytopes in boxes: inside, and nothing inside is nearer."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from falsifier.spec.polytope import Slabs, nearest

Floats = NDArray[np.float64]
LANES = 20


def slabs(rows: Floats, low: Floats, high: Floats, shared: bool = True) -> Slabs:
    length = np.linalg.norm(rows, axis=1)
    ends = (np.tile(end / length, (LANES, 1)) for end in (low, high))
    unit = (rows / length[:, None])[None]
    return Slabs(unit if shared else np.tile(unit, (LANES, 1, 1)), *ends)


def in_cube(y: Floats, some: Slabs) -> Floats:
    return nearest(y, some, np.zeros_like(y), np.ones_like(y))[0]


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("n", "k", "half"), [(3, 1, 0.01), (8, 3, 1e-6), (30, 12, 1e-3), (60, 25, 0.0)])
def test_slabs(n: int, k: int, half: float, shared: bool) -> None:
    rng = np.random.default_rng([n, k])
    rows = rng.normal(size=(k, n))
    middle = rng.uniform(0.2, 0.8, (LANES, n))
    value = rows @ middle[0]
    some = slabs(rows, value - half, value + half, shared)
    y = np.where(rng.random((LANES, 1)) < 0.5, rng.random((LANES, n)), rng.integers(0, 2, (LANES, n)))
    z = in_cube(y, some)
    assert np.abs(some.lack(z)).max() < 1e-8
    assert z.min() >= 0
    assert z.max() <= 1
    # the angle at z between y and any point inside is not acute
    assert np.max(np.vecdot(y - z, middle[0] - z)) < 1e-6
    inner = in_cube(rng.random((LANES, n)), some)
    assert np.max(np.vecdot(y - z, inner - z)) < 1e-6


def test_an_ordering_becomes_means_of_blocks() -> None:
    rows = np.array([[-1.0, 1.0, 0.0], [0.0, -1.0, 1.0]])
    some = slabs(rows, np.zeros(2), np.full(2, np.inf))
    z = in_cube(np.tile([0.9, 0.2, 0.4], (LANES, 1)), some)
    np.testing.assert_allclose(z, np.full((LANES, 3), 0.5), atol=1e-8)


def test_a_simplex() -> None:
    some = slabs(np.ones((1, 4)), np.full(1, -np.inf), np.ones(1))
    z = in_cube(np.tile([0.9, 0.8, 0.1, 0.0], (LANES, 1)), some)
    np.testing.assert_allclose(z, np.tile([0.55, 0.45, 0.0, 0.0], (LANES, 1)), atol=1e-8)


def test_points_inside_stay_bit_by_bit() -> None:
    y = np.random.default_rng(0).random((LANES, 5))
    some = slabs(np.ones((1, 5)), np.zeros(1), np.full(1, 5.0))
    np.testing.assert_array_equal(in_cube(y, some), y)


def test_where_there_is_no_point_weights_show_it() -> None:
    rows = np.array([[1.0, 1.0], [-1.0, -1.0]])  # x + y >= 1 and <= 0.9
    some = slabs(rows, np.array([1.0, -0.9]), np.full(2, np.inf))
    y = np.full((LANES, 2), 0.5)
    z, weight = nearest(y, some, np.zeros_like(y), np.ones_like(y))
    assert np.abs(some.lack(z)).max() > 1e-3
    assert np.isfinite(weight).all()
    assert np.allclose(weight[:, 0], weight[:, 1], rtol=1e-3)
