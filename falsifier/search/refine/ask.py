"""How the stages that refine ask the door."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from numpy.typing import NDArray


class Confirmed(NamedTuple):
    """A point `[n]` as the door keeps it, which may have moved it into bounds as written, and its margin there."""

    point: NDArray[Any]
    margin: float


Ask = Callable[[NDArray[Any], int], Confirmed | None]
"""What the door says of a full point `[n]` of a target: None for a refusal. Counts one evaluation."""
