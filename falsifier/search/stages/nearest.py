"""Nearest: the same search in boxes whose bounds are rounded to the nearest representable values instead of inwards.

Only where nothing was found inside: such witnesses satisfy the published rule but may lie outside a bound as written.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from falsifier.arrays import as_like, namespace, to_host
from falsifier.search.ledger import Ledger
from falsifier.search.pace import work_of
from falsifier.search.run import Run, integer_valued
from falsifier.search.stage import Stage

_PUSHED = 64  # targets whose best points are pushed


class Nearest:
    """The targets' best points pushed onto the wider bounds, then a portfolio of its own in the wider boxes."""

    name = "nearest"
    growth = 1.3

    def __init__(self, seconds: float = 0.05) -> None:
        self.slice = seconds
        self._stages: list[Stage] | None = None
        self._ledger: Ledger | None = None  # of the wider boxes, where they have other free inputs

    def applies(self, run: Run) -> bool:
        """Where the nearest-rounded boxes differ."""
        return run.problems.nearest is not None

    def turn(self, run: Run) -> None:
        """Push the best points outwards, then search, once the boxes themselves have been searched a while."""
        from falsifier.search.portfolio import standard  # the stages of the portfolio, this one left out

        source = run.problems.nearest
        if source is None:
            return
        inner, outer = run.problems.single, source.single
        alike = np.array_equal(to_host(inner.domain.free), to_host(outer.domain.free))
        aims = run.ledger.ranked()[:_PUSHED]
        known, best = run.ledger.known(aims)
        if best is not None and known.any() and alike:
            aims, points = aims[known], as_like(best[known], outer.like, outer.dtype)
            target = as_like(aims, outer.like)
            lower, upper = inner.box(target)
            wide_lower, wide_upper = outer.box(target)
            xp = namespace(points)
            pushed = xp.where(points <= lower, wide_lower, xp.where(points >= upper, wide_upper, points))
            moved = to_host(pushed)
            if run.holds(len({point.tobytes() for point in moved}), work_of(outer)):
                run.revalue(outer, moved, aims)
        if run.passes < 1:
            return
        if self._stages is None:
            self._stages = [stage for stage in standard() if stage.name not in (self.name, "probe")]
        inside = replace(run, problems=source)
        if (
            not alike
        ):  # bounds that hold one value inwards hold two when rounded: points of the one are none of the other
            if self._ledger is None:
                self._ledger = Ledger(outer.t, outer.f)
                self._ledger.open = run.ledger.open
            inside.ledger, inside.integer = self._ledger, integer_valued(outer)
        for stage in self._stages:
            inside.stage = f"{self.name}/{stage.name}"
            if not inside.over() and stage.applies(inside):
                now = run.pace.now()
                inside.until = now + (run.until - now) / 3
                stage.turn(inside)
        run.dealt, run.rounds, run.lanes = inside.dealt, inside.rounds, inside.lanes
