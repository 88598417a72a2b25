"""What inputs may be: ranges, lattices of integers, starts and the radius around them. Points are flat, `[b, n]`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import InputError
from falsifier.network.reference import TensorInfo

Array = NDArray[Any]


@dataclass(frozen=True)
class Space:
    """The inputs of one network, laid out flat (row-major over the concatenated inputs).

    lower, upper: `[n]`, finite, in the points' type. lattice: `[n]`, where values are whole numbers. radius: `[n]`, how
    far a point may be from its oldest ancestor (infinite: no cap; source paper B3). starts: `[s, n]`, s >= 1.
    tokens: input name -> texts of its values, for inputs that are text.
    """

    infos: tuple[TensorInfo, ...]
    lower: Array
    upper: Array
    lattice: Array
    radius: Array
    starts: Array
    tokens: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def n(self) -> int:
        return int(self.lower.size)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of points: float32, or float64 where an input is."""
        return self.lower.dtype

    @property
    def span(self) -> Array:
        """`[n]`: how wide each dimension is, at most what the radius leaves; finite."""
        with np.errstate(over="ignore"):
            width = np.minimum(self.upper - self.lower, 2 * self.radius)
        return np.asarray(np.minimum(width, np.finfo(self.dtype).max), self.dtype)

    def project(self, x: Array, ancestor: Array | None = None) -> Array:
        """`[b, n]` moved into the ranges, around the oldest ancestors `[b, n]`, onto the lattice. NaN becomes 0."""
        lower, upper = self.lower, self.upper
        if ancestor is not None and np.isfinite(self.radius).any():
            lower = np.maximum(lower, self._inward(ancestor, -1))
            upper = np.minimum(upper, self._inward(ancestor, +1))
        x = np.where(np.isnan(x), self.dtype.type(0), x)
        if self.lattice.any():
            x = np.where(self.lattice, np.rint(x), x)
        return np.asarray(np.minimum(np.maximum(x, lower), upper), dtype=self.dtype)

    def _inward(self, ancestor: Array, side: int) -> Array:
        """The ball's end, rounded towards its centre, so that the difference measured exactly is within the radius."""
        wide = ancestor.astype(np.float64)
        end = (wide + side * self.radius).astype(self.dtype)
        outside = np.abs(end.astype(np.float64) - wide) > self.radius
        return np.asarray(np.where(outside, np.nextafter(end, ancestor), end))

    def ball(self, centre: Array) -> tuple[Array, Array]:
        """The ends, `[..., n]` in float64, of what lies within the ranges and around `centre` `[..., n]`."""
        wide = centre.astype(np.float64)
        lower = np.maximum(self.lower.astype(np.float64), wide - self.radius)
        return lower, np.minimum(self.upper.astype(np.float64), wide + self.radius)

    def split(self, x: Array) -> dict[str, Array]:
        """`[b, n]` as the network's inputs, `[b, *shape]` by name, each in its own type."""
        parts, at = {}, 0
        for info in self.infos:
            part = x[:, at : at + info.size]
            parts[info.name] = part.astype(info.dtype).reshape(len(x), *info.shape)
            at += info.size
        return parts

    def batches(self, x: Array) -> dict[str, Array]:
        """`[b, n]` by input name as batches are written: `[b, ...]`, a leading 1 of one sample's shape left out."""
        return {name: as_batch(part) for name, part in self.split(x).items()}

    def join(self, parts: dict[str, Any]) -> Array:
        """The inverse of `split` and of `batches`. Raises InputError for a missing input or a wrong size."""
        flat, lanes = [], None
        for info in self.infos:
            if info.name not in parts:
                raise InputError(f"input {info.name!r} is missing: give an array for each of the network's inputs")
            part = np.asarray(parts[info.name], dtype=self.dtype)
            if part.size % info.size or (lanes is not None and part.size != lanes * info.size):
                raise InputError(
                    f"input {info.name!r} has shape {list(info.shape)}; an array of shape {list(part.shape)} is not "
                    "a number of samples of it"
                )
            lanes = part.size // info.size
            flat.append(part.reshape(lanes, info.size))
        return np.concatenate(flat, axis=1)

    def uniform(self, rng: Any, count: int) -> Array:
        """`[count, n]`, uniform in the ranges, or around randomly drawn starts where there is a radius."""
        draws = rng.uniform((count, self.n), self.lower)
        centre = self.starts[rng.integers(0, len(self.starts), (count,))]
        lower, upper = self.ball(centre)
        x = (lower + draws * (upper - lower)).astype(self.dtype)
        return self.project(x, centre)


def as_batch(x: Array) -> Array:
    """`[b, 1, ...]` as `[b, ...]`; other shapes stay."""
    return x.reshape(len(x), *x.shape[2:]) if x.ndim > 1 and x.shape[1] == 1 else x


def make_space(
    infos: Sequence[TensorInfo],
    *,
    ranges: dict[str, tuple[float, float]] | None = None,
    radius: float | None = None,
    starts: Array | None = None,
    sizes: dict[str, int] | None = None,
) -> Space:
    """The space of a network's inputs.

    Args:
        ranges: by input name ('' for all others), inclusive ends. Without one: where there is a radius, all finite
            values; else what the starts span; else [-1, 1], and for integers 0 .. 127.
        radius: the most that a float value may differ from the oldest ancestor's.
        starts: `[s, n]`.
        sizes: by input name, how many values an integer input has (rows of the table that it looks up).

    Raises InputError for a range that is empty, or a name that no input has.
    """
    ranges = dict(ranges or {})
    sizes = sizes or {}
    names = {info.name for info in infos}
    for name in ranges:
        if name and name not in names:
            raise InputError(f"no input is called {name!r}: the network has {', '.join(sorted(names))}")
    dtype: np.dtype[Any] = np.dtype(np.float64 if any(i.dtype == np.float64 for i in infos) else np.float32)
    largest = float(np.finfo(dtype).max)
    lower: list[Array] = []
    upper: list[Array] = []
    lattice: list[Array] = []
    radii: list[Array] = []
    at = 0
    for info in infos:
        whole = info.dtype.kind in "iub"
        given = ranges.get(info.name, ranges.get(""))
        column = None if starts is None else starts[:, at : at + info.size]
        at += info.size
        if given is not None:
            low, high = given
        elif info.dtype.kind == "b":
            low, high = 0.0, 1.0
        elif info.name in sizes:
            low, high = 0.0, float(sizes[info.name] - 1)
        elif radius is not None and not whole:
            low, high = -largest, largest
        elif column is not None:
            low, high = float(np.min(column)), float(np.max(column))
        else:
            low, high = (0.0, 127.0) if whole else (-1.0, 1.0)
        if whole and info.dtype.kind != "b":
            ends = np.iinfo(info.dtype)
            low, high = max(low, float(ends.min)), min(high, float(ends.max))
            low, high = float(np.ceil(low)), float(np.floor(high))
        if info.dtype == np.float16:
            low, high = max(low, -65504.0), min(high, 65504.0)
        if not low <= high:
            raise InputError(f"input {info.name!r}: the range {low:g} .. {high:g} is empty")
        lower.append(np.full(info.size, max(low, -largest)))
        upper.append(np.full(info.size, min(high, largest)))
        lattice.append(np.full(info.size, whole))
        radii.append(np.full(info.size, np.inf if radius is None or whole else radius))
    low_, high_ = (_inside(np.concatenate(a), dtype, s) for a, s in ((lower, 1), (upper, -1)))
    whole_, radii_ = np.concatenate(lattice), np.concatenate(radii)
    if starts is None:
        middle = (low_.astype(np.float64) / 2 + high_.astype(np.float64) / 2)[None]
        starts = np.where(whole_, np.rint(middle), middle)
    space = Space(tuple(infos), low_, high_, whole_, radii_, np.asarray(starts, dtype))
    return Space(tuple(infos), low_, high_, whole_, radii_, space.project(space.starts))


def _inside(bound: Array, dtype: np.dtype[Any], side: int) -> Array:
    """Bounds in the points' type, rounded into the range."""
    near = bound.astype(dtype)
    wrong = near.astype(np.float64) < bound if side > 0 else near.astype(np.float64) > bound
    return np.where(wrong, np.nextafter(near, dtype.type(side * np.inf)), near)
