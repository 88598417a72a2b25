"""The fuzzing loop: draw parents, mutate, project, evaluate once, judge, feed back (paper A, section 4).

One step is one batch. A step's children are judged by one forward run, which gives outputs, margins and activations
alike. Nothing is copied to the host within a step, no lane is looked at alone. The loop knows nothing of time, of the
door and of stages: `stages/fuzzing.py` runs it in a search, `benchmarks/batch_fuzzing.py` on its own.

Axes: b lane, g group, f free input, w watched activation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, Rng, arange, as_dtype_of, as_like, full, namespace, put_max, to_host
from falsifier.network.observation import Observable, Watch
from falsifier.search.batch import Batch
from falsifier.search.corpus import Children, Corpus
from falsifier.search.coverage.coverage import Coverage
from falsifier.search.directions import Direction, Slope, labels_of
from falsifier.search.energy import Energy, News
from falsifier.search.mutators.mutator import Mutator
from falsifier.search.pace import Work, work_of
from falsifier.search.projection import IntoBox, Projection
from falsifier.search.scaling.scaling import Scaling
from falsifier.search.siblings import Siblings, groups_of
from falsifier.search.starts import place

if TYPE_CHECKING:
    from falsifier.network.observation import Layer, Observer
    from falsifier.problem import Problem

_MOST_WATCHED = 1 << 17  # activations of a lane: half a megabyte

Notice = Callable[[Array, Array, Array], None]
Timer = Callable[[Work, int], AbstractContextManager[object]]


@dataclass(frozen=True)
class Recipe:
    """What a loop is made of.

    mutators: with their weights; parts: groups of lanes that draw a mutator each in every step (1: one for the batch).
    even: every open group gets the same number of lanes, drawn by energy within it; else lanes are drawn from the
    whole corpus. wander: the share of lanes that aim at a random target of their group, not at the nearest. retire:
    closed groups leave the draw. keep_records: children with the best margin of their group enter as well. capacity:
    entries, at least one for each group.
    """

    mutators: Sequence[tuple[Mutator, float]]
    scaling: Scaling
    energy: Energy
    direction: Direction
    coverage: Sequence[Coverage] = ()
    projection: Projection = field(default_factory=IntoBox)
    parts: int = 1
    even: bool = False
    wander: float = 0.0
    retire: bool = False
    keep_records: bool = False
    capacity: int = 1 << 13


@dataclass(frozen=True)
class Step:
    """What a step did: children x `[b, f]`, their group, target and margin `[b]`, which were novel and which
    entered."""

    x: Array
    group: Array
    target: Array
    margin: Array
    novel: Array
    entered: Array

    @property
    def violated(self) -> Array:
        return self.margin >= 0


class Loop:
    """Steps over the targets of a problem. `corpus` and `best` `[g]` (margins) are its state, with what coverage
    saw."""

    def __init__(
        self,
        problem: Problem,
        recipe: Recipe,
        rng: Rng,
        *,
        group: NDArray[np.int64] | None = None,
        originals: Array | None = None,
        restore: Callable[[Array], Corpus] | None = None,
        timed: Timer = lambda work, evaluations: nullcontext(),
        notice: Notice | None = None,
        going: Callable[[], bool] = lambda: True,
    ) -> None:
        """Evaluates the originals, one for each group.

        group `[t]`: which targets are one specification (`groups_of` by default). originals `[g, f]`: centres of the
        boxes by default. restore: gives a corpus saved earlier, for these originals. timed: is told of evaluations.
        notice: is shown the points `[b, f]` where gradients were taken, their targets and margins `[b]`: a mutator may
        pass a violation on its way. going: while it says no, gradients are zero and cost nothing, so that the step at
        work ends soon.
        """
        self.problem, self.recipe, self.rng, self._timed, self._notice = problem, recipe, rng, timed, notice
        self._going = going
        self.siblings = Siblings(problem, groups_of(problem) if group is None else group)
        first = self.siblings.first
        if originals is None:
            lower, upper = problem.box(first)
            originals = place(0 * lower + 0.5, lower, upper)
        self._mutators = [(m, w) for m, w in recipe.mutators if m.slopes == 0 or problem.differentiable]
        self._weights = np.array([weight for _, weight in self._mutators], np.float64)
        self._host = rng.spawn()
        self._watch()
        label = labels_of(problem, self.siblings.table)
        everyone = arange(self.siblings.groups, problem.like)
        margin, target, novel = self._evaluate(originals, everyone, first)
        if restore is not None:
            self.corpus = restore(originals)
            margin = namespace(margin).maximum(margin, self._best_of(self.corpus))
        else:
            self.corpus = Corpus(originals, label, target, margin, recipe.capacity)
        self.best = margin + 0
        self.first = Step(originals, everyone, target, margin, novel, novel)
        self.open = everyone >= 0
        self._groups = everyone
        self._turn = 0

    def _watch(self) -> None:
        """One observer for all coverages, and the columns that each gets. Without inner tensors they see the
        outputs."""
        engine, coverages = self.problem.engine, self.recipe.coverage
        self._observer: Observer | None = None
        self._columns: list[tuple[Coverage, slice]] = [(coverage, slice(None)) for coverage in coverages]
        if not coverages or not isinstance(engine, Observable) or not engine.layers:
            return
        asked = [tuple(Watch(name, c.channels) for name in c.watch(_fitting(engine.layers, c))) for c in coverages]
        if not any(asked):
            return
        if len(set(asked)) == 1:
            self._observer = engine.observer(asked[0])
            return
        self._observer = engine.observer([watch for watches in asked for watch in watches])
        ends = np.cumsum([0, *self._observer.widths])[np.cumsum([0, *(len(watches) for watches in asked)])].tolist()
        self._columns = [(c, slice(a, b)) for c, (a, b) in zip(coverages, pairwise(ends), strict=True)]

    def _evaluate(self, x: Array, group: Array, target: Array) -> tuple[Array, Array, Array]:
        """Margin `[b]` over the group, the nearest target `[b]`, and whether coverage grew `[b]`. One forward run."""
        problem = self.problem
        with self._timed(work_of(problem), int(x.shape[0])):
            if self._observer is None:
                evaluation = problem.evaluate(x, target)
                seen = evaluation.outputs
            else:
                evaluation, seen = problem.observe(x, target, self._observer)
            margin, target = self.siblings.judge(evaluation.outputs, group, target, evaluation.margin)
            novel = margin != margin
            for coverage, columns in self._columns:
                novel = novel | coverage.novel(seen[:, columns])
        return margin, target, novel

    def cost(self, lanes: int) -> int:
        """The fewest evaluations that a step of so many lanes makes."""
        return lanes * min((self._cost(m) for m, _ in self._mutators), default=1)

    def _cost(self, mutator: Mutator) -> int:
        """Evaluations of one lane."""
        return 1 + mutator.slopes * self.recipe.direction.cost

    def close(self, closed: NDArray[np.bool_]) -> None:
        """Retire groups, bool `[g]`, if the recipe says so."""
        if self.recipe.retire and closed.any():
            self.open = self.open & ~as_like(closed, self.problem.like)
            self._groups = as_like(np.flatnonzero(to_host(self.open)), self.problem.like)
            self.corpus.close(~self.open)

    def step(self, lanes: int, room: float = math.inf) -> Step | None:
        """One batch of children; None where every group is closed. `room`: evaluations that the step may make."""
        corpus, recipe = self.corpus, self.recipe
        if int(self._groups.shape[0]) == 0:
            return None
        slots = self._parents(lanes)
        children = self._children(slots, room / lanes)
        group = corpus.group[slots]
        margin, target, novel = self._evaluate(children, group, corpus.target[slots])
        xp = namespace(margin)
        violated = margin >= 0
        news = News(novel, violated, margin - corpus.margin[slots], margin > self.best[group])
        self.best = put_max(self.best, group, xp.where(margin == margin, margin, self.best[group]))
        energy = recipe.energy.of_children(news)
        corpus.note_drawn(slots)
        corpus.renew_energy(slots, recipe.energy.of_parents(corpus.energy[slots], energy))
        wanted = novel | violated | (news.record if recipe.keep_records else news.violated)
        entered = corpus.admit(Children(children, slots, target, margin, energy), wanted)
        return Step(children, group, target, margin, novel, entered)

    def _parents(self, lanes: int) -> Array:
        """Slots `[b]` of parents."""
        if not self.recipe.even:
            return self.corpus.draw(self.rng, lanes)
        count = int(self._groups.shape[0])
        turn = (self._turn + arange(lanes, self.problem.like)) % count
        self._turn = (self._turn + lanes) % count
        return self.corpus.draw_within(self.rng, self._groups[turn])

    def _children(self, slots: Array, room: float) -> Array:
        """Children `[b, f]` of parents, part by part. `room`: evaluations for each lane."""
        parts = min(self.recipe.parts, int(slots.shape[0]))
        fits = np.array([self._cost(mutator) <= room for mutator, _ in self._mutators])
        chosen = to_host(self._host.choice(self._weights * fits, parts)).tolist()
        if parts == 1:
            return self._mutated(slots, self._mutators[chosen[0]][0])
        x = full((int(slots.shape[0]), self.problem.f), 0.0, self.corpus.x)
        for mutator in dict.fromkeys(chosen):
            mine = np.array(chosen)[np.arange(int(slots.shape[0])) % parts] == mutator
            lanes = as_like(np.flatnonzero(mine), x)
            x[lanes] = self._mutated(slots[lanes], self._mutators[mutator][0])
        return x

    def _mutated(self, slots: Array, mutator: Mutator) -> Array:
        batch = self.batch(slots)
        x = mutator(batch, self.recipe.scaling.eta(batch), self.rng)
        return self.recipe.projection(as_dtype_of(x, batch.x), batch)

    def batch(self, slots: Array) -> Batch:
        """The drawn parents, with what mutators may ask for."""
        problem, corpus, rng = self.problem, self.corpus, self.rng
        group, target = corpus.group[slots], corpus.target[slots]
        xp = namespace(target)
        if self.recipe.wander:
            draws = rng.uniform((2, int(slots.shape[0])), problem.like)
            target = xp.where(draws[0] < self.recipe.wander, self.siblings.some(draws[1], group), target)
        label = corpus.label[group]
        lower, upper = problem.box(target)

        def slope(x: Array) -> Slope:
            if not self._going():
                return Slope(full((int(x.shape[0]),), -math.inf, x), None, 0 * x)
            with self._timed(Work.GRADIENT, int(x.shape[0]) * self.recipe.direction.cost):
                found = self.recipe.direction.slope(problem, x, target, label)
            if self._notice is not None:
                self._notice(x, target, found.margin)
            return found

        return Batch(
            problem=problem,
            x=corpus.x[slots],
            original=corpus.originals[group],
            lower=lower,
            upper=upper,
            target=target,
            label=label,
            drawn=corpus.drawn[slots],
            margin=corpus.margin[slots],
            slope=slope if problem.differentiable else None,
            partner=lambda rng: corpus.x[corpus.draw_within(rng, group)],
        )

    def _best_of(self, corpus: Corpus) -> Array:
        """The best margin of each group's entries `[g]`."""
        best = full((corpus.groups + 1,), -float("inf"), corpus.margin)
        return put_max(best, corpus.group, corpus.margin)[:-1]

    def figures(self) -> dict[str, int]:
        """Counts for the record: entries, and what coverage has."""
        counts = {"entries": self.corpus.size}
        for coverage, _ in self._columns:
            counts |= coverage.figures()
        return counts


def _fitting(layers: Sequence[Layer], coverage: Coverage) -> list[str]:
    """The deepest layers whose activations are few enough to be held for every lane."""
    widths = np.array([layer.channels if coverage.channels else layer.size for layer in layers])
    fits = np.cumsum(widths[::-1])[::-1] <= _MOST_WATCHED
    return [layer.name for layer, kept in zip(layers, fits.tolist(), strict=True) if kept]
