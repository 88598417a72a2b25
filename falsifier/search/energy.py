"""Energy: the weight of an entry in the draw, and how it changes with what mutation brings.

An energy is given to children when they enter, and to parents after their children were evaluated. Another one is a
class with the two methods of `Energy`, put into a `Recipe`.

Axes: b lane.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from falsifier.arrays import Array, as_wide, namespace


@dataclass(frozen=True)
class News:
    """What a step's children `[b]` brought: novel (coverage grew, bool), violated (margin >= 0, bool), gain (margin
    over the parent's; NaN where either is not finite), record (bool: the best margin of its group so far)."""

    novel: Array
    violated: Array
    gain: Array
    record: Array


class Energy(Protocol):
    """Energies are float64 `[b]`, never negative; 0 means: drawn no more."""

    def of_children(self, news: News) -> Array:
        """The energies that children enter with."""
        ...

    def of_parents(self, energy: Array, children: Array) -> Array:
        """New energies of the drawn entries, from those they had and from their children's."""
        ...


@dataclass(frozen=True)
class PaperEnergy:
    """Paper A, 19: e = max(coverage * q + violation * v, least). A parent has what its last children brought, so
    that one whose children bring nothing falls to `least`."""

    coverage: float = 10.0
    violation: float = 100.0
    least: float = 0.1

    def of_children(self, news: News) -> Array:
        xp = namespace(news.novel)
        earned = self.coverage * as_wide(news.novel) + self.violation * as_wide(news.violated)
        return xp.clip(earned, self.least, None)

    def of_parents(self, energy: Array, children: Array) -> Array:
        return children


@dataclass(frozen=True)
class DecayingEnergy:
    """Ours: a new best margin of the group counts most, then a gain over the parent, then coverage. A parent keeps
    `decay` of its energy with every draw that brings nothing, down to `least`, and shares what its children earn."""

    record: float = 30.0
    gain: float = 3.0
    coverage: float = 1.0
    decay: float = 0.7
    least: float = 0.05

    def of_children(self, news: News) -> Array:
        xp = namespace(news.novel)
        earned = self.record * as_wide(news.record | news.violated) + self.gain * as_wide(news.gain > 0)
        return xp.clip(earned + self.coverage * as_wide(news.novel), self.least, None)

    def of_parents(self, energy: Array, children: Array) -> Array:
        xp = namespace(energy)
        kept = xp.clip(energy * self.decay, self.least, None)
        return xp.where(energy > 0, xp.maximum(kept, 0.5 * children), energy)
