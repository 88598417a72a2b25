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


class Marks:
    """A set of integer keys that grows batch by batch, and forgets the oldest beyond `most`.

    On the host an ordered list that new keys are inserted into, on a device a ring that is searched whole: there a sort
    costs less than waiting for a count.
    """

    def __init__(self, keys: Array, most: int) -> None:
        """`keys` `[c]` int64: what the set begins with; `most`: keys that are remembered at least."""
        self._most = most
        self._recent = keys
        if is_numpy(keys):
            self._ordered = np.sort(keys)
        else:
            self._ring = torch().zeros(most + 1, dtype=torch().int64, device=keys.device)
            self._used = torch().zeros_like(self._ring, dtype=torch().bool)
            self._at = self._ring[:1] + 0
            self.add(keys, keys == keys)

    def has(self, keys: Array) -> Array:
        """Which keys `[b]` are in the set: bool `[b]`."""
        if is_numpy(keys):
            place = np.minimum(np.searchsorted(self._ordered, keys), max(self._ordered.size - 1, 0))
            return self._ordered[place] == keys if self._ordered.size else np.zeros(keys.shape, np.bool_)
        # an unused place holds 0, which is a key like any other
        zero = (self._used & (self._ring == 0)).any()
        return torch().where(keys == 0, zero, torch().isin(keys, self._ring))

    def add(self, keys: Array, wanted: Array) -> None:
        """Take in the `wanted` `[b]` of the keys `[b]`, none of which is in the set."""
        if is_numpy(keys):
            new = np.sort(keys[wanted])
            if not new.size:
                return
            self._ordered = np.insert(self._ordered, np.searchsorted(self._ordered, new), new)
            self._recent = np.concatenate([self._recent, new])
            if self._recent.size > 2 * self._most:
                self._recent = self._recent[-self._most :]
                self._ordered = np.sort(self._recent)
            return
        count = wanted.to(torch().int64).cumsum(0)
        place = torch().where(wanted, (self._at + count - 1) % self._most, self._most)
        self._ring[place], self._used[place] = keys, wanted
        self._used[-1] = False
        self._at = self._at + wanted.sum()


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
