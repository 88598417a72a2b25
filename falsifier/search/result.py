"""What a search returns, and what each stage did in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.verdict import StopReason


@dataclass
class StageRecord:
    """What one stage did: turns, evaluations, seconds, and how often it raised the best margin of a target.

    applies: whether it had something to do when it was last asked. idle: turns since it last raised the best margin of
    all targets. notes: what a stage has to say beyond that, as JSON types.
    """

    calls: int = 0
    evaluations: int = 0
    seconds: float = 0.0
    improvements: int = 0
    applies: bool = True
    idle: int = 0
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SearchResult:
    """The outcome of a search.

    found: a point was confirmed; point `[n]` (flat inputs, host) and target say which; stage names what found it, also
    where `found` is False and `reason` INTERRUPTED. margin `[t]`: the best margin per target that an engine computed
    (-infinity: none); points: target -> best free point `[f]`, for the targets nearest to satisfaction.
    """

    found: bool
    reason: StopReason
    stage: str | None
    target: int | None
    point: NDArray[Any] | None
    margin: NDArray[np.float64]
    points: dict[int, NDArray[Any]]
    evaluations: int
    rounds: int
    rejections: int
    stages: dict[str, StageRecord] = field(default_factory=dict)
