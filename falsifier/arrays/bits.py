"""Floats as bit patterns: last-bit moves and hashes of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays.basic import Array, as_int64, as_like, full, is_numpy, namespace, numpy_dtype, to_host, torch

_BITS: dict[int, Any] = {2: np.int16, 4: np.int32, 8: np.int64}
_MIX = 0x9E3779B97F4A7C15  # the odd constant of Fibonacci hashing: 2^64 over the golden ratio


def bits(x: Array) -> Array:
    """The floats' bit patterns as signed integers of the same width, no copy."""
    if is_numpy(x):
        return np.ascontiguousarray(x).view(_BITS[x.dtype.itemsize])
    lib = torch()
    return x.contiguous().view({2: lib.int16, 4: lib.int32, 8: lib.int64}[x.element_size()])


def ordinal(x: Array) -> Array:
    """Integers that count representable values: x < y iff ordinal(x) < ordinal(y); both zeros are 0. Not for NaN."""
    xp = namespace(x)
    raw = bits(x)
    lowest = xp.iinfo(raw.dtype).min
    return xp.where(raw < 0, lowest - raw, raw)


def from_ordinal(count: Array, like: Array) -> Array:
    """The inverse of `ordinal`, in the float type of `like`."""
    xp = namespace(count)
    raw = xp.where(count < 0, xp.iinfo(count.dtype).min - count, count)
    return raw.view(like.dtype)


def step(x: Array, steps: Array | int) -> Array:
    """`x` moved by a number of representable values (broadcast), at most to the largest finite one; NaN stays."""
    xp = namespace(x)
    count = as_int64(ordinal(x))
    end = int(to_host(ordinal(full((1,), float(np.finfo(numpy_dtype(x)).max), x)))[0])
    move = xp.full_like(count, steps) if isinstance(steps, int) else as_int64(steps)
    # compared before they are added: the sum may leave the range of int64
    beyond = xp.where(move > 0, count > end - xp.clip(move, 0, None), count < -end - xp.clip(move, None, 0))
    moved = xp.where(beyond, xp.where(move > 0, xp.full_like(count, end), xp.full_like(count, -end)), count + move)
    narrow = moved.astype(bits(x).dtype) if is_numpy(x) else moved.to(bits(x).dtype)
    return xp.where(xp.isfinite(x), from_ordinal(narrow, x), x)


def spacing(x: Array) -> Array:
    """The distance of abs(x) to the next larger value of its type, elementwise. Not below the smallest normal value."""
    info = np.finfo(numpy_dtype(x))
    if is_numpy(x):
        return np.maximum(np.spacing(np.abs(x)), info.tiny)
    _, exponent = torch().frexp(x.abs())
    least = int(np.log2(info.tiny))
    step = torch().ldexp(torch().ones_like(x), (exponent - info.nmant - 1).clamp(min=least))
    return torch().where(x == 0, torch().full_like(step, float(info.tiny)), step)


def row_hash(x: Array) -> Array:
    """A 64-bit hash of the bytes of every row, int64 `[b]`, made on the array's own device.

    Equal rows (bit for bit, so -0.0 differs from 0.0) get equal hashes; the same bits hash alike in numpy and torch.
    """
    return hashed_words(as_int64(bits(x.reshape(x.shape[0], -1))))


def hashed_words(wide: Array) -> Array:
    """A 64-bit hash of every row of int64 `[b, w]`: int64 `[b]`."""
    position = np.arange(wide.shape[1], dtype=np.uint64)
    weight = as_like(scrambled(position).view(np.int64) | 1, wide)
    mixed = (wide ^ (wide << 21)) * weight
    mixed = mixed ^ (mixed >> 29)
    return (mixed * weight).sum(axis=1) if is_numpy(wide) else (mixed * weight).sum(dim=1)


def scrambled(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64: a bijection whose outputs look random."""
    z = (x + np.uint64(1)) * np.uint64(_MIX)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
