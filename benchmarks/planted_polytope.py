"""A convex part of a box, and what a network's first output reaches at its vertices: for `planted_regions.py`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from planted_v2 import Floats, Net

WALKS, SHARE = 24, 0.01  # walks to vertices; of the way from the best back to the median: what is asked
_NEAR = 1e-9


class Polytope:
    """rows `[k, n]` @ x >= floors `[k]`, the box among them; inside `[n]`: a point of it."""

    def __init__(self, rows: Floats, floors: Floats, low: Floats, high: Floats, inside: Floats) -> None:
        n = len(low)
        self.rows = np.concatenate([rows, np.eye(n), -np.eye(n)])
        self.floors = np.concatenate([floors, low, -high])
        self.inside = inside

    def vertex(self, rng: np.random.Generator, rise: Callable[[Floats], Floats]) -> Floats:
        """A vertex: from inside along `rise` and some noise to the next face, and on within the faces met so far."""
        x, n = self.inside.copy(), len(self.inside)
        met: list[int] = []
        basis = np.zeros((0, n))
        for _ in range(n):
            slope = rise(x)
            direction = slope + 0.3 * np.abs(slope).mean() * rng.normal(size=n) + 1e-9 * rng.normal(size=n)
            direction -= basis.T @ (basis @ direction)
            if np.linalg.norm(direction) < _NEAR:
                break
            direction /= np.linalg.norm(direction)
            along = self.rows @ direction
            room = self.rows @ x - self.floors
            steps = np.where(along < -_NEAR, np.maximum(room, 0) / np.where(along < -_NEAR, -along, 1), np.inf)
            steps[met] = np.inf
            face = int(np.argmin(steps))
            x = x + steps[face] * direction
            met.append(face)
            normal = self.rows[face] - basis.T @ (basis @ self.rows[face])
            if np.linalg.norm(normal) > _NEAR:
                basis = np.vstack([basis, normal / np.linalg.norm(normal)])
        return x


def slope(net: Net, x: Floats) -> Floats:
    """The gradient of the first output."""
    h, seen = x, []
    for weight, bias in zip(net.weights[:-1], net.biases[:-1], strict=True):
        z = h @ weight.astype(np.float64) + bias
        seen.append(z > 0)
        h = np.maximum(z, 0)
    back = net.weights[-1][:, 0].astype(np.float64)
    for weight, on in zip(reversed(net.weights[:-1]), reversed(seen), strict=True):
        back = weight.astype(np.float64) @ (back * on)
    return back


def asked(net: Net, points: Floats) -> float:
    """What the first output must reach: nearly the best of some points of the region."""
    values = net(points)[1][:, 0]
    return float(values.max() - SHARE * (values.max() - np.median(values)) - 1e-4)


def best_of(rng: np.random.Generator, net: Net, polytope: Polytope) -> float:
    """What the first output must reach, over vertices and points a little towards the inside."""
    x = np.stack([polytope.vertex(rng, lambda x: slope(net, x)) for _ in range(WALKS)])
    return asked(net, polytope.inside + 0.999 * (x - polytope.inside))
