"""Siblings: the targets of one instance that share a box, judged together from the outputs of one forward run.

A specification with many disjuncts, "some other class scores higher", is violated where any of them holds; a lane
serves them all, and aims at the one that is nearest (paper A, 18).

Axes: b lane, g group, j sibling, k atom, t target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, as_int64, as_like, full, gather, namespace
from falsifier.spec.margin import form_values, lane_form_values, slack

if TYPE_CHECKING:
    from falsifier.problem import Problem

_MOST = 1 << 22  # numbers of one lane's siblings, times lanes, held at once


class Siblings:
    """Groups of targets. `table` `[g, j]` (host): the targets of each group, padded with -1.

    joined: whether lanes are judged against all of their group; where atoms mention inputs or are no linear forms, or
    groups are very large, a lane is judged against its own target alone.
    """

    def __init__(self, problem: Problem, group: NDArray[np.int64]) -> None:
        """`group` `[t]`: the group of each target, 0 .. g - 1, none empty."""
        order = np.argsort(group, kind="stable")
        counts = np.bincount(group)
        starts = np.cumsum(counts) - counts
        self.groups, most = len(counts), int(counts.max())
        self.table = np.full((self.groups, most), -1, np.int64)
        self.table[group[order], np.arange(len(order)) - starts[group[order]]] = order
        targets, forms = problem.targets, problem.targets.forms
        self._problem = problem
        self.counts = as_like(counts, problem.like)
        plain = problem.tree is None and forms.linear and forms.inputs is None
        self.joined = plain and most * problem.k <= _MOST
        self._shared = forms.r <= 16 * most * problem.k
        index = np.maximum(self.table, 0)
        self._targets = as_like(index, problem.like)
        self._known = as_like(self.table >= 0, problem.like)
        self.first = self._targets[:, 0]
        self._columns = (targets.form, targets.sign, targets.bound, targets.present) if self.joined else ()

    def some(self, draws: Array, group: Array) -> Array:
        """A target of each lane's group, from draws `[b]` in [0, 1)."""
        count = self.counts[group]
        place = as_int64(draws * count)
        return gather(self._targets[group], namespace(place).minimum(place, count - 1)[:, None])[:, 0]

    def judge(self, outputs: Array, group: Array, target: Array, margin: Array) -> tuple[Array, Array]:
        """The greatest margin `[b]` over each lane's group, and the target that has it.

        `outputs` `[b, m]`; `target` and `margin` `[b]` are the lane's own, given back where groups are not joined.
        """
        most = int(self._targets.shape[1])
        if not self.joined or most == 1:
            return margin, target
        xp = namespace(outputs)
        lanes = int(outputs.shape[0])
        size = max(1, _MOST // (most * self._problem.k))
        parts = [self._margins(outputs[i : i + size], group[i : i + size]) for i in range(0, lanes, size)]
        margins = xp.concat(parts, axis=0)
        best = xp.argmax(margins, axis=1)[:, None]
        return gather(margins, best)[:, 0], gather(self._targets[group], best)[:, 0]

    def _margins(self, outputs: Array, group: Array) -> Array:
        """Margins `[b, j]`, -infinity for padding."""
        xp = namespace(outputs)
        lanes = int(outputs.shape[0])
        form, sign, bound, present = (column[self._targets[group]] for column in self._columns)
        forms = self._problem.targets.forms
        flat = form.reshape(lanes, -1)
        none = outputs[:, :0]
        if self._shared:
            values = gather(form_values(forms, none, outputs), flat)
        else:
            values = lane_form_values(forms, flat, none, outputs)
        margins = xp.min(slack(values.reshape(form.shape), sign, bound, present), axis=2)
        return xp.where(self._known[group], margins, full((1, 1), -float("inf"), margins))


def groups_of(problem: Problem, instance: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """The group of each target `[t]`: targets of one instance (`[t]`; all are of one by default) and one box."""
    box = np.zeros(problem.t, np.int64) if problem.shared_box else np.arange(problem.t)
    targets = problem.spec.targets
    if targets is not None and targets.box is not None:
        box = np.asarray(targets.box)
    if instance is None:
        return box
    return np.unique(np.stack([instance, box]), axis=1, return_inverse=True)[1].reshape(-1)
