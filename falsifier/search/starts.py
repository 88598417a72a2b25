"""Starts: points in the unit cube of a box, `[b, f]` (0 the lower bound, 1 the upper), and their way into the box."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, Rng, as_dtype_of, clip_into, copy_where, namespace


def place(unit: Array, lower: Array, upper: Array) -> Array:
    """Points of boxes `[b, f]` (or `[1, f]`) from unit coordinates; 0 and 1 give the bounds themselves, bit for bit."""
    point = 1 - unit
    point *= lower
    point += upper * unit  # the width may overflow where the bounds do not
    point = clip_into(point, lower, upper)
    return copy_where(unit >= 1, upper, point)


def uniform(rng: Rng, count: int, free: int, like: Array) -> Array:
    """Independent uniform coordinates."""
    return rng.uniform((count, free), like)


def vertices(rng: Rng, count: int, free: int, like: Array) -> Array:
    """Corners: each row has a share of upper bounds of its own, so that near-constant corners are met as well."""
    draw = rng.uniform((count, free), like)
    share = 0.5 + 0.5 * (2 * rng.uniform((count, 1), like) - 1) ** 3  # mostly about one half
    return as_dtype_of(draw < share, draw)


def mixed(rng: Rng, count: int, free: int, like: Array) -> Array:
    """Corners in a part of the coordinates, uniform in the others; the part differs from row to row."""
    inner = rng.uniform((count, free), like)
    corner = vertices(rng, count, free, like)
    share = rng.uniform((count, 1), like)
    return copy_where(rng.uniform((count, free), like) < share, corner, inner)


def kronecker(first: int, count: int, free: int, shift: NDArray[np.float64], dtype: Any) -> NDArray[Any]:
    """Points `first ... first + count - 1` of a low-discrepancy sequence, shifted by `shift` `[f]` on the torus.

    Additive recurrence with the powers of the generalised golden ratio (the root of x^(f+1) = x + 1): as even as Sobol
    points in few dimensions, extensible at any count, and without the import of scipy.stats.
    """
    ratio = 2.0
    for _ in range(64):
        ratio = (1 + ratio) ** (1 / (free + 1))
    stride = ratio ** -np.arange(1, free + 1)
    return np.asarray((shift + np.arange(first, first + count)[:, None] * stride) % 1.0, dtype=dtype)


def interleaved(rng: Rng, count: int, free: int, like: Array) -> Array:
    """Corners and uniform points in turn."""
    corner = vertices(rng, count, free, like)
    inner = rng.uniform((count, free), like)
    xp = namespace(inner)
    odd = (xp.arange(count, device=inner.device) % 2 == 1)[:, None]
    return xp.where(odd, inner, corner)


def lattice(point: Array, lower: Array, upper: Array, integer: Array) -> Array:
    """Points with their integer-valued coordinates rounded to integers inside the box; integer `[f]` bool."""
    xp = namespace(point)
    rounded = xp.clip(xp.round(point), xp.ceil(lower), xp.floor(upper))
    return xp.where(integer, rounded, point)
