"""The domain: which inputs search moves, and how a point over those becomes an input of the networks.

Pinned inputs are constants. Tied inputs follow others: x_j = scale * x_i + shift (one source), or a row of a matrix
(several). What is left are the free inputs, the axes of every point that search handles; some of them are searched as
the difference from another.

Axes: b lane, n flat input of the networks, f free input, e tied input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, arange, is_numpy, namespace, zeros
from falsifier.records import record, replaced, values
from falsifier.spec.lattice import Lattice


@record
class Tie:
    """x[tied] = scale * point[source] + shift, all `[e]`; no source occurs twice: gradients add without collisions."""

    tied: Array
    source: Array
    scale: Array
    shift: Array


@record
class Combination:
    """x[tied] = point @ rows.T + shift: tied `[e]`, rows `[e, f]`, shift `[e]`."""

    tied: Array
    rows: Array
    shift: Array


@record
class Band:
    """x[tied] = clip(point[source] + point[own], lower, upper), all `[e]`: inputs searched as differences (`bands`).

    No source occurs twice.
    """

    tied: Array
    own: Array
    source: Array
    lower: Array
    upper: Array


@record
class Rounds:
    """Which types among the free inputs hold fewer values than the search's."""

    integer: bool = False
    half: bool = False
    single: bool = False

    def __bool__(self) -> bool:
        return self.integer or self.half or self.single


@record
class Domain:
    """n flat inputs of which f are free.

    free `[f]` int, ascending: the flat input of each free one; base `[n]`: the pinned values, 0 elsewhere; integer,
    half, single `[f]` bool: inputs of an integer element type, of float16, of float32 beside float64 (points are
    rounded to what such a type can hold), rounds: which of these there are; exact: False where an equality fixes an
    input at a value that its type cannot hold.
    """

    n: int
    free: Array
    base: Array
    integer: Array
    half: Array
    single: Array
    ties: tuple[Tie, ...] = ()
    combination: Combination | None = None
    band: Band | None = None
    lattice: Lattice | None = None
    rounds: Rounds = Rounds()
    exact: bool = True

    @property
    def f(self) -> int:
        return int(self.free.shape[0])

    def quantise(self, points: Array) -> Array:
        """Points with inputs of narrower types rounded to the nearest value of their type: `[b, f]` to `[b, f]`."""
        if not self.rounds:
            return points
        xp = namespace(points)
        if self.rounds.integer:
            points = xp.where(self.integer, xp.round(points), points)
        if self.rounds.half:
            points = xp.where(self.half, _through(points, "float16"), points)
        if self.rounds.single:
            points = xp.where(self.single, _through(points, "float32"), points)
        return points

    def embed(self, points: Array) -> Array:
        """Points over the free inputs as full inputs: `[b, f]` to `[b, n]`, pinned and tied inputs filled in."""
        points = self.quantise(points)
        if self.lattice is not None:
            points = self.lattice.round(points)
        if self.plain:
            return points
        xp = namespace(points)
        out = xp.broadcast_to(self.base[None, :], (points.shape[0], self.n))
        out = out.copy() if is_numpy(out) else out.clone()
        out[:, self.free] = points
        for tie in self.ties:
            out[:, tie.tied] = points[:, tie.source] * tie.scale + tie.shift
        if self.combination is not None:
            out[:, self.combination.tied] = points @ self.combination.rows.T + self.combination.shift
        if self.band is not None:
            moved = points[:, self.band.source] + points[:, self.band.own]
            out[:, self.band.tied] = xp.minimum(xp.maximum(moved, self.band.lower), self.band.upper)
        return out

    @property
    def plain(self) -> bool:
        """Whether the points are the inputs."""
        return self.f == self.n and self.band is None

    def affine(self) -> tuple[Array, Array] | None:
        """`[f, n]` and `[n]` with embed(points) = points @ matrix + shift; None where embedding does more."""
        if self.rounds or self.lattice is not None or self.combination is not None or self.band is not None:
            return None
        matrix = zeros((self.f, self.n), self.base)
        shift = +self.base
        matrix[arange(self.f, self.free), self.free] = 1
        for tie in self.ties:
            matrix[tie.source, tie.tied] = tie.scale
            shift[tie.tied] = tie.shift
        return matrix, shift

    def restrict(self, inputs: Array) -> Array:
        """The free part of full inputs: `[b, n]` to `[b, f]`."""
        if self.plain:
            return inputs
        out = inputs[:, self.free]
        if self.band is not None:
            out[:, self.band.own] -= out[:, self.band.source]
        return out

    def pull(self, gradient: Array) -> Array:
        """A gradient by the full inputs as one by the free inputs (the transpose of `embed`): `[b, n]` to `[b, f]`.

        Inputs in a band are taken as inside of their bounds.
        """
        if self.plain:
            return gradient
        out = gradient[:, self.free]
        for tie in self.ties:
            out[:, tie.source] += gradient[:, tie.tied] * tie.scale
        if self.combination is not None:
            out = out + gradient[:, self.combination.tied] @ self.combination.rows
        if self.band is not None:
            out[:, self.band.source] += out[:, self.band.own]
        return out

    def moved(self, convert: Callable[[NDArray[Any]], Array]) -> Domain:
        """The same domain with every array passed through `convert` (to a device)."""

        def parts(tie: Any) -> Any:
            return type(tie)(*map(convert, values(tie)))

        return replaced(
            self,
            free=convert(self.free),
            base=convert(self.base),
            integer=convert(self.integer),
            half=convert(self.half),
            single=convert(self.single),
            ties=tuple(parts(tie) for tie in self.ties),
            combination=None if self.combination is None else parts(self.combination),
            band=None if self.band is None else parts(self.band),
            lattice=None
            if self.lattice is None
            else Lattice(
                tuple(parts(grid) for grid in self.lattice.grids),
                convert(self.lattice.lower),
                convert(self.lattice.upper),
            ),
        )


def _through(points: Array, name: str) -> Array:
    """Points rounded to what a float type can hold, in their own type again."""
    if is_numpy(points):
        with np.errstate(over="ignore"):
            return points.astype(name).astype(points.dtype)
    import torch

    return points.to(getattr(torch, name)).to(points.dtype)


def layered(
    tied: NDArray[np.int64], source: NDArray[np.int64], scale: NDArray[Any], shift: NDArray[Any]
) -> tuple[Tie, ...]:
    """Ties grouped so that within one no source repeats: the i-th use of a source goes into group i."""
    order = np.argsort(source, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(source[order]) != 0]) if len(source) else np.zeros(0, np.int64)
    lengths = np.diff(np.r_[starts, len(source)])
    rank = np.empty(len(source), np.int64)
    rank[order] = np.arange(len(source)) - np.repeat(starts, lengths)
    groups = [np.flatnonzero(rank == i) for i in range(int(rank.max(initial=-1)) + 1)]
    return tuple(Tie(tied[g], source[g], scale[g], shift[g]) for g in groups)
