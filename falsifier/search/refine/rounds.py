"""Rounds of lanes: how large one may be, and that it is finished once begun, whatever time its stage still has.

A slow network would else never come beyond the first steps of a round.
"""

from __future__ import annotations

import numpy as np

from falsifier.search.pace import Work
from falsifier.search.run import Run

_SHARE = 0.2  # of the time left that a round may plan to take
_FEWEST_LANES, _FEWEST_STEPS = 4, 8


def may(run: Run, evaluations: int, work: Work) -> bool:
    """Whether a round at work may make this many more evaluations."""
    if run.over() or run.room() < evaluations:
        return False
    each = run.pace.seconds(work)
    return run.pace.nominal or each is None or each * evaluations <= run.budget.remaining()


def fitted(run: Run, lanes: int, steps: int, work: Work) -> tuple[int, int]:
    """Lanes and steps of a round that the time left has room for, at least a few of each."""
    lanes = max(1, min(lanes, run.room()))
    each = run.pace.seconds(work)
    if each is None or run.pace.nominal or not each > 0:
        return lanes, steps
    affordable = _SHARE * max(run.budget.remaining(), 0.0) / each
    if lanes * steps <= affordable:
        return lanes, steps
    lanes = int(np.clip(affordable / steps, min(_FEWEST_LANES, lanes), lanes))
    return lanes, int(np.clip(affordable / lanes, min(_FEWEST_STEPS, steps), steps))
