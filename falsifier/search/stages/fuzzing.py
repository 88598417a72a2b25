"""Fuzzing: the loop of `search/loop.py` as a stage, a batch for each step until the time is up.

On a device margins are looked at every few steps, since each look is a synchronisation; what violated in between is in
the corpus by then.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from falsifier.arrays import Array, as_like, is_numpy, to_host
from falsifier.errors import InputError
from falsifier.search.corpus import Corpus
from falsifier.search.corpus_file import load, save
from falsifier.search.loop import Loop, Recipe, Step
from falsifier.search.pace import Work
from falsifier.search.run import Run, host_margin
from falsifier.search.siblings import groups_of

if TYPE_CHECKING:
    from falsifier.problem import Problem

_LOOK = 8  # steps between looks at margins on a device
_NUMBERS = 1 << 25  # of the corpus
_FEWEST_ENTRIES = 16
_FEWEST = 4  # lanes
_MOST_HOST, _MOST_DEVICE = 256, 4096  # lanes
_GROWTH = 1.3  # in evaluations, between lines of the history
_LINES = 200


class Fuzzing:
    """Steps of a loop. `history`: what its record shows, lines of evaluations, seconds, entries and coverage."""

    def __init__(
        self,
        recipe: Recipe,
        *,
        lanes: int | None = None,
        seconds: float = 0.3,
        growth: float = 1.6,
        corpus: Path | str | None = None,
        name: str = "fuzzing",
    ) -> None:
        """lanes: of one step; None: as many as specifications, as the paper has it; 0: as many as pay. corpus: a file
        that entries are read from, if it is there, and written to after every turn.
        """
        self.slice, self.growth, self.name = seconds, growth, name
        self._recipe, self._lanes = recipe, lanes
        self._file = None if corpus is None else Path(corpus)
        self._loop: Loop | None = None
        self._offered = -1
        self._noted = 0
        self._steps = 0
        self.history: list[dict[str, Any]] = []

    def applies(self, run: Run) -> bool:
        """Where originals and entries fit in memory. Without gradients the mutators that need none are left."""
        problem = run.problems.single
        return (1 if problem.shared_box else problem.t) * problem.f <= _NUMBERS

    def turn(self, run: Run) -> None:
        """Steps until the time is up."""
        problem = run.batched
        if self._loop is None or self._loop.problem is not problem:  # another one where an accelerator took over
            self._loop = self._start(run, problem)
            self._look(run, problem, self._loop, self._loop.first)
        loop = self._loop
        self._close(run, loop)
        self._note(run, loop)
        lanes = self._lane_count(run, problem, loop)
        while run.going(loop.cost(lanes)):
            step = loop.step(lanes, run.room())
            if step is None:
                return
            run.rounds += 1
            self._steps += 1
            if is_numpy(step.margin) or self._steps % _LOOK == 0:
                self._look(run, problem, loop, step)
            if run.budget.evaluations > _GROWTH * self._noted:
                self._note(run, loop)
        self._note(run, loop)
        if self._file is not None:
            save(loop.corpus, self._file)

    def _start(self, run: Run, problem: Problem) -> Loop:
        """The loop over all groups, its corpus cut to what memory holds."""
        group = groups_of(problem, run.groups.of)
        rng = run.rng.spawn()
        capacity = int(np.clip(_NUMBERS // max(problem.f, 1), _FEWEST_ENTRIES, self._recipe.capacity))
        restore = None
        if self._file is not None and self._file.exists():
            restore = partial(_restored, self._file, problem.like, capacity)

        def notice(x: Array, target: Array, margin: Array) -> None:
            if is_numpy(margin) and margin.max() >= 0:
                run.offer(problem, x, target, host_margin(margin))

        recipe = replace(self._recipe, capacity=capacity)
        return Loop(
            problem,
            recipe,
            rng,
            group=group,
            restore=restore,
            timed=run.timed,
            notice=notice,
            going=lambda: run.going(1, Work.GRADIENT),
        )

    def _lane_count(self, run: Run, problem: Problem, loop: Loop) -> int:
        """Lanes of a step, fixed by the pace's clock."""
        if self._lanes is None:
            lanes = loop.siblings.groups
        elif self._lanes > 0:
            lanes = self._lanes
        else:
            most = _MOST_HOST if is_numpy(problem.like) else _MOST_DEVICE
            fits = run.pace.fits(Work.GRADIENT, max(run.left(), 0.0) / 50, 16)
            lanes = 1 << int(np.log2(np.clip(fits, _FEWEST, most)))
        return max(1, min(lanes, run.room() // loop.cost(1)))

    def _look(self, run: Run, problem: Problem, loop: Loop, step: Step) -> None:
        """Serve ledger and door."""
        run.offer(problem, step.x, step.target, host_margin(step.margin))
        if not is_numpy(step.margin) and not run.over():
            self._offer_entries(run, problem, loop)

    def _offer_entries(self, run: Run, problem: Problem, loop: Loop) -> None:
        """Entries that violated since the last look."""
        corpus = loop.corpus
        number = to_host(corpus.number)
        slots = np.flatnonzero((number > self._offered) & (host_margin(corpus.margin) >= 0))
        self._offered = max(self._offered, int(number.max()))
        if slots.size:
            index: Array = as_like(slots, problem.like)
            run.offer(problem, corpus.x[index], corpus.target[index], host_margin(corpus.margin[index]))

    def _close(self, run: Run, loop: Loop) -> None:
        """Groups whose targets are all closed in the ledger leave the loop."""
        table = loop.siblings.table
        is_open = run.ledger.open[np.maximum(table, 0)] & (table >= 0)
        loop.close(np.asarray(~is_open.any(axis=1)))

    def _note(self, run: Run, loop: Loop) -> None:
        """A line of the history; every other one goes where there are too many."""
        if run.budget.evaluations <= self._noted:
            return
        self._noted = run.budget.evaluations
        record = run.records.get(run.stage)
        line = {"evaluations": self._noted, "steps": self._steps, "seconds": round(run.elapsed(), 3)}
        figures = loop.figures()
        if figures.get("neurons"):
            run.coverage = figures["fired"] / figures["neurons"]
        self.history.append(line | figures)
        if len(self.history) > _LINES:
            del self.history[1::2]
        if record is not None:
            record.notes["history"] = self.history


def _restored(path: Path, like: Array, capacity: int, originals: Array) -> Corpus:
    if not path.is_file():
        raise InputError(f"{path}: a corpus is a file")
    return load(path, like, originals, capacity)
