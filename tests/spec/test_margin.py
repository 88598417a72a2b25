"""Signs, strictness and reductions: the conventions that everything else trusts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from falsifier.arrays import namespace, to_host
from falsifier.objective import Reduction
from falsifier.spec.margin import margin, reach, round_up, score, slack, weighted

finite = st.floats(allow_nan=False, allow_infinity=False)
types = pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])


def nearby(bound: float, dtype: Any) -> np.ndarray[Any, Any]:
    """Values of a type around a bound."""
    with np.errstate(over="ignore"):
        middle = np.array([bound]).astype(dtype)
        low = np.nextafter(middle, dtype(-np.inf))
        high = np.nextafter(middle, dtype(np.inf))
        return np.concatenate([np.nextafter(low, dtype(-np.inf)), low, middle, high, np.nextafter(high, dtype(np.inf))])


@types
@given(finite, st.booleans())
def test_meeting_the_reached_bound_is_satisfying_the_comparison(dtype: Any, bound: float, strict: bool) -> None:
    reached = reach(np.array([bound]), np.array([strict]), np.dtype(dtype), strict_in_dtype=False, nearest=False)
    assert reached.dtype == dtype
    values = nearby(bound, dtype)
    wide = values.astype(np.float64)
    assert (values >= reached).tolist() == ((wide > bound) if strict else (wide >= bound)).tolist()


@types
@given(finite, st.booleans())
def test_rounded_bounds_are_compared_in_their_type(dtype: Any, bound: float, strict: bool) -> None:
    reached = reach(np.array([bound]), np.array([strict]), np.dtype(dtype), strict_in_dtype=True, nearest=True)
    values = nearby(bound, dtype)
    values = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        rounded = np.array([bound]).astype(dtype)
    assert (values >= reached).tolist() == ((values > rounded) if strict else (values >= rounded)).tolist()


@types
@given(finite, st.booleans())
def test_inward_satisfies_both_rules_where_the_checker_rounds(dtype: Any, bound: float, strict: bool) -> None:
    columns = np.array([bound]), np.array([strict]), np.dtype(dtype)
    inward = reach(*columns, strict_in_dtype=True, nearest=False)
    other = reach(*columns, strict_in_dtype=False, nearest=False), reach(*columns, strict_in_dtype=True, nearest=True)
    assert inward == max(other)


@types
@given(finite)
def test_rounding_up_never_falls_below(dtype: Any, x: float) -> None:
    up = round_up(np.array([x]), np.dtype(dtype))
    assert up.astype(np.float64) >= x
    with np.errstate(over="ignore"):
        assert np.nextafter(up, dtype(-np.inf)).astype(np.float64) < x


def both(*rows: Any) -> list[tuple[Any, ...]]:
    import torch

    arrays = [np.array(row) for row in rows]
    return [tuple(arrays), tuple(torch.from_numpy(a) for a in arrays)]


def test_slacks_of_nan_and_padding() -> None:
    values = [[1.0, np.nan, np.nan, -np.inf]]
    for v, sign, bound, present in both(values, [[1.0, 1, 1, -1]], [[0.5, 0, 0, 0]], [[True, True, False, True]]):
        assert slack(v, sign, bound, present).tolist() == [[0.5, -np.inf, np.inf, np.inf]]
        assert margin(slack(v, sign, bound, present)).tolist() == [-np.inf]


def test_an_infinite_output_spoils_only_what_mentions_it() -> None:
    rows = [[1.0, 0, 0, 0], [0, 2, 0, 0], [0, -2, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1], [1, 0, 0, -1]]
    y = [[3.0, np.inf, -np.inf, np.nan], [1.0, 2.0, 4.0, 8.0], [1.0, -np.inf, 4.0, 8.0]]
    expected: list[list[float]] = [
        [3, np.inf, -np.inf, np.nan, np.nan, np.nan],
        [1, 4, -4, 6, 8, -7],
        [1, -np.inf, np.inf, -np.inf, 8, -7],
    ]
    for w, values in both(rows, y):
        per_lane = namespace(w).broadcast_to(w[None], (3, 6, 4))
        with np.errstate(invalid="ignore"):
            found = [to_host(weighted(weights, values)) for weights in (w, per_lane)]
        for values_of in found:
            assert np.array_equal(values_of, expected, equal_nan=True)


SLACKS = [[0.5, -1.0, -2.0, np.inf], [1.0, 2.0, 3.0, np.inf], [-np.inf, -1.0, 1.0, np.inf]]
SCALES = [[1.0, 2.0, 0.5, 0.0], [1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 0.0]]


def test_hinge_sums_what_is_violated() -> None:
    for slacks, scale in both(SLACKS[:2], SCALES[:2]):
        value, weight = score(slacks, scale, Reduction.HINGE)
        assert value.tolist() == [-3, 0]
        assert weight.tolist() == [[0, 2, 0.5, 0], [0, 0, 0, 0]]


def test_hard_takes_the_worst() -> None:
    for slacks, scale in both(SLACKS, SCALES):
        value, weight = score(slacks, scale, Reduction.HARD)
        assert value.tolist()[:2] == [-2, 1]
        assert -np.inf < float(value[2]) < -1e300
        assert weight.tolist() == [[0, 2, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]


def test_soft_is_below_hard_and_weighs_the_worst_most() -> None:
    for slacks, scale in both(SLACKS[:2], SCALES[:2]):
        value, weight = score(slacks, scale, Reduction.SOFT)
        scaled = np.array([0.5, -2, -1])
        assert float(value[0]) == pytest.approx(-np.log(np.exp(-scaled).sum()))
        assert float(value[1]) < 1
        assert (to_host(weight)[:, 3] == 0).all()
        assert to_host(weight)[0, :3] / [1, 2, 0.5] == pytest.approx(np.exp(-scaled) / np.exp(-scaled).sum())


@pytest.mark.parametrize("reduction", list(Reduction))
def test_scores_of_lanes_that_do_not_count_are_finite(reduction: Reduction) -> None:
    """A lane without atoms scores 0; a NaN output (slack -infinity) gives no NaN weight."""
    for slacks, scale in both([[np.inf, np.inf], [-np.inf, -1.0]], [[0.0, 0.0], [1.0, 1.0]]):
        value, weight = score(slacks, scale, reduction)
        assert float(value[0]) == 0
        assert np.isfinite(to_host(weight)).all()
        assert np.isfinite(to_host(value)).all()
