"""Enumeration: every lattice point of a box whose few free inputs look integer-valued, then the points half a step on.

Coarse to fine: what satisfies a query often comes in patches, which a coarse grid meets early.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import as_like, to_host
from falsifier.search.pace import work_of
from falsifier.search.run import Run

if TYPE_CHECKING:
    from falsifier.problem import Problem

_DIMENSIONS = 3
_POINTS = 1 << 20  # of a target at most
_BLOCK = 1024  # points evaluated at once


class Enumeration:
    """All integer points of every open target's box, then the points half a step beside them."""

    name = "enumeration"
    growth = 2.0

    def __init__(self, seconds: float = 2.0) -> None:
        self.slice = seconds
        self._left: list[int] | None = None  # targets still to enumerate
        self._points = np.zeros((0, 0))  # of the target at work, those not yet evaluated
        self._aim = 0

    def applies(self, run: Run) -> bool:
        """Where all free inputs are few and integer-valued."""
        problem = run.problems.single
        if self._left is None:
            possible = 0 < problem.f <= _DIMENSIONS and bool(run.integer.all()) and problem.t <= 1000
            self._left = run.ledger.ranked().tolist() if possible else []
        return bool(self._left) or len(self._points) > 0

    def turn(self, run: Run) -> None:
        """Blocks of lattice points."""
        problem = run.batched
        work = work_of(problem)
        while run.going():
            if not len(self._points):
                if not self._left:
                    return
                self._aim = self._left.pop(0)
                self._points = self._lattice(run, problem, self._aim)
                continue
            size = min(_BLOCK, run.pace.fits(work, max(min(run.left(), 0.25), 0.0), 16), len(self._points))
            part, self._points = self._points[:size], self._points[size:]
            points = as_like(part, problem.like, problem.dtype)
            run.evaluate(problem, points, as_like(np.full(size, self._aim), problem.like))

    def _lattice(self, run: Run, problem: Problem, aim: int) -> NDArray[np.float64]:
        lower, upper = (to_host(a)[0].astype(np.float64) for a in problem.box(as_like(np.array([aim]), problem.like)))
        first, last = np.ceil(lower), np.floor(upper)
        if not np.prod(np.maximum(last - first + 1, 0)) <= _POINTS:  # counted before any of them is made
            return np.zeros((0, problem.f))
        ticks = [np.arange(a, b + 1) for a, b in zip(first, last, strict=True)]
        rng = run.rng.spawn()
        counts = np.array([t.size for t in ticks])
        index = np.stack([g.ravel() for g in np.meshgrid(*map(np.arange, counts), indexing="ij")], axis=1)
        order = np.argsort(coarse_to_fine(index, np.asarray(rng.integers(0, 1 << 20, (problem.f,), np.empty(0)))))
        whole = np.stack([t[i] for t, i in zip(ticks, index[order].T, strict=True)], axis=1)
        return np.concatenate([whole, np.minimum(whole + 0.5, upper)])


def coarse_to_fine(index: NDArray[np.int64], shift: NDArray[np.int64]) -> NDArray[np.int64]:
    """Keys `[p]` by which sorted lattice points `[p, f]` fill ever finer grids, the coarsest through `-shift`.

    The bits of all coordinates interleaved, lowest first: multiples of 2^j come before everything else.
    """
    dimensions = index.shape[1]
    bits = 62 // dimensions if dimensions > 3 else 20
    moved = index + shift
    key = np.zeros(len(index), dtype=np.int64)
    for bit in range(bits):  # over the bits of a coordinate
        for d in range(dimensions):
            key = 2 * key + ((moved[:, d] >> bit) & 1)
    return key
