"""Candidates of the loop become hits: replayed on the original, deduplicated by cause, made small, saved."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from falsifier.fuzz.hit import Hit, folder_name, write_hit
from falsifier.fuzz.minimise import Minimiser
from falsifier.fuzz.objectives import Objective
from falsifier.fuzz.space import Space

Array = NDArray[Any]

REPLAYS = 10  # source paper B6


class Findings:
    """Hits by cause.

    `evaluations` says how many there were when a hit is found; `hurry`, whether there is no time to make it small.
    `hits`: stable or not, by cause. `known`: records of earlier runs by cause, which are not reported again. `refused`:
    how many candidates the original does not confirm, not even once.
    """

    def __init__(
        self,
        objective: Objective,
        space: Space,
        root: Path | None,
        evaluations: Callable[[], int],
        *,
        replays: int = REPLAYS,
        tries: int = 2000,
        minimise: bool = True,
        settings: dict[str, Any] | None = None,
        told: Callable[[Hit], None] = lambda hit: None,
        hurry: Callable[[], bool] = lambda: False,
    ) -> None:
        self._objective, self._space, self._root = objective, space, root
        self._evaluations, self._replays, self._minimise = evaluations, replays, minimise
        self._settings, self._told = settings or {}, told
        self._hurry, self._tries = hurry, tries
        self._started = time.monotonic()
        self.hits: dict[str, Hit] = {}
        self.known: dict[str, Any] = {}
        self.refused = 0

    def offer(self, point: Array, oldest: int) -> bool:
        """A candidate `[n]` that descends from a start. Returns whether the original shows it."""
        found = [self._objective.confirm(point, oldest) for _ in range(self._replays)]
        shown = [f for f in found if f is not None]
        if not shown:
            self.refused += 1
            return False
        finding = shown[0]
        known = self.hits.get(finding.cause)
        if known is not None and (known.stable or len(shown) < self._replays):
            known.count += 1
            return True
        if finding.cause in self.known and self.known[finding.cause].get("stable", True):
            return True
        replayed = sum(f.cause == finding.cause for f in shown)
        hit = Hit(
            finding,
            point.copy(),
            self._space.starts[oldest].copy(),
            oldest,
            replayed,
            self._replays,
            self._evaluations(),
            time.monotonic() - self._started,
            settings=self._settings,
        )
        if self._minimise and hit.stable:
            self._make_small(hit)
        self.hits[finding.cause] = hit
        if self._root is not None:
            write_hit(hit, self._space, self._objective.reproducer(hit.point, hit.finding), self._root)
        self._told(hit)
        return True

    def _make_small(self, hit: Hit) -> None:
        def holds(x: Array) -> bool:
            if self._hurry():
                return False
            found = self._objective.confirm(x, hit.oldest)
            return found is not None and found.cause == hit.finding.cause

        # where there are many causes, each gets less
        small = Minimiser(self._space, holds, max(20, self._tries // (1 + len(self.hits) // 8))).minimise(
            hit.point, hit.ancestor
        )
        again = [self._objective.confirm(small, hit.oldest) for _ in range(hit.replays)]
        if all(f is not None and f.cause == hit.finding.cause for f in again) and again[0] is not None:
            hit.point, hit.finding, hit.minimised = small, again[0], True

    def folder(self, hit: Hit) -> Path | None:
        """Where a hit lies."""
        return None if self._root is None else self._root / folder_name(hit.finding.cause)
