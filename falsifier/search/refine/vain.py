"""When a refinement has done enough in vain: it could go on for ever."""

from __future__ import annotations

from falsifier.search.run import Run

_FEWEST = 40_000  # evaluations
_AS_OFTEN = 3  # times the evaluations that it took to the last gain


class Vain:
    """Counts evaluations since the last gain."""

    def __init__(self) -> None:
        self._first: int | None = None  # evaluations when the refinement began
        self._last = 0  # and at its last gain

    def gained(self, run: Run) -> None:
        """Take in that something was gained."""
        self._last = run.budget.evaluations
        run.gained = True

    def enough(self, run: Run) -> bool:
        """Whether what has been done since the last gain is much against what was done before it."""
        now = run.budget.evaluations
        if self._first is None:
            self._first = self._last = now
        return now - self._last > max(_FEWEST, _AS_OFTEN * (self._last - self._first))
