"""Enumeration: every lattice point of a box whose few free inputs look integer-valued, then the points half a step on.

Half of a block goes coarse to fine: what satisfies a query often comes in patches, which a coarse grid meets early. The
other half goes beside the points with the best margins so far, where these differ. The first points go through the
reference one by one: by the time that an engine would be made, many an instance has fallen.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import as_like, to_host
from falsifier.search.pace import Work, work_of
from falsifier.search.run import Run

if TYPE_CHECKING:
    from falsifier.problem import Problem

_DIMENSIONS = 3
_POINTS = 1 << 20  # of a target at most
_BLOCK = 64  # points evaluated at once, at least
_ALONE = 0.2  # seconds of single samples before an engine is asked for: about what making one takes
_FEW = 16  # single samples between two choices of where to go on: as each is a run of its own, choosing often is free
_BLOCKS = 64  # that a target's points are cut into, at most: to choose a block takes a look at all of them


def enumerable(run: Run) -> bool:
    """Whether all free inputs are few and integer-valued."""
    problem = run.problems.single
    return 0 < problem.f <= _DIMENSIONS and bool(run.integer.all()) and problem.t <= 1000


class Enumeration:
    """All integer points of every open target's box, then the points half a step beside them."""

    name = "enumeration"
    growth = 2.0

    def __init__(self, seconds: float = 2.0) -> None:
        self.slice = seconds
        self._left: list[int] | None = None  # targets still to enumerate
        self._lattice: _Lattice | None = None  # of the target at work
        self._until: float | None = None  # reading of the pace up to which samples are single

    def applies(self, run: Run) -> bool:
        """Where there is a lattice to enumerate."""
        if self._left is None:
            self._left = run.ledger.ranked().tolist() if enumerable(run) else []
        return bool(self._left) or self._lattice is not None

    def turn(self, run: Run) -> None:
        """Blocks of lattice points."""
        if self._until is None:
            self._until = run.pace.now() + (_ALONE if run.groups.count == 1 else 0.0)
        while run.going():
            problem = run.problems.single if run.pace.now() < self._until else run.batched
            work = work_of(problem)
            if self._lattice is None:
                if not self._left:
                    return
                self._lattice = self._of(run, problem, self._left.pop(0))
                continue
            lattice = self._lattice
            block = _FEW if work is Work.SINGLE else lattice.block
            size = min(block, run.pace.fits(work, max(min(run.left(), 0.25), 0.0), 16))
            taken = lattice.next(size)
            points = as_like(lattice.points(taken), problem.like, problem.dtype)
            margin = run.evaluate(problem, points, as_like(np.full(len(taken), lattice.aim), problem.like))
            lattice.learn(taken, margin)
            if not lattice.left:
                self._lattice = lattice.beside()

    def _of(self, run: Run, problem: Problem, aim: int) -> _Lattice | None:
        lower, upper = (to_host(a)[0].astype(np.float64) for a in problem.box(as_like(np.array([aim]), problem.like)))
        first, last = np.ceil(lower), np.floor(upper)
        if not 0 < np.prod(np.maximum(last - first + 1, 0)) <= _POINTS:  # counted before any of them is made
            return None
        ticks = [np.arange(a, b + 1) for a, b in zip(first, last, strict=True)]
        rng = run.rng.spawn()
        index = np.stack([g.ravel() for g in np.meshgrid(*(np.arange(t.size) for t in ticks), indexing="ij")], axis=1)
        shift = np.asarray(rng.integers(0, 1 << 20, (problem.f,), np.empty(0)))
        return _Lattice(aim, ticks, upper, np.argsort(coarse_to_fine(index, shift)))


class _Lattice:
    """Which points of a target's lattice are evaluated next. Points are numbered row-major, p of them.

    ticks: the coordinates of each free input; order `[p]`: coarse to fine; promise `[p]`: the best margin beside a
    point, -infinity where nothing there was evaluated.
    """

    def __init__(
        self,
        aim: int,
        ticks: list[NDArray[np.float64]],
        upper: NDArray[np.float64],
        order: NDArray[np.int64],
        promise: NDArray[np.float64] | None = None,
    ) -> None:
        self.aim, self._ticks, self._upper, self._order = aim, ticks, upper, order
        self._counts = tuple(t.size for t in ticks)
        self.left, self.block = order.size, max(_BLOCK, order.size // _BLOCKS)
        self._waiting = order
        self._margin = np.full(order.size, -np.inf)
        self._whole = promise is None
        self._promise = np.full(order.size, -np.inf) if promise is None else promise
        self._least = np.inf if promise is None else float(promise.min())

    def next(self, size: int) -> NDArray[np.int64]:
        """Numbers `[b]` of up to `size` points, each given once."""
        waiting = self._waiting
        promise = self._promise[waiting]
        good = np.flatnonzero(promise > self._least)
        if good.size > size // 2:
            good = good[np.argpartition(-promise[good], size // 2)[: size // 2]]
        chosen = np.zeros(waiting.size, np.bool_)
        chosen[good] = True
        chosen[np.flatnonzero(~chosen)[: size - good.size]] = True
        taken, self._waiting = waiting[chosen], waiting[~chosen]
        self.left = self._waiting.size
        return taken

    def points(self, taken: NDArray[np.int64]) -> NDArray[np.float64]:
        """The points `[b, f]` of some numbers `[b]`."""
        places = np.unravel_index(taken, self._counts)
        return np.stack([t[i] for t, i in zip(self._ticks, places, strict=True)], axis=1)

    def learn(self, taken: NDArray[np.int64], margin: NDArray[np.float64]) -> None:
        """Take in the margins `[b]` of evaluated points."""
        self._margin[taken] = margin
        self._least = min(self._least, float(margin.min()))
        place = np.stack(np.unravel_index(taken, self._counts), axis=1)
        for offset in product((-1, 0, 1), repeat=len(self._ticks)):
            at = place + np.array(offset)
            inside = ((at >= 0) & (at < self._counts)).all(axis=1)
            np.maximum.at(self._promise, np.ravel_multi_index(tuple(at[inside].T), self._counts), margin[inside])

    def beside(self) -> _Lattice | None:
        """The points half a step on, once these are done; None after those."""
        if not self._whole:
            return None
        ticks = [np.minimum(t + 0.5, end) for t, end in zip(self._ticks, self._upper, strict=True)]
        return _Lattice(self.aim, ticks, self._upper, self._order, self._margin)


def coarse_to_fine(index: NDArray[np.int64], shift: NDArray[np.int64]) -> NDArray[np.int64]:
    """Keys `[p]` by which sorted lattice points `[p, f]` fill ever finer grids, the coarsest through `-shift`.

    The bits of all coordinates interleaved, lowest first: multiples of 2^j come before everything else. The ends of a
    coordinate, where many an optimum lies, belong to every grid.
    """
    dimensions = index.shape[1]
    bits = 62 // dimensions if dimensions > 3 else 20
    moved = np.where((index == 0) | (index == index.max(axis=0)), 0, index + shift)
    key = np.zeros(len(index), dtype=np.int64)
    for bit in range(bits):  # over the bits of a coordinate
        for d in range(dimensions):
            key = 2 * key + ((moved[:, d] >> bit) & 1)
    return key
