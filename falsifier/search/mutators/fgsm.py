"""The fast gradient sign method: one step of `pgd` (paper A, 8)."""

from __future__ import annotations

from dataclasses import dataclass

from falsifier.search.mutators.pgd import Pgd


@dataclass(frozen=True)
class Fgsm(Pgd):
    """One step of 2 * eta from a random point near the parent."""

    slopes: int = 1
    name: str = "fgsm"
