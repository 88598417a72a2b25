"""The round of a fuzzer: draw parents, mutate, project, run, judge, keep what is new, hand on what is a hit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Rng
from falsifier.budget import Budget
from falsifier.fuzz.coverage import Coverage
from falsifier.fuzz.entries import Entries
from falsifier.fuzz.mutators import Mutator
from falsifier.fuzz.objectives import Judged, Objective, finite_score
from falsifier.fuzz.space import Space
from falsifier.fuzz.watch import Seen

Array = NDArray[Any]

_KEPT = 32  # lanes of a batch that are kept for their signature or score, at most
_REFUSED = 0.05  # how much a candidate that is not confirmed counts against its label
_SETTLED = -1e299  # the score of hits whose cause is known
_SIGNATURES = 1 << 16  # signatures that are remembered


class Runner(Protocol):
    """Runs batches: `watch.Watch` behind `watch.run_in_parts`, or single samples."""

    def __call__(self, x: Array) -> Seen: ...


@dataclass
class Progress:
    """Where a run stands."""

    evaluations: int = 0
    batches: int = 0
    entries: int = 0
    covered: int = 0
    hits: int = 0  # lanes that an objective called a hit
    by_mutator: dict[str, int] = field(default_factory=dict)  # hits


Hit = Callable[[Array, int], bool]
"""(point `[n]`, the start that it descends from) -> whether the original confirms it"""


class Loop:
    """One fuzzing run. `step` makes one batch; the same rng seed and batch size give the same run.

    `cover(seen)` gives the coverage vectors `[b, d]` of a batch. `on_hit` gets at most `per_label` hits of each label
    that it confirms. `on_keep` gets the entries and the position of the first that is new; `restore` puts back those of
    an earlier run.
    """

    def __init__(
        self,
        space: Space,
        run: Runner,
        objective: Objective,
        mutators: Sequence[tuple[Mutator, float]],
        coverage: Coverage,
        rng: Rng,
        *,
        lanes: int,
        cover: Callable[[Seen], Array],
        on_hit: Hit,
        per_label: int = 3,
        on_keep: Callable[[Entries, int], None] | None = None,
        restore: Callable[[Entries], Array] | None = None,
    ) -> None:
        self.space, self._run, self.objective = space, run, objective
        self._mutators = [m for m, _ in mutators]
        self._weights = np.array([w for _, w in mutators], np.float64)
        self._costs = np.array([1 + getattr(m, "most", 0) for m in self._mutators])  # evaluations of a child, at most
        self.coverage, self._rng, self.lanes = coverage, rng, lanes
        self._cover, self._on_hit, self._per_label, self._on_keep = cover, on_hit, per_label, on_keep
        self.progress = Progress()
        self._labels: dict[int, float] = {}
        self._signatures: set[int] = set()
        self._best = -np.inf
        starts = space.starts
        seen = run(starts)
        vectors = cover(seen)
        self.entries = Entries(starts, vectors)
        self.coverage.restore(vectors)
        if restore is not None:
            self.coverage.restore(restore(self.entries))
        own = np.arange(len(starts))
        self._take(starts, own, seen, "starts")

    def go(self, budget: Budget, between: Callable[[Progress], bool] = lambda progress: True) -> None:
        """Batches until the budget is used up, or `between`, called after each, says no. The last ones are cut to what
        is left of the evaluations, a mutator's own included; what is too little for one child is left over.
        """
        while not budget.exhausted():
            before = self.progress.evaluations
            if not self.step(left=budget.evaluations_left()):
                return
            budget.charge(self.progress.evaluations - before)
            if not between(self.progress):
                return

    def step(self, lanes: int | None = None, left: float = np.inf) -> bool:
        """One batch by one mutator, of no more evaluations than `left`; False where they do not do for one child."""
        with np.errstate(all="ignore"):  # infinities and NaN are results here, not faults
            return self._step(lanes or self.lanes, left)

    def _step(self, lanes: int, left: float) -> bool:
        affordable = self._costs <= left
        if not affordable.any():
            return False
        number = int(self._rng.choice(self._weights, 1)[0])
        if not affordable[number]:
            number = int(self._rng.choice(np.where(affordable, self._weights, 0.0), 1)[0])
        mutator, lanes = self._mutators[number], int(min(lanes, left // self._costs[number]))
        scored = bool(np.isfinite(self._best))
        parents = self.entries.choose(self._rng, lanes, scored=scored)
        children = mutator.children(self.entries.points[parents], self.entries.oldest[parents], self._rng)
        home = getattr(mutator, "home", None)
        if home is not None:  # its points are its own: it says which starts they descend from
            parents = home
        children = self.space.project(children, self.entries.points[self.entries.oldest[parents]])
        self.progress.evaluations += getattr(mutator, "evaluations", 0)
        self._take(children, parents, self._run(children), mutator.name)
        return True

    def _take(self, x: Array, parents: Array, seen: Seen, origin: str) -> None:
        judged = self.objective.judge(x, seen, self.entries.oldest[parents])
        self.progress.evaluations += len(x)
        self.progress.batches += 1
        self._hits(x, parents, judged, origin)
        vectors = self._cover(seen)
        new = self.coverage.novel(vectors, self.entries.vectors[parents]) if origin != "starts" else np.zeros(0, int)
        score = np.where(self._settled(judged), _SETTLED, finite_score(judged.score))
        if self.coverage.name != "none":
            new = np.union1d(new, self._worth(judged, score)).astype(np.int64)
        if new.size and origin != "starts":
            self.entries.add(x[new], vectors[new], parents[new], score[new])
            if self._on_keep is not None:
                self._on_keep(self.entries, len(self.entries) - len(new))
        self._note()

    def _worth(self, judged: Judged, score: Array) -> Array:
        """Lanes whose signature was not seen before, and the lane with the best score so far."""
        chosen: list[int] = []
        best = int(score.argmax())
        if score[best] > self._best and np.ptp(score) > 0:
            self._best = float(score[best])
            chosen.append(best)
        if judged.signature is not None and len(self._signatures) < _SIGNATURES:
            values, first = np.unique(judged.signature, return_index=True)
            for value, at in zip(values.tolist(), first.tolist(), strict=True):
                if value and value not in self._signatures and len(chosen) < _KEPT:
                    self._signatures.add(value)
                    chosen.append(at)
        return np.array(chosen, np.int64)

    def _hits(self, x: Array, parents: Array, judged: Judged, origin: str) -> None:
        lanes = np.flatnonzero(judged.hit)
        if not lanes.size:
            return
        self.progress.hits += int(lanes.size)
        self.progress.by_mutator[origin] = self.progress.by_mutator.get(origin, 0) + int(lanes.size)
        values, first = np.unique(judged.label[lanes], return_index=True)
        for label, at in zip(values.tolist(), lanes[first].tolist(), strict=True):
            if self._labels.get(label, 0.0) < self._per_label:
                confirmed = self._on_hit(x[at], int(self.entries.oldest[parents[at]]))
                self._labels[label] = self._labels.get(label, 0.0) + (1.0 if confirmed else _REFUSED)

    def _settled(self, judged: Judged) -> Array:
        """Hits whose cause is known: nothing is gained by staying near them."""
        known = [label for label, count in self._labels.items() if count >= 1]
        return judged.hit & np.isin(judged.label, np.array(known, np.int64))

    def _note(self) -> None:
        self.progress.entries, self.progress.covered = len(self.entries), self.coverage.size
