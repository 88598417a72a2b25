"""Directions: which score of a lane its gradient mutators raise (paper A, 9).

The margin of the lane's own target by default; the paper's two, which do not look at the property, on request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from falsifier.arrays import Array, arange, as_dtype_of, as_like, namespace
from falsifier.objective import Reduction
from falsifier.search.windows import straight_through

if TYPE_CHECKING:
    from falsifier.problem import Problem


@dataclass(frozen=True)
class Slope:
    """At points of lanes: margin `[b]`, score `[b]` or None where it is not computed, gradient `[b, f]` of the
    score."""

    margin: Array
    score: Array | None
    gradient: Array


class Direction(Protocol):
    """Scores lanes. `slope` counts its evaluations, `cost` of them for each lane."""

    @property
    def cost(self) -> int: ...

    def slope(self, problem: Problem, x: Array, target: Array, label: Array) -> Slope:
        """At points `[b, f]` of lanes with targets `[b]` and labels `[b]` (-1: none)."""
        ...


@dataclass(frozen=True)
class MarginDirection:
    """The property's own margin: what atoms lack, or the least atom."""

    reduction: Reduction = Reduction.HINGE
    cost: int = 1

    def slope(self, problem: Problem, x: Array, target: Array, label: Array) -> Slope:
        window = straight_through(problem, int(x.shape[0]))
        evaluation, score, gradient = problem.ascend(x, target, self.reduction, window=window)
        return Slope(evaluation.margin, score, gradient)


@dataclass(frozen=True)
class PaperDirection:
    """Cross-entropy of the label where a lane has one, the variance of the outputs where it has none."""

    cost: int = 2

    def slope(self, problem: Problem, x: Array, target: Array, label: Array) -> Slope:
        def seed(part: slice, outputs: Array) -> Array:
            return _away(outputs, label[part])

        window = straight_through(problem, int(x.shape[0]))
        evaluation, gradient = problem.pull(x, target, seed, window)
        return Slope(evaluation.margin, None, gradient)


def _away(outputs: Array, label: Array) -> Array:
    """The derivative `[b, m]` of cross-entropy, softmax(y) - e_label, or of variance, 2 (y - mean y) / m."""
    xp = namespace(outputs)
    count = int(outputs.shape[1])
    power = xp.exp(outputs - xp.max(outputs, axis=1)[:, None])
    chance = power / xp.sum(power, axis=1)[:, None]
    hit = as_dtype_of(arange(count, outputs)[None, :] == label[:, None], outputs)
    spread = (outputs - xp.mean(outputs, axis=1)[:, None]) * (2.0 / count)
    seed = xp.where(label[:, None] >= 0, chance - hit, spread)
    return xp.where(xp.isfinite(seed), seed, 0 * chance)


def labels_of(problem: Problem, table: np.ndarray) -> Array:
    """The label of each group `[g]`: the output that every one of its targets compares another with, -1 where none.

    `table` `[g, j]` (host): the targets of a group, padded with -1. A label is there where each target asks Y_i >= Y_c
    for some i: the property that an author writes for "the class is c".
    """
    targets = problem.spec.targets
    assert targets is not None
    groups = len(table)
    none = np.full(groups, -1, np.int64)
    plain = problem.tree is None and targets.k == 1 and targets.forms.linear and targets.forms.inputs is None
    if not plain or problem.spec.m != problem.engine.m or problem.engine.m < 2:
        return as_like(none, problem.like)
    rows = targets.sign[:, 0, None] * np.asarray(targets.forms.outputs)[targets.form[:, 0]]
    low, high = rows.argmin(axis=1), rows.argmax(axis=1)
    lone = (rows[np.arange(len(rows)), low] == -1) & (rows[np.arange(len(rows)), high] == 1)
    lone &= (np.abs(rows).sum(axis=1) == 2) & (np.abs(targets.bound[:, 0]) <= 1e-30)
    of_target = np.where(lone, low, -2)
    listed = np.where(table >= 0, of_target[np.maximum(table, 0)], of_target[table[:, :1]])
    same = (listed == listed[:, :1]).all(axis=1) & (listed[:, 0] >= 0)
    return as_like(np.where(same, listed[:, 0], none), problem.like)
