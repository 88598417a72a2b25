"""Windows: how wide the straight-through gradient of Sign, Round and their like is, lane by lane."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from falsifier.arrays import Array, as_like

if TYPE_CHECKING:
    from falsifier.problem import Problem

WIDTHS = (math.inf, 0.05, 0.2)
"""Everywhere, or where a pre-activation is small against its tensor's mean magnitude: what a small box can flip."""


def straight_through(problem: Problem, lanes: int, first: int = 0, repeat: int = 1) -> Array | None:
    """Widths `[b]` that change from lane to lane, `repeat` lanes at a time; None where the network has no steps."""
    if not problem.stepped:
        return None
    index = (first + np.arange(lanes) // repeat) % len(WIDTHS)
    return as_like(np.array(WIDTHS)[index], problem.like, problem.dtype)
