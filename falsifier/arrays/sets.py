"""Keys, sets and counts over the first axis, in static shapes: nothing here waits for an accelerator."""

from __future__ import annotations

import numpy as np

from falsifier.arrays.basic import Array, as_int64, as_like, is_numpy, torch
from falsifier.arrays.bits import hashed_words

_WORD = 32  # bits of a word; the sum of its powers fits into int64 with room to spare


def stable_order(key: Array) -> Array:
    """Positions that sort a key `[b]` ascending; equal keys keep their order."""
    return np.argsort(key, kind="stable") if is_numpy(key) else torch().argsort(key, stable=True)


def first_of(key: Array) -> Array:
    """Which rows of an integer key `[b]` are the first to hold their value: bool `[b]`."""
    order = stable_order(key)
    ordered = key[order]
    fresh = ordered == ordered
    fresh[1:] = ordered[1:] != ordered[:-1]
    first = fresh + False
    first[order] = fresh
    return first


def is_in(key: Array, known: Array) -> Array:
    """Which rows of an integer key `[b]` occur in `known` `[c]`: bool `[b]`."""
    if not is_numpy(key):
        return torch().isin(key, known)
    ordered = np.sort(known)
    place = np.minimum(np.searchsorted(ordered, key), max(ordered.size - 1, 0))
    return ordered[place] == key if ordered.size else np.zeros(key.shape, np.bool_)


def put_add(x: Array, index: Array, values: Array) -> Array:
    """`x` `[c]` with `values` `[b]` added at `index` `[b]`, in place; places may repeat."""
    if is_numpy(x):
        np.add.at(x, index, values)
        return x
    return x.index_add_(0, index, values)


def put_max(x: Array, index: Array, values: Array) -> Array:
    """`x` `[c]`, in place: each element at least the largest of the `values` `[b]` that `index` `[b]` sends to it."""
    if is_numpy(x):
        np.maximum.at(x, index, values)
        return x
    return x.scatter_reduce_(0, index, values, "amax")


def place_in(total: Array, draws: Array) -> Array:
    """Positions in ascending sums `total` `[c]` where `draws` `[b]` fall: the number of sums <= a draw."""
    if is_numpy(total):
        return np.searchsorted(total, draws, side="right")
    return torch().searchsorted(total, draws, right=True)


def pattern_hash(active: Array) -> Array:
    """A 64-bit hash of every row of truth values `[b, d]`, int64 `[b]`, made where they lie.

    The same rows hash alike in numpy and torch.
    """
    lanes, width = active.shape
    spare = -width % _WORD
    if spare:
        blank = active[:, :1] & False
        lib = np if is_numpy(active) else torch()
        wide = (lanes, spare)
        active = lib.concatenate([active, lib.broadcast_to(blank, wide)], 1)
    words = active.reshape(lanes, -1, _WORD)
    if is_numpy(active):
        packed = np.packbits(words, axis=2, bitorder="little").view("<u4")[:, :, 0]
        return hashed_words(packed.astype(np.int64))
    powers = as_like(np.int64(1) << np.arange(_WORD, dtype=np.int64), active)
    return hashed_words((as_int64(words) * powers).sum(dim=2))
