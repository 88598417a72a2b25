"""What a stage is: a budgeted step of a search."""

from __future__ import annotations

from typing import Protocol

from falsifier.search.run import Run


class Stage(Protocol):
    """A step of a portfolio.

    name: as shown in results. slice: seconds of the pace's clock that its first turn may take; growth: factor from
    turn to turn. What pays with time grows faster than what is soon exhausted, so it gets most of a long search.
    """

    name: str
    slice: float
    growth: float

    def applies(self, run: Run) -> bool:
        """Whether a turn could still help. Cheap; asked before every turn. False for ever ends the stage."""
        ...

    def turn(self, run: Run) -> None:
        """Work until the run is over, `run.until` is reached, or nothing is left to do."""
        ...
