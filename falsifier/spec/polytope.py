"""Nearest points of polytopes in boxes, for many lanes at once, each with rows and a box of its own.

    minimise |z - y|^2 / 2   over   lower <= z <= upper,   low <= rows @ z <= high

by semi-smooth Newton steps on the dual. With a weight w of every row, positive where its lower end pushes, negative
where its upper one does, the nearest point of the box is clip(y + rows^T w, lower, upper); the dual function of w is
concave and its generalised Hessian is rows D rows^T, where D keeps the coordinates that are not clipped. Steps are
damped as in the method of Levenberg and Marquardt, in every lane by as much as they failed before. Rows that neither
push nor are broken take no part in a step. Sources: D. P. Bertsekas, "Projected Newton methods for optimization
problems with simple constraints", SIAM J. Control Optim. 20 (1982); L. Qi, J. Sun, "A nonsmooth version of Newton's
method", Math. Programming 58 (1993).

Axes: b lane, k row, f coordinate, a row that takes part.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.records import record

Floats = NDArray[np.float64]

_MET = 1e-10  # what rows of length 1 may be off
_FIRST_DAMPING, _LEAST_DAMPING = 1e-3, 1e-13
_ALONE = 1 << 18  # multiplications of a product that the library does in one thread
_EASED, _TIGHTENED = 0.05, 20.0  # factors of the damping after a step that rose, and after one that did not


@record
class Slabs:
    """low <= rows @ z <= high: rows `[b, k, f]`, or `[1, k, f]` where all lanes share them, of length 1 or 0; low, high
    `[b, k]`, infinite where a row has no such end.
    """

    rows: Floats
    low: Floats
    high: Floats

    def at(self, lanes: NDArray[Any]) -> Slabs:
        """Those of some lanes."""
        return Slabs(self.rows if len(self.rows) == 1 else self.rows[lanes], self.low[lanes], self.high[lanes])

    def values(self, z: Floats) -> Floats:
        """rows @ z: `[b, f]` to `[b, k]`."""
        if len(self.rows) == 1:
            return np.asarray(z @ self.rows[0].T)
        return np.asarray((self.rows @ z[:, :, None])[:, :, 0])

    def pushed(self, weight: Floats) -> Floats:
        """rows^T @ weight: `[b, k]` to `[b, f]`."""
        if len(self.rows) == 1:
            return np.asarray(weight @ self.rows[0])
        return np.asarray((weight[:, None, :] @ self.rows)[:, 0, :])

    def lack(self, z: Floats) -> Floats:
        """How far rows have to rise, or, where negative, to fall: `[b, f]` to `[b, k]`."""
        value = self.values(z)
        return np.maximum(self.low - value, 0) + np.minimum(self.high - value, 0)


def nearest(
    y: Floats,
    slabs: Slabs,
    lower: Floats,
    upper: Floats,
    enough: Floats | float = 0.0,
    iterations: int = 30,
    hopeless: float = 1.0,
) -> tuple[Floats, Floats]:
    """The nearest points `[b, f]` to `y` `[b, f]`, and the rows' weights `[b, k]` by which they were found.

    lower, upper `[b, f]`; enough `[b, k]`: what rows may lack in the end. Points lie in the box always, in the slabs
    where the steps sufficed and the polytope is not empty. Where it is empty weights grow without end, and the dual
    function beyond half the square of the box's farthest point: then they are those of a combination of rows that holds
    nowhere in the box. Lanes end there, or at `hopeless` times that.
    """
    weight = np.zeros(slabs.low.shape)
    z = np.clip(y, lower, upper)
    damping = np.full(len(y), _FIRST_DAMPING)
    enough = np.broadcast_to(enough, slabs.low.shape) + _MET
    left = np.flatnonzero((np.abs(slabs.lack(z)) > enough).any(axis=1))
    for _ in range(iterations):
        if not left.size:
            break
        part = _Part(y[left], slabs.at(left), lower[left], upper[left], enough[left], hopeless)
        weight[left], z[left], damping[left], done = part.step(weight[left], damping[left])
        left = left[~done]
    return z, weight


class _Part:
    """Some lanes, with what a step needs of them."""

    def __init__(self, y: Floats, slabs: Slabs, lower: Floats, upper: Floats, enough: Floats, hopeless: float) -> None:
        self.y, self.slabs, self.lower, self.upper, self.enough = y, slabs, lower, upper, enough
        farthest = np.maximum(np.abs(y - lower), np.abs(upper - y))
        self.most = hopeless * (0.5 * np.vecdot(farthest, farthest) + _MET)

    def step(self, weight: Floats, damping: Floats) -> tuple[Floats, Floats, Floats, NDArray[np.bool_]]:
        """Weights `[b, k]`, points `[b, f]` and damping `[b]` after a step, and which lanes are at their end."""
        slabs = self.slabs
        free = self.y + slabs.pushed(weight)
        z = np.clip(free, self.lower, self.upper)
        slope = self._slope(z, weight)
        moved = weight + self._newton((free >= self.lower) & (free <= self.upper), weight, slope, damping)
        sign = np.where(weight == 0, np.sign(slope), np.sign(weight))
        moved = np.where(moved * sign > 0, moved, 0.0)
        after = np.clip(self.y + slabs.pushed(moved), self.lower, self.upper)
        before, value = self._dual(z, weight), self._dual(after, moved)
        rose = value >= before
        damping = np.clip(damping * np.where(rose, _EASED, _TIGHTENED), _LEAST_DAMPING, 1e3)
        weight = np.where(rose[:, None], moved, weight)
        z = np.where(rose[:, None], after, z)
        done = np.all(np.abs(self._slope(z, weight)) <= self.enough, axis=1)
        return weight, z, damping, done | (np.maximum(value, before) > self.most)

    def _slope(self, z: Floats, weight: Floats) -> Floats:
        """The gradient of the dual function `[b, k]`: rows that push are met exactly at their end."""
        value = self.slabs.values(z)
        low, high = self.slabs.low - value, self.slabs.high - value
        idle = np.maximum(low, 0) + np.minimum(high, 0)
        return np.where(weight > 0, low, np.where(weight < 0, high, idle))

    def _dual(self, z: Floats, weight: Floats) -> Floats:
        """The dual function `[b]` of weights, whose nearest points are `z`."""
        distance = z - self.y
        value = self.slabs.values(z)
        end = np.where(weight > 0, self.slabs.low, np.where(weight < 0, self.slabs.high, value))
        return np.asarray(0.5 * np.vecdot(distance, distance) + np.vecdot(weight, end - value))

    def _newton(self, moving: NDArray[np.bool_], weight: Floats, slope: Floats, damping: Floats) -> Floats:
        """The Newton step `[b, k]` of rows that push or are broken; `moving` `[b, f]`: coordinates not clipped."""
        active = (weight != 0) | (np.abs(slope) > 0)
        most = int(active.sum(axis=1).max(initial=0))
        order = np.argsort(~active, axis=1, kind="stable")[:, :most]
        part = np.take_along_axis(active, order, axis=1)
        if len(self.slabs.rows) == 1:
            rows = self.slabs.rows[0][order]
        else:
            rows = np.take_along_axis(self.slabs.rows, order[:, :, None], axis=1)
        hessian = _products(rows * moving[:, None, :], rows.transpose(0, 2, 1))
        hessian *= part[:, :, None] & part[:, None, :]
        index = np.arange(most)
        hessian[:, index, index] += np.where(part, damping[:, None], 1.0)
        sought = np.where(part, np.take_along_axis(slope, order, axis=1), 0.0)
        step = np.zeros_like(weight)
        np.put_along_axis(step, order, np.linalg.solve(hessian, sought[:, :, None])[:, :, 0], axis=1)
        return step


def _products(left: Floats, right: Floats) -> Floats:
    """left @ right of every lane, in parts so small that no threads are woken for them."""
    size = max(1, _ALONE // max(1, right.shape[1] * right.shape[2]))
    if size >= left.shape[1]:
        return np.asarray(left @ right)
    return np.concatenate([left[:, at : at + size] @ right for at in range(0, left.shape[1], size)], axis=1)
