"""Given: points that are known before the search begins, such as the near-misses of an earlier one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import as_like
from falsifier.search.run import Run


class Given:
    """Points `[b, f]` over the free inputs, each for its target `[b]`, evaluated once, moved into the boxes first."""

    name = "given"
    growth = 1.0

    def __init__(self, points: NDArray[Any], target: NDArray[np.int64], seconds: float = 0.2) -> None:
        self.slice = seconds
        self._points, self._target = points, target
        self._done = False

    def applies(self, run: Run) -> bool:
        """Once, where there are points."""
        return not self._done and self._target.size > 0

    def turn(self, run: Run) -> None:
        """Evaluate them, the first ones first."""
        self._done = True
        problem = run.batched
        many = max(0, min(self._target.size, run.room()))
        target = as_like(self._target[:many], problem.like)
        lower, upper = problem.box(target)
        points = as_like(self._points[:many], problem.like, problem.dtype)
        run.evaluate(problem, problem.xp.clip(points, lower, upper), target)
