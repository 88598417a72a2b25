"""Starts in regions: where what is asked of inputs alone leaves little of the box, points drawn in the box and moved
into the region gather in few places of it.

A third of the lanes is therefore moved on, far in random directions: towards faces and vertices. Another third is moved
back, a part of the way to the region's centre.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from falsifier.arrays import Array, Rng, arange, as_like, copy_where, namespace, to_host

if TYPE_CHECKING:
    from falsifier.problem import Problem

_MOVES = 2  # far ones, of a lane


def scattered(rng: Rng, problem: Problem, points: Array, target: Array) -> Array:
    """Points `[b, f]` in the boxes of their targets `[b]`, moved into their regions; the same where there are none."""
    if problem.region is None:
        return points
    xp = namespace(points)
    x = problem.settled(points, target)
    lanes, f = x.shape
    kind = arange(lanes, x)[:, None] % 3
    lower, upper = problem.box(target)
    for _ in range(_MOVES):
        far = xp.clip(x + (upper - lower) * rng.normal((lanes, f), x), lower, upper)
        x = copy_where(kind == 1, problem.settled(far, target), x)
    centre = problem.region.centres(to_host(target))
    columns = as_like(problem.region.columns, x)
    back = x + 0 * x
    back[:, columns] += rng.uniform((lanes, 1), x) * (as_like(centre, x, problem.dtype) - x[:, columns])
    known = xp.isfinite(xp.sum(back, axis=1))[:, None]
    return copy_where((kind == 2) & known, problem.settled(xp.clip(xp.where(known, back, x), lower, upper), target), x)
