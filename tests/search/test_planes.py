"""What is best for several planes together, against linear and quadratic programs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from falsifier.search.refine.planes import deepest_move, nearest_in_half_spaces


@pytest.mark.parametrize("seed", range(4))
def test_the_deepest_move_is_that_of_a_linear_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lanes, k, f = 3, 4, 12
    slack, rows = rng.normal(size=(lanes, k)), rng.normal(size=(lanes, k, f))
    slack[1, 2] = np.inf  # does not count
    low, high = -rng.random((lanes, f)), rng.random((lanes, f))
    low[:, 0] = high[:, 0] = 0.25  # an input that cannot move otherwise
    move = deepest_move(slack, rows, low, high)
    assert (move >= low).all()
    assert (move <= high).all()
    for lane in range(lanes):
        counts = np.isfinite(slack[lane])
        a, s = rows[lane][counts], slack[lane][counts]
        found = (s + a @ move[lane]).min()
        bounds = [*zip(low[lane], high[lane], strict=True), (None, None)]
        best = -linprog(np.r_[np.zeros(f), -1.0], A_ub=np.c_[-a, np.ones(len(s))], b_ub=s, bounds=bounds).fun
        assert best - 1e-3 * (1 + abs(best)) <= found <= best + 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_the_nearest_points_of_half_spaces(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k, f = 3, 10
    rows, base = rng.normal(size=(1, k, f)), rng.normal(size=(1, f)) / 4
    inside = rng.uniform(-1, 1, f)
    need = (rows[0] @ inside - 0.01)[None]  # some point of the box meets all
    ones = np.ones((1, f))
    found = nearest_in_half_spaces(base, rows, need, -ones, ones, "l2", np.ones(1))[0]
    met = {"type": "ineq", "fun": lambda x: rows[0] @ x - need[0]}
    best = minimize(lambda x: ((x - base[0]) ** 2).sum(), inside, bounds=[(-1, 1)] * f, constraints=[met]).fun
    assert (rows[0] @ found >= need[0] - 1e-5).all()
    assert ((found - base[0]) ** 2).sum() == pytest.approx(best, rel=1e-4)
    known = np.abs(inside - base[0]).max()
    found = nearest_in_half_spaces(base, rows, need, -ones, ones, "linf", np.array([known]))[0]
    away = np.vstack([np.eye(f), -np.eye(f)])
    most = np.r_[-need[0], base[0], -base[0]]
    a = np.vstack([np.c_[-rows[0], np.zeros(k)], np.c_[away, -np.ones(2 * f)]])
    radius = linprog(np.r_[np.zeros(f), 1.0], A_ub=a, b_ub=most, bounds=[(-1, 1)] * f + [(0, None)]).fun
    assert (rows[0] @ found >= need[0] - 1e-9).all()
    assert np.abs(found - base[0]).max() <= radius + 2e-3 * known
