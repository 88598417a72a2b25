"""Integers moved by ones until they meet linear comparisons, for what rounding left outside: steepest descent that does
not stop where nothing descends, and does not move the same input twice in a row.

Axes: b lane, k row, g coordinate.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_STEPS = 30


def repaired(
    x: Floats,
    value: Floats,
    rows: Floats,
    ends: tuple[Floats, Floats],
    box: tuple[Floats, Floats],
    may_move: NDArray[np.bool_],
) -> Floats:
    """Points `[b, g]` after steps of an input each: those that lack least of what the rows ask, in squares.

    value `[b, k]` of rows `[b or 1, k, g]` at the points, their ends `[b, k]`, the box's sides `[b, g]`; may_move
    `[g]`.
    """
    x, value, best = x.copy(), value.copy(), x.copy()
    lanes, signs = np.arange(len(x)), np.array([1.0, -1.0])
    least = _lack(value, *ends)
    last = np.full(len(x), -1)
    for _ in range(_STEPS):
        left = np.flatnonzero(least > 0)
        if not left.size:
            break
        mine = rows if len(rows) == 1 else rows[left]
        worth = np.empty((2, len(left), x.shape[1]))
        for i, sign in enumerate(signs):
            low, high = (end[left][:, :, None] for end in ends)
            worth[i] = _lack(value[left][:, :, None] + sign * mine, low, high)
            there = x[left] + sign
            worth[i][(there < box[0][left]) | (there > box[1][left]) | ~may_move] = np.inf
        worth[:, np.arange(len(left)), last[left]] = np.where(
            last[left] >= 0, np.inf, worth[:, np.arange(len(left)), last[left]]
        )
        way, at = np.divmod(np.argmin(worth.transpose(1, 0, 2).reshape(len(left), -1), axis=1), x.shape[1])
        x[left, at] += signs[way]
        value[left] += signs[way][:, None] * (rows[0][:, at].T if len(rows) == 1 else mine[lanes[: len(left)], :, at])
        last[left] = at
        lack = _lack(value[left], *(end[left] for end in ends))
        better = left[lack < least[left]]
        best[better], least[left] = x[better], np.minimum(lack, least[left])
    return best


def _lack(value: Floats, low: Floats, high: Floats) -> Floats:
    """Sums of squares over k of what values `[b, k, ..]` lack."""
    lack = np.maximum(low - value, 0) + np.maximum(value - high, 0)
    return np.asarray(np.sum(lack * lack, axis=1))
