"""Numbers out of columns of text: the same float64 as `float()`, and the same idea of what a number is."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from query_text import DIGITS, NUMBERS_1, TREES

from falsifier.query.decimals import Numbers, numbers
from falsifier.query.source import PAD


def _convert(tokens: list[str]) -> Numbers:
    text = " " * PAD + " ".join(tokens) + " " * PAD
    length = np.array([len(token) for token in tokens])
    start = PAD + np.cumsum(length + 1) - (length + 1)
    return numbers(text.encode(), start, start + length)


@TREES
@given(st.lists(NUMBERS_1, min_size=1, max_size=20))
def test_value_is_correctly_rounded(tokens: list[str]) -> None:
    np.testing.assert_array_equal(_convert(tokens).value, [float(token) for token in tokens])


@TREES
@given(st.integers(2**52, 2**53 - 1), st.integers(50, 60), st.integers(-1, 1))
def test_ties_between_two_float64(mantissa: int, shift: int, nudge: int) -> None:
    """Decimals next to, and at, the middle of two neighbouring float64, cut to 19 digits."""
    middle = Fraction(2 * mantissa + 1, 2**shift)
    whole = int(middle)
    places = 19 - len(str(whole))
    digits = int((middle - whole) * 10**places) + nudge
    token = f"{whole}.{min(max(digits, 0), 10**places - 1):0{places}d}"
    assert _convert([token]).value[0] == float(token)


@TREES
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_float32_values_read_back(values: list[float]) -> None:
    np.testing.assert_array_equal(_convert([repr(v) for v in values]).value, values)


@pytest.mark.parametrize(
    "token",
    [
        "-",
        "+",
        ".",
        "-.",
        "1.2.3",
        "--1",
        "+-1",
        "1e",
        "1e+",
        "1_0",
        "0x1f",
        "inf",
        "+inf",
        "-nan",
        "1/2",
        "1:",
        "1,5",
        "1-2",
    ],
)
def test_what_is_not_a_number(token: str) -> None:
    assert math.isnan(_convert(["1.5", token, "2.5"]).value[1])


def test_forms() -> None:
    found = _convert(["-12.5", "+3", "7.", ".25", "1e5", "123456789012345678901"])
    assert found.plain.tolist() == [True, True, True, True, False, False]
    assert found.signed.tolist() == [True, True, False, False, False, False]
    assert found.whole[:4].tolist() == [2, 1, 1, 0]
    assert found.places[:4].tolist() == [1, -1, 0, 2]


@TREES
@given(DIGITS, DIGITS)
@example("18446744073709551615", "0")
@example("9999999999999999999", "")
def test_zero_keeps_its_sign_and_large_numbers_their_value(whole: str, behind: str) -> None:
    token = f"-{whole}.{behind}"
    value = _convert([token]).value[0]
    assert value == float(token)
    assert math.copysign(1, value) == -1


def test_a_column_longer_than_a_block() -> None:
    values = np.random.default_rng(0).random(40_000)
    tokens = [f"{v:.17g}" for v in values.tolist()]
    np.testing.assert_array_equal(_convert(tokens).value, values)
