"""Digits in a text to numbers, a whole column at a time and correctly rounded: the same float64 as `float()` gives.

Eight digits are converted in one 64-bit word. A decimal of at most 19 digits, at most 22 of them behind the point,
is an integer below 2^64 over a power of ten that float64 holds exactly; the quotient is formed with an error term,
and whatever lies so near the middle of two float64 that the term could decide wrongly (as well as exponents and
longer texts) goes through `float()`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from falsifier.records import record

_MASKS = np.array([0] + [(2**64 - 1) ^ (2 ** (64 - 8 * c) - 1) for c in range(1, 9)], dtype=np.uint64)
_POWERS = np.array([10**i for i in range(20)], dtype=np.uint64)
_SCALES = np.array([10.0**i for i in range(23)])
_ZEROS = np.uint64(0x3030303030303030)
_NINES = np.uint64(0x7676767676767676)  # added to a byte above 9 it sets the top bit
_TOPS = np.uint64(0x8080808080808080)
_DIGITS = 19
_PLACES = 22
_BLOCK = 16384  # numbers converted at a time, so that the columns between stay in the cache


def words(text: bytes) -> NDArray[np.uint64]:
    """`[len(text) - 7]`: the eight bytes from every position on, the first one in the lowest bits. A view, not a
    copy.
    """
    return np.ndarray((len(text) - 7,), dtype=np.dtype("<u8"), buffer=text, strides=(1,))


def digits(
    view: NDArray[np.uint64], stop: NDArray[np.int64], count: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Value of the `count` (0 to 8) digits before `stop`, and whether they are digits at all."""
    mask = _MASKS[count]
    v = (view[stop - 8] ^ _ZEROS) & mask
    valid = ((v | (v + _NINES)) & _TOPS) == 0
    v = v * np.uint64(10) + (v >> np.uint64(8))
    low = np.uint64(0x000000FF000000FF)
    v = (
        (v & low) * np.uint64(0x000F424000000064) + ((v >> np.uint64(16)) & low) * np.uint64(0x0000271000000001)
    ) >> np.uint64(32)
    return v, valid


def _long_digits(
    view: NDArray[np.uint64], stop: NDArray[np.int64], count: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """As `digits`, up to 19 of them."""
    value, valid = digits(view, stop, np.minimum(count, 8))
    longest = int(count.max(initial=0))
    for done in range(8, longest, 8):
        part, fine = digits(view, stop - done, np.clip(count - done, 0, 8))
        value = value + part * _POWERS[done]
        valid &= fine
    return value, valid


@record
class Numbers:
    """A column of numbers. `value` is NaN where the text is not a number at all.

    `plain`: an optional sign, digits, at most one point; `signed`: begins with + or -; `whole`: digits before the
    point; `places`: digits behind it, -1 without a point. The last two say nothing where not plain.
    """

    value: NDArray[np.float64]
    plain: NDArray[np.bool_]
    signed: NDArray[np.bool_]
    whole: NDArray[np.int64]
    places: NDArray[np.int64]


def numbers(text: bytes, start: NDArray[np.int64], stop: NDArray[np.int64]) -> Numbers:
    """Convert the tokens `text[start:stop]`, ascending, none empty; `text` is padded as `Source.text` is."""
    n = len(start)
    out = Numbers(
        np.empty(n),
        np.empty(n, dtype=bool),
        np.empty(n, dtype=bool),
        np.empty(n, dtype=np.int64),
        np.empty(n, dtype=np.int64),
    )
    for a in range(0, n, _BLOCK):
        part = _block(text, start[a : a + _BLOCK], stop[a : a + _BLOCK])
        for name in ("value", "plain", "signed", "whole", "places"):
            getattr(out, name)[a : a + _BLOCK] = getattr(part, name)
    return out


def _block(text: bytes, start: NDArray[np.int64], stop: NDArray[np.int64]) -> Numbers:
    data = np.frombuffer(text, dtype=np.uint8)
    first = data[start]
    negative = first == ord("-")
    signed = negative | (first == ord("+"))
    low = int(start[0])
    points = np.flatnonzero(data[low : int(stop[-1])] == ord(".")) + low
    before = np.searchsorted(points, start)
    pointed = np.searchsorted(points, stop) > before
    point = np.where(pointed, np.append(points, 0)[before], stop)
    whole = point - start - signed
    places = np.where(pointed, stop - point - 1, -1)
    behind = np.maximum(places, 0)
    plain = (whole >= 0) & (whole + behind <= _DIGITS) & (behind <= _PLACES) & (whole + behind > 0)
    whole_count, behind_count = np.where(plain, whole, 0), np.where(plain, behind, 0)
    view = words(text)
    high, fine = _long_digits(view, point, whole_count)
    plain &= fine
    tail, fine = _long_digits(view, stop, behind_count)  # a second point is not a digit
    plain &= fine
    mantissa = high * _POWERS[np.minimum(behind_count, _DIGITS)] + tail
    value, certain = _quotient(mantissa, behind_count)
    np.negative(value, out=value, where=negative)
    for i in np.flatnonzero(~(plain & certain)).tolist():
        slow = number(text[start[i] : stop[i]])
        value[i] = np.nan if slow is None else slow
    return Numbers(value, plain, signed, whole, places)


def _quotient(mantissa: NDArray[np.uint64], places: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """mantissa / 10^places rounded to nearest, and where that is certain."""
    scale = _SCALES[places]
    high = mantissa.astype(np.float64)
    # 2^64 itself is not a uint64, so a mantissa that rounds up to it is left to the slow way.
    small = high < 2.0**64
    low = (mantissa - np.where(small, high, 0).astype(np.uint64)).view(np.int64).astype(np.float64)
    q = high / scale
    rest = _remainder(high, q, scale) + low
    c = rest / scale
    s = q + c
    lost = c - (s - q)
    half = 0.5 * np.spacing(np.abs(s))
    certain = small & (np.abs(np.abs(lost) - half) > 1e-6 * half)
    exact = mantissa < np.uint64(2**53)
    return np.where(exact, q, s), exact | certain


def _remainder(a: NDArray[np.float64], q: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """a - q * b, exact but for its own last rounding, by splitting the factors into halves (Dekker 1971)."""

    def split(v: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        t = v * 134217729.0
        high = t - (t - v)
        return high, v - high

    p = q * b
    qh, ql = split(q)
    bh, bl = split(b)
    error = ((qh * bh - p) + qh * bl + ql * bh) + ql * bl
    return np.asarray((a - p) - error)


def number(token: bytes) -> float | None:
    """The number that a token is, None if it is none: `float()` without its 1_0, inf and nan."""
    if b"_" in token or not (token[-1:].isdigit() or token[-1:] == b"."):
        return None
    try:
        return float(token)
    except ValueError:
        return None
