"""Free inputs rounded so that what follows them is exact: with x_2 = x_1 + 100 in float32, x_1 needs the grid of x_2.

Otherwise a sum is rounded, and the equality holds under the published rule at best. How coarse the grid is depends on
the point: every product and partial sum of an expression is a multiple of the last place of the largest number in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, namespace, spacing
from falsifier.records import record

Expression = tuple[dict[int, Fraction], Fraction]  # weights of free inputs, constant

_FEWEST = 2.0**16  # values of an input on its grid
_ROWS = 64  # expressions of several inputs, whose grids are found one after the other


@record
class Grid:
    """Expressions of k inputs each that share none: column `[e, k]` of their inputs, weight, lowest `[e, k]`:
    abs(weight) and its lowest bit; shift `[e]`: abs(constant).
    """

    column: Array
    weight: Array
    lowest: Array
    shift: Array


@record
class Lattice:
    """Grids, and the bounds `[f]` inside which points are kept."""

    grids: tuple[Grid, ...]
    lower: Array
    upper: Array

    def round(self, points: Array) -> Array:
        """Points `[b, f]` moved to the nearest on the grid, or the next towards the inside; as they are where that
        is outside of the bounds.
        """
        xp = namespace(points)
        step = 0 * points
        for grid in self.grids:
            taken = xp.abs(points[:, grid.column.reshape(-1)]).reshape(points.shape[0], *grid.column.shape)
            place = spacing(xp.sum(taken * grid.weight, axis=2) + grid.shift)
            mine = place[:, :, None] / grid.lowest
            for k in range(grid.column.shape[1]):
                step[:, grid.column[:, k]] = xp.maximum(step[:, grid.column[:, k]], mine[:, :, k])
        there = step > 0
        step = xp.where(there, step, step + 1)
        moved = xp.round(points / step) * step
        moved = xp.where(moved > self.upper, moved - step, xp.where(moved < self.lower, moved + step, moved))
        fits = there & (moved >= self.lower) & (moved <= self.upper)
        return xp.where(fits, moved, points)


def lattice(expressions: Sequence[Expression], lower: NDArray[Any], upper: NDArray[Any]) -> Lattice | None:
    """The lattice for inputs that follow free ones, whose bounds are `[f]`; None where none is needed.

    Expressions with a number that the type does not hold have no exact values and are left out, and so are those whose
    grid would leave an input few values.
    """
    dtype = lower.dtype
    usable = [
        (w, c)
        for w, c in expressions
        if (len(w) > 1 or c or _bits(*w.values()) > 1) and _exact(w, c, dtype) and _fine(w, c, lower, upper)
    ]
    singles = [expression for expression in usable if len(expression[0]) == 1]
    several = [expression for expression in usable if len(expression[0]) > 1]
    if not usable or len(several) > _ROWS:
        return None
    layers: list[list[Expression]] = []
    depth: dict[int, int] = {}
    for expression in singles:
        (at,) = expression[0]
        depth[at] = depth.get(at, -1) + 1
        if depth[at] == len(layers):
            layers.append([])
        layers[depth[at]].append(expression)
    return Lattice(tuple(_grid(layer, dtype) for layer in (*layers, *([e] for e in several))), lower, upper)


def _grid(layer: Sequence[Expression], dtype: np.dtype[Any]) -> Grid:
    weights = [[abs(w) for w in expression.values()] for expression, _ in layer]
    return Grid(
        np.array([list(expression) for expression, _ in layer]),
        np.array(weights, dtype),
        np.array([[_lowest_bit(w) for w in row] for row in weights], dtype),
        np.array([abs(constant) for _, constant in layer], dtype),
    )


def _exact(weights: dict[int, Fraction], constant: Fraction, dtype: np.dtype[Any]) -> bool:
    return all(Fraction(float(dtype.type(value))) == value for value in (*weights.values(), constant))


def _fine(weights: dict[int, Fraction], constant: Fraction, lower: NDArray[Any], upper: NDArray[Any]) -> bool:
    """Whether the grid at the far end of the box leaves every input enough values."""
    most = {i: float(max(abs(lower[i]), abs(upper[i]))) for i in weights}
    place = spacing(
        np.array(float(abs(constant)) + sum(abs(float(w)) * most[i] for i, w in weights.items()), lower.dtype)
    )
    return all(float(upper[i]) - float(lower[i]) >= _FEWEST * float(place) / _lowest_bit(w) for i, w in weights.items())


def _bits(weight: Fraction) -> int:
    """How many bits from the highest to the lowest that is set."""
    return (abs(weight) / Fraction(_lowest_bit(weight))).numerator.bit_length()


def _lowest_bit(weight: Fraction) -> float:
    """The lowest bit of a dyadic number; of others something smaller."""
    odd = weight.numerator & -weight.numerator
    return float(Fraction(odd, weight.denominator))
