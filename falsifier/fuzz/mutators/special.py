"""Values at which rare faults live: zeros, denormals, ends of ranges, huge ones, constants of the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Rng, step
from falsifier.fuzz.space import Space

Array = NDArray[Any]

_FROM_MODEL = 128  # constants of the model that are tried, at most
_SMALL = 4096  # entries of a constant up to which it is looked at


class Special:
    """Puts special values into some coordinates, into slices of an input, or into all of it.

    `constants`: arrays of the model; what it compares inputs with, subtracts or looks up is often where it breaks.
    """

    name = "special"

    def __init__(self, space: Space, constants: Sequence[Array] = ()) -> None:
        self._space = space
        self.values = special_values(space, constants)
        self._patterns = _patterns(space, constants)
        self._slices = _slices(space)
        self._kinds = (
            self._few, self._few, self._few, self._all_one, self._all_mixed, self._slice, self._equal, self._last_bits,
            self._pattern, self._turned,
        )  # fmt: skip

    def children(self, parents: Array, oldest: Array, rng: Rng) -> Array:
        kind = rng.integers(0, len(self._kinds), (len(parents),))
        out = parents.copy()
        for k, change in enumerate(self._kinds):
            lanes = np.flatnonzero(kind == k)
            if lanes.size:
                out[lanes] = change(parents[lanes], rng)
        return out

    def _draw(self, shape: tuple[int, ...], rng: Rng) -> Array:
        return self.values[rng.integers(0, len(self.values), shape)]

    def _few(self, x: Array, rng: Rng) -> Array:
        """A geometric number of coordinates, each its own value."""
        b, n = x.shape
        count = 2.0 ** (rng.uniform((b, 1)) * np.log2(max(n, 2)))
        chosen = rng.uniform((b, n)) < count / n
        chosen[np.arange(b), rng.integers(0, n, (b,))] = True
        return np.where(chosen, self._draw((b, n), rng), x)

    def _all_one(self, x: Array, rng: Rng) -> Array:
        return np.broadcast_to(self._draw((len(x), 1), rng), x.shape)

    def _all_mixed(self, x: Array, rng: Rng) -> Array:
        """Every coordinate one of a few values drawn per lane."""
        few = self._draw((len(x), 3), rng)
        return np.take_along_axis(few, rng.integers(0, 3, x.shape), axis=1)

    def _slice(self, x: Array, rng: Rng) -> Array:
        """One value for a whole input, a row or a channel of it."""
        mask = self._slices[rng.integers(0, len(self._slices), (len(x),))]
        return np.where(mask, self._draw((len(x), 1), rng), x)

    def _equal(self, x: Array, rng: Rng) -> Array:
        """Coordinates made equal (or opposite) to one of them: differences that vanish."""
        b, n = x.shape
        source = x[np.arange(b), rng.integers(0, n, (b,))][:, None] * rng.signs((b, 1), x)
        share = np.where(rng.uniform((b, 1)) < 0.5, 1.0, 2.0 / n)
        return np.where(rng.uniform((b, n)) < share, source, x)

    def _last_bits(self, x: Array, rng: Rng) -> Array:
        moves = rng.integers(-3, 4, x.shape)
        return np.where(rng.uniform(x.shape) < 0.5, step(np.ascontiguousarray(x), moves), x)

    def _pattern(self, x: Array, rng: Rng) -> Array:
        """An array of the model that has an input's size, put into that input."""
        if not len(self._patterns[0]):
            return self._few(x, rng)
        which = rng.integers(0, len(self._patterns[0]), (len(x),))
        held, mask = self._patterns[0][which], self._patterns[1][which]
        return np.where(mask, held * rng.signs((len(x), 1), x), x)

    def _turned(self, x: Array, rng: Rng) -> Array:
        """The negative, or the coordinates in another order."""
        order = np.argsort(rng.uniform(x.shape), axis=1)
        turned = np.where(rng.uniform((len(x), 1)) < 0.5, -x, np.take_along_axis(x, order, axis=1))
        return np.asarray(turned)


def special_values(space: Space, constants: Sequence[Array] = ()) -> Array:
    """`[v]`: zeros, denormals, the smallest normals, ones, roots of the largest, ends of the ranges, constants."""
    kind = np.finfo(space.dtype)
    ends = np.concatenate([space.lower, space.upper])
    ends = np.unique(ends)
    ends = ends[np.linspace(0, ends.size - 1, min(ends.size, 32)).astype(int)]
    middle = ends[:-1] / 2 + ends[1:] / 2
    magnitudes = [
        kind.smallest_subnormal, kind.tiny, float(kind.tiny) ** 0.5, float(kind.max) ** 0.5, kind.max, kind.eps,
        0.5, 1.0, 2.0, np.pi / 2, np.pi, 10.0, 88.5, 89.0, 100.0, 1e4, 65504.0, 65536.0, 1e-4, 1e-7,
    ]  # fmt: skip
    found = [np.array([0.0, -0.0]), np.array(magnitudes), -np.array(magnitudes), ends, middle]
    found += [np.nextafter(ends, space.dtype.type(0)), _scalars(constants, space.dtype)]
    with np.errstate(over="ignore"):
        values = np.concatenate([np.asarray(f, np.float64) for f in found])
        values = values[(values >= float(space.lower.min())) & (values <= float(space.upper.max()))]
    values = values.astype(space.dtype)
    distinct = np.unique(values)
    return np.append(distinct, space.dtype.type(-0.0)) if (distinct == 0).any() else distinct


def _scalars(constants: Sequence[Array], dtype: np.dtype[Any]) -> Array:
    """Values of the model's small constants and their negatives, the rarest kinds of arrays first."""
    found: list[float] = []
    for array in sorted((c for c in constants if c.size <= _SMALL and c.dtype.kind in "fiu"), key=lambda c: c.size):
        if len(found) >= _FROM_MODEL:
            break
        flat = np.unique(array.astype(np.float64).ravel())
        flat = flat[np.isfinite(flat)]
        found += flat[np.linspace(0, flat.size - 1, min(flat.size, 16)).astype(int)].tolist() if flat.size else []
    values = np.array(found[:_FROM_MODEL], dtype)
    return np.concatenate([values, -values])


def _patterns(space: Space, constants: Sequence[Array]) -> tuple[Array, Array]:
    """Arrays laid out over the inputs whose size they have, and where: `[p, n]` each."""
    held: list[Array] = []
    masks: list[Array] = []
    at = 0
    for info in space.infos:
        for array in constants:
            if array.size == info.size and info.size > 1 and array.dtype.kind in "fiu" and len(held) < _FROM_MODEL:
                row, mask = np.zeros(space.n, space.dtype), np.zeros(space.n, np.bool_)
                row[at : at + info.size], mask[at : at + info.size] = array.ravel(), True
                held.append(row)
                masks.append(mask)
        at += info.size
    if not held:
        return np.zeros((0, space.n), space.dtype), np.zeros((0, space.n), np.bool_)
    return np.stack(held), np.stack(masks)


def _slices(space: Space, most: int = 256) -> Array:
    """Masks `[k, n]`: whole inputs, and slices along each axis of each."""
    masks = []
    at = 0
    for info in space.infos:
        block = np.zeros((1, space.n), np.bool_)
        block[:, at : at + info.size] = True
        masks.append(block)
        for axis, length in enumerate(info.shape):
            if 1 < length < info.size and length <= most:
                index = np.indices(info.shape)[axis].ravel()
                rows = np.zeros((length, space.n), np.bool_)
                rows[:, at : at + info.size] = index == np.arange(length)[:, None]
                masks.append(rows)
        at += info.size
    every = np.concatenate(masks)
    return np.asarray(every[np.linspace(0, len(every) - 1, min(len(every), most)).astype(int)])
