"""Population: lanes that persist over rounds, and how they are dealt to targets, mated, accepted and replaced.

The lanes of a target are cut into islands that do not mix: one island's premature agreement on a local optimum leaves
the others alone. An island that has not gained for a while starts anew; how long that while is follows Luby's sequence
1 1 2 1 1 2 4 ..., which is within a constant of the best restart policy whatever the unknown distribution of run times.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, as_like, namespace

_ISLAND = 128  # lanes
_WARMTH = 0.1  # temperature, in the distance from an island's mean margin to its best
_REPLACED = 0.05  # share of an island's lanes that give way to copies of its best ones
_PATIENCE = 8  # rounds without gain, times Luby's number, before an island starts anew
_GAIN = 0.02  # of a margin: what counts as a gain


@dataclass
class Island:
    """What an island remembers: its best margin, the rounds since that rose, and how often it started anew."""

    best: float = -np.inf
    age: int = 0
    restarts: int = 0

    def note(self, best: float) -> bool:
        """Take in the best margin after a round; True where the island should start anew."""
        if best > self.best + _GAIN * abs(self.best) or not np.isfinite(self.best):
            self.best, self.age = best, 0
            return False
        self.age += 1
        if self.age < _PATIENCE * luby(self.restarts + 1):
            return False
        self.best, self.age = -np.inf, 0
        self.restarts += 1
        return True


def luby(i: int) -> int:
    """The i-th number of Luby's sequence, from 1."""
    k = i.bit_length()
    return 1 << (k - 1) if (1 << k) - 1 == i else luby(i - (1 << (k - 1)) + 1)


@dataclass
class Population:
    """target `[b]` and margin `[b]` on the host, points x `[b, f]`. Lanes of one target stand together, sorted.

    A margin of -infinity marks a lane that starts anew.
    """

    target: NDArray[np.int64]
    margin: NDArray[np.float64]
    x: Array
    islands: dict[int, Island] = field(default_factory=dict)

    @property
    def group(self) -> NDArray[np.int64]:
        """A number for each lane's island `[b]`, ascending."""
        return np.asarray((self.target << 16) + _rank(self.target) // _ISLAND, dtype=np.int64)

    @property
    def exploring(self) -> NDArray[np.bool_]:
        """Lanes `[b]` of islands that look far: every other one, and each changes its manner when it starts anew."""
        group = self.group
        keys, inverse = np.unique(group, return_inverse=True)
        restarts = np.array([self.islands[k].restarts if k in self.islands else 0 for k in keys.tolist()])
        return np.asarray(((keys & 0xFFFF) + restarts) % 2 == 1)[inverse]

    def dealt(self, target: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """For a sorted list of targets `[c]`: which lane of this population each takes over, and whether there is one.

        Within an island the best lanes are taken first.
        """
        if self.target.size == 0:
            return np.zeros(target.size, dtype=np.int64), np.zeros(target.size, dtype=bool)
        order = np.lexsort((-self.margin, self.group))
        mine, wanted = (_key(t) for t in (self.target, target))
        position = np.minimum(np.searchsorted(mine, wanted), mine.size - 1)
        source = order[position]
        return source, (mine[position] == wanted) & np.isfinite(self.margin[source])

    def partners(self, draw: NDArray[np.float64]) -> NDArray[np.int64]:
        """A random lane of the same island for each lane; draw `[b]` is uniform in [0, 1)."""
        first, last = _ends(self.group)
        return np.asarray(first + np.floor(draw * (last - first)), dtype=np.int64)

    def accept(self, x: Array, margin: NDArray[np.float64], draw: NDArray[np.float64]) -> None:
        """Take over new points that are no worse, and worse ones with a probability that falls with the loss."""
        group = np.unique(self.group, return_inverse=True)[1]
        finite = np.isfinite(self.margin)
        value = np.where(finite, self.margin, 0.0)
        mean = np.bincount(group, value) / np.maximum(np.bincount(group, finite), 1)
        best = np.full(mean.size, -np.inf)
        np.maximum.at(best, group, np.where(finite, self.margin, -np.inf))
        spread = np.where(np.isfinite(best), best - mean, 0.0)
        warmth = _WARMTH * spread[group] + 1e-30
        loss = np.where(finite & np.isfinite(margin), value - np.where(np.isfinite(margin), margin, 0.0), np.inf)
        chance = np.exp(-np.minimum(np.maximum(loss, 0.0) / warmth, 700.0))
        taken = (margin >= self.margin) | (draw < chance)
        self.x = namespace(x).where(as_like(taken, x)[:, None], x, self.x)
        self.margin = np.where(taken, margin, self.margin)

    def renew(self) -> None:
        """The worst lanes of each island become copies of its best; islands without gain start anew."""
        group = self.group
        order = np.lexsort((self.margin, group))
        first, last = _ends(group)
        rank, size = np.arange(order.size) - first, last - first
        worst = rank < np.floor(_REPLACED * size + 0.5)
        source = np.where(worst, last - 1 - rank, np.arange(order.size))
        replaced = np.arange(order.size)
        replaced[order] = order[source]
        self.x = self.x[as_like(replaced, self.x)]
        self.margin = self.margin[replaced]
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        best = np.maximum.reduceat(self.margin, starts)
        for key, value, begin, end in zip(group[starts], best, first[starts], last[starts], strict=True):
            if self.islands.setdefault(int(key), Island()).note(float(value)):
                self.margin[begin:end] = -np.inf


def _rank(group: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions within runs of equal numbers of a sorted list."""
    return np.asarray(np.arange(group.size) - np.searchsorted(group, group, side="left"), dtype=np.int64)


def _ends(group: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and past-the-last positions of each element's run in a sorted list."""
    left, right = (np.searchsorted(group, group, side=side) for side in ("left", "right"))
    return np.asarray(left, dtype=np.int64), np.asarray(right, dtype=np.int64)


def _key(target: NDArray[np.int64]) -> NDArray[np.int64]:
    """Keys of a sorted list of targets: equal iff target and position within the target are."""
    return np.asarray((target << 32) + _rank(target), dtype=np.int64)
