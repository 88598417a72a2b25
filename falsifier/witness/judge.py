"""What a search asks about a candidate: whether it ends the search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from falsifier.budget import Budget
from falsifier.witness.confirm import Door
from falsifier.witness.outcome import Rejection, Witness, WitnessClass

HELD_EVALUATIONS = 1000  # spent at least on the search for an `exact` witness once a `correct` one is in hand


class Judge:
    """Asks the door, and keeps the best witness and the nearest miss.

    A `patient` judge does not settle for a witness of class `correct`: it keeps it, tells `held`, and lets the search
    go on for as many evaluations again as it took so far.
    """

    def __init__(self, door: Door, budget: Budget, patient: bool, held: Callable[[Witness], None]) -> None:
        self._door, self._budget, self._patient, self._held = door, budget, patient, held
        self.witness: Witness | None = None
        self.miss: Rejection | None = None

    def __call__(self, point: NDArray[Any]) -> bool:
        """Judge a flat point `[n]`."""
        verdict = self._door.confirm(point)
        if isinstance(verdict, Rejection):
            if self.miss is None or verdict.shortfall < self.miss.shortfall:
                self.miss = verdict
            return False
        if verdict.class_ is WitnessClass.EXACT or not self._patient:
            self.witness = verdict
            return True
        if self.witness is None:
            self.witness = verdict
            self._held(verdict)
            allowance = 2 * self._budget.evaluations + HELD_EVALUATIONS
            cap = self._budget.max_evaluations
            self._budget.max_evaluations = allowance if cap is None else min(cap, allowance)
        return False
