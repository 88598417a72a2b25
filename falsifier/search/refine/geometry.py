"""Distances from a point, and the nearest points of boxes, balls and half-spaces.

Axes: b lane, f free input, n flat input.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, as_like, clip_into, full, is_numpy, namespace, numpy_dtype, to_float64

if TYPE_CHECKING:
    from falsifier.problem import Problem

_ROUNDING = 2.0  # units in the last place of what is needed, that may be lacking
_NEWTON = 40  # steps to the edge of a half-space; each passes at least one side of the box


@dataclass(frozen=True)
class Metric:
    """The distance, `linf` or `l2`, from a point `[n]` over all inputs."""

    reference: NDArray[np.float64]
    norm: str

    def of_full(self, point: NDArray[np.float64]) -> float:
        """Of one full point `[n]`."""
        return float(self._reduced(np.asarray(point, np.float64)[None] - self.reference)[0])

    def rounding(self, problem: Problem) -> float:
        """A distance that no other point of the networks' type need be nearer than."""
        return float(np.finfo(problem.dtype).eps) * self.of_full(0 * self.reference)

    def of_lanes(self, problem: Problem, points: Array) -> NDArray[np.float64]:
        """Of points `[b, f]`: `[b]` on the host, of what the networks would see."""
        there = as_like(self.reference, problem.like, problem.dtype)
        return to_float64(self._reduced(problem.embed(points) - there))

    def _reduced(self, difference: Array) -> Array:
        xp = namespace(difference)
        if self.norm == "linf":
            return xp.max(xp.abs(difference), axis=1)
        return xp.sum(difference * difference, axis=1) ** 0.5

    def free(self, problem: Problem) -> Array:
        """The free part of the reference `[1, f]`."""
        return problem.domain.restrict(as_like(self.reference[None], problem.like, problem.dtype))


@dataclass(frozen=True)
class Ball:
    """Points no farther (l2) than radius `[b, 1]` from a centre `[1, f]`."""

    centre: Array
    radius: Array

    def stepped(self, x: Array, gradient: Array, alpha: Array, lower: Array, upper: Array) -> Array:
        """Points `[b, f]` moved by alpha `[b, 1]` radii along a gradient, and back into ball and box."""
        xp = namespace(x)
        size = xp.sum(gradient * gradient, axis=1)[:, None] ** 0.5
        usable = xp.isfinite(size) & (size > 0)
        step = xp.where(usable, gradient, 0 * gradient) / xp.where(usable, size, 1 + 0 * x[:, :1])
        return self.inside(x + alpha * self.radius * step, lower, upper)

    def inside(self, x: Array, lower: Array, upper: Array) -> Array:
        """Points `[b, f]` moved towards the centre into the ball, and into the box."""
        xp = namespace(x)
        away = x - self.centre
        size = xp.sum(away * away, axis=1)[:, None] ** 0.5
        shrunk = xp.where(size > self.radius, self.radius / xp.where(size > 0, size, size + 1), 0 * size + 1)
        return clip_into(self.centre + away * shrunk, lower, upper)


def nearest_in_half_space(base: Array, gradient: Array, need: Array, lower: Array, upper: Array, norm: str) -> Array:
    """The points of boxes `[b, f]` nearest to base `[b, f]` with gradient . x >= need `[b]`; where the half-space
    misses the box, a corner.

    They lie on clip(base + t * direction), the direction being the gradient for l2 and its signs for linf: Newton's
    method in t, from below.
    """
    xp = namespace(gradient)
    direction = xp.sign(gradient) if norm == "linf" else gradient
    t = full((gradient.shape[0], 1), 0.0, gradient)
    x = clip_into(base + t * direction, lower, upper)
    rounding = _ROUNDING * float(np.finfo(numpy_dtype(x)).eps)
    for _ in range(_NEWTON):
        lack = need - xp.vecdot(gradient, x)
        lack = lack - rounding * xp.abs(need)
        inside = ((direction > 0) & (x < upper)) | ((direction < 0) & (x > lower))
        slope = xp.vecdot(xp.where(inside, gradient, 0 * gradient), direction)
        going = (lack > 0) & (slope > 0)
        if is_numpy(going) and not going.any():
            break
        t = t + xp.where(going, lack / xp.where(going, slope, slope + 1), 0 * lack)[:, None]
        x = clip_into(base + t * direction, lower, upper)
    return x
