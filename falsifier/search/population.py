"""Population: lanes that persist over rounds, and how they are dealt to targets, mated, accepted and replaced."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, as_like, namespace

_WARMTH = 0.1  # temperature, in the distance from a target's mean margin to its best
_REPLACED = 0.05  # share of a target's lanes that give way to copies of its best ones


@dataclass
class Population:
    """target `[b]` and margin `[b]` on the host, points x `[b, f]`. Lanes of one target stand together, sorted."""

    target: NDArray[np.int64]
    margin: NDArray[np.float64]
    x: Array

    def dealt(self, target: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """For a sorted list of targets `[c]`: which lane of this population each takes over, and whether there is one.

        The best lanes of a target are taken first.
        """
        order = np.lexsort((-self.margin, self.target))
        mine, wanted = _ranked(self.target[order]), _ranked(target)
        position = np.searchsorted(mine, wanted)
        inside = np.minimum(position, max(0, mine.size - 1))
        has = (mine[inside] == wanted) if mine.size else np.zeros(target.size, dtype=bool)
        return (order[inside] if mine.size else np.zeros(target.size, dtype=np.int64)), has

    def partners(self, draw: NDArray[np.float64]) -> NDArray[np.int64]:
        """A random lane of the same target for each lane; draw `[b]` is uniform in [0, 1)."""
        first = np.searchsorted(self.target, self.target, side="left")
        last = np.searchsorted(self.target, self.target, side="right")
        return np.asarray(first + np.floor(draw * (last - first)), dtype=np.int64)

    def accept(self, x: Array, margin: NDArray[np.float64], draw: NDArray[np.float64]) -> None:
        """Take over new points that are no worse, and worse ones with a probability that falls with the loss."""
        finite = np.where(np.isfinite(self.margin), self.margin, 0.0)
        _, group = np.unique(self.target, return_inverse=True)
        count = np.bincount(group)
        mean = np.bincount(group, finite) / count
        best = np.full(count.size, -np.inf)
        np.maximum.at(best, group, finite)
        warmth = _WARMTH * (best - mean)[group] + 1e-30
        with np.errstate(invalid="ignore", over="ignore"):
            chance = np.exp(np.minimum((margin - self.margin) / warmth, 0.0))
        taken = (margin >= self.margin) | (draw < np.nan_to_num(chance, nan=0.0))
        self.x = namespace(x).where(as_like(taken, x)[:, None], x, self.x)
        self.margin = np.where(taken, margin, self.margin)

    def renew(self) -> None:
        """The worst lanes of each target become copies of its best."""
        order = np.lexsort((self.margin, self.target))
        sorted_target = self.target[order]
        first = np.searchsorted(sorted_target, sorted_target, side="left")
        last = np.searchsorted(sorted_target, sorted_target, side="right")
        rank = np.arange(order.size) - first
        size = last - first
        worst = rank < np.floor(_REPLACED * size + 0.5)
        source = np.arange(order.size)
        source[worst] = last[worst] - 1 - rank[worst]
        replaced = np.arange(order.size)
        replaced[order] = order[source]
        self.x = self.x[as_like(replaced, self.x)]
        self.margin = self.margin[replaced]


def _ranked(target: NDArray[np.int64]) -> NDArray[np.int64]:
    """Keys of a sorted list of targets: equal iff target and position within the target are."""
    first = np.searchsorted(target, target, side="left")
    return np.asarray(target * (1 << 32) + np.arange(target.size) - first, dtype=np.int64)
