"""What the door says of a candidate: a witness of some class, or a rejection with its reason."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.records import record

Values = list[NDArray[Any]]


class WitnessClass(Enum):
    """How far a witness is beyond dispute."""

    EXACT = "exact"  # every assertion holds as written and under the published rule, all outputs are finite
    CORRECT = "correct"  # every assertion holds under the published rule alone


@record
class Witness:
    """A confirmed counterexample: flat values per declared input and output, in the networks' element types."""

    inputs: Values
    outputs: Values
    class_: WitnessClass
    reason: str


@record
class Rejection:
    """Why a candidate is no witness: which of the query's assertions fail, and the most by which one does.

    `shortfall` is in the units of the comparison (infinity where a value is not a number or nothing was compared).
    `published`: the published rule accepts the candidate, but the door was told to require more.
    """

    reason: str
    failing: tuple[int, ...] = ()
    shortfall: float = np.inf
    published: bool = False
