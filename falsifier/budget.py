"""How long a search may go on: a deadline on an injected monotonic clock and a cap on evaluations."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Budget:
    """Time and evaluations left. One evaluation is one forward pass of one sample.

    `deadline` is a reading of `clock` in seconds (infinity: none), `max_evaluations` a count (None: no cap).
    """

    deadline: float = math.inf
    max_evaluations: int | None = None
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    evaluations: int = 0

    @classmethod
    def of_seconds(cls, seconds: float, max_evaluations: int | None = None) -> Budget:
        """A budget that ends `seconds` from now."""
        return cls(time.monotonic() + seconds, max_evaluations)

    def remaining(self) -> float:
        """Seconds until the deadline (negative after it)."""
        return self.deadline - self.clock()

    def evaluations_left(self) -> float:
        """Evaluations until the cap (infinity without one)."""
        return math.inf if self.max_evaluations is None else self.max_evaluations - self.evaluations

    def charge(self, evaluations: int) -> None:
        """Count evaluations that were made."""
        self.evaluations += evaluations

    def exhausted(self) -> bool:
        """Whether nothing is left."""
        return self.evaluations_left() <= 0 or self.remaining() <= 0
