"""Objective forms: what a gradient run maximises, as plain data. Below `spec` (makes them) and `network` (runs them).

Axes: b lane, k atom, m flat output.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

Array = Any  # a numpy array or a torch tensor: whatever the engine computes on


class Reduction(Enum):
    """How the scaled slacks of a lane's atoms become one score to maximise. All are greatest where the margin is."""

    HINGE = "hinge"  # sum over atoms of min(slack, 0): ignores atoms that hold
    HARD = "hard"  # min over atoms
    SOFT = "soft"  # -log sum exp(-slack): a smooth min over atoms


class ObjectiveForm(NamedTuple):
    """Scores lanes through atoms linear in the outputs: slack = rows @ y + offset, score = reduce(scale * slack).

    rows: `[b, k, m]` (or `[1, k, m]`, shared by all lanes); offset: `[b, k]`, carries the bound and whatever part of an
    atom does not depend on outputs; scale: `[b, k]`, positive, 0 for the padding of lanes with fewer atoms (a padded
    atom contributes nothing under any reduction).
    """

    rows: Array
    offset: Array
    scale: Array
    reduction: Reduction = Reduction.HINGE


class Ascent(NamedTuple):
    """What one gradient run returns.

    outputs `[b, m]`; slack `[b, k]`, unscaled; score `[b]`; weight `[b, k]`, the derivative of the score by each slack;
    gradient `[b, n]`, the derivative of the score by the flat input through the outputs.
    """

    outputs: Array
    slack: Array
    score: Array
    weight: Array
    gradient: Array
