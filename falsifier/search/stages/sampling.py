"""Sampling: many points in large batches: uniform, corners, mixtures, low-discrepancy points in few dimensions, and the
integer lattice where inputs are integer-valued."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, Rng, as_like, to_host
from falsifier.search.allocation import spread
from falsifier.search.pace import screening, work_of
from falsifier.search.run import Run
from falsifier.search.starts import kronecker, lattice, mixed, place, uniform, vertices

if TYPE_CHECKING:
    from falsifier.problem import Problem

_EVEN_DIMENSIONS = 12  # up to here low-discrepancy points are more even than random ones
_BLOCK = 1 << 22  # numbers drawn at once


class Sampling:
    """Blocks of points of several kinds in turn, every block judged against all targets that share its box."""

    name = "sampling"
    growth = 1.5

    def __init__(self, seconds: float = 0.15) -> None:
        self.slice = seconds
        self._block = 0
        self._even = 0
        self._shift: NDArray[np.float64] | None = None

    def applies(self, run: Run) -> bool:
        """Always: density grows with time."""
        return True

    def turn(self, run: Run) -> None:
        """Blocks that double in size, until the time is up."""
        problem = run.batched
        work = screening(problem) if problem.shared_box else work_of(problem)
        size = 256 * run.width
        while run.going(1):
            most = max(1, _BLOCK // problem.f)
            fits = run.pace.fits(work, max(run.left(), 0.0), 256)
            size = max(1, min(size, most, fits, run.room()))
            self.block(run, problem, size)
            size *= 4

    def block(self, run: Run, problem: Problem, size: int) -> None:
        """One block of `size` points."""
        rng = run.rng.spawn()
        unit = self._draw(rng, problem, size)
        self._block += 1
        target = as_like(spread(run, size), problem.like)
        lower, upper = problem.box(target)
        points = place(unit, lower, upper)
        if self._block % 2 == 0 and run.integer.any():
            points = lattice(points, lower, upper, as_like(run.integer, problem.like))
        if problem.shared_box:
            run.screen(problem, points)
        elif problem.targets.box is not None:
            run.screen_boxes(problem, points, to_host(problem.targets.box[target]))
        else:
            run.evaluate(problem, points, target)

    def _draw(self, rng: Rng, problem: Problem, size: int) -> Array:
        kind = self._block % 4
        if problem.f <= _EVEN_DIMENSIONS and kind != 1:
            if self._shift is None:
                self._shift = np.random.default_rng(int(rng.integers(0, 2**62, (1,), np.empty(0))[0])).random(problem.f)
            self._even += size
            return as_like(
                kronecker(self._even - size, size, problem.f, self._shift, problem.dtype), problem.like, problem.dtype
            )
        draw = (uniform, vertices, mixed, uniform)[kind]
        return draw(rng, size, problem.f, problem.like)
