"""Walks: several steps of lanes along their gradients, as plain data. `walk_graph` makes them one run of an engine.

Axes: b lane, f free input, n flat input, m flat output, k atom; u is 1 where all lanes share a box, else b.

The state changes from step to step. Every rule has step `[1, 1]` (how many were made), x and best `[b, f]`, best_margin
`[b, 1]`, best_outputs `[b, m]`, and scale `[b, k]` where a walk weighs; signed steps have momentum `[b, f]`, alpha and
wins `[b, 1]`; dilated ones metric `[b, f, f]`, unit and along `[b, f]`.

What is given stays: rows, offset, present `[b, k]` (1, or 0 for padding), lower, upper, width `[u, f]`, bar `[b, 1]`,
window, and what `Kind` names. A better point of a lane ends the walk if its margin is bar or more. Besides:

* signed: decay and beta `[b, 1]`;
* Polyak: caps, decaying, level `[b, 1]`, floor, far, shortening `[1, 1]`; where a walk weighs, weighted `[b, 1]` (above
  0 where a lane weighs atoms by what they lack);
* dilated: level `[b, 1]`, floor, shortening `[1, 1]`; where a walk weighs, weights `[b, k]` and until `[1, 1]` (for how
  many steps they count).
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from falsifier.objective import Reduction

OVER = 0.1  # how far beyond the bound a Polyak step aims, as a share of what is lacking
SMALLEST = 1e-15  # largest slope of a lane that is followed; its inverse bounds from above, squares fit in float32
LARGEST_LACK = 1e30
CAP_DECAY = 0.97  # of the caps on Polyak steps, from step to step
FIRST_LENGTH, LAST_LENGTH = 0.05, 0.002  # root mean square coordinate of decaying steps, in widths
SHRINK = 1 - 1.7**-2  # of the metric's square along the difference of two gradients, which is divided by 1.7
SAME = 1e-12  # square of the difference of two gradients, in the metric, that is rounding alone
FIRST_CAP, LAST_CAP = 0.2, 0.01  # on the longest coordinate of a dilated step, in widths
TINY = 1e-20


class Rule(Enum):
    """How lanes step; the modules of the search that do the same step by step say what it means."""

    SIGNED = "signed"  # `search.lanes`
    POLYAK = "polyak"  # `search.ascent`
    DILATED = "dilated"  # `search.dilation`


class Kind(NamedTuple):
    """What a walk's graph is made for.

    weighing: a step decides the scales of the next one's slacks. embedded: points `[b, f]` are not the inputs, which
    are points @ `spread` `[f, n]` + `base` `[n]`.
    """

    rule: Rule
    reduction: Reduction
    weighing: bool
    embedded: bool
