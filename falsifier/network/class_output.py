"""Networks whose first output is a class itself, one number: an integer, or a decision (see `decisions`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from falsifier.errors import UnsupportedError

if TYPE_CHECKING:
    from falsifier.network.load import Network
    from falsifier.network.lowering import Lowered


def gives_class(network: Network) -> bool:
    """Whether the first output is one number that names a class."""
    first = network.reference.outputs[0]
    if first.size != 1:
        return False
    if first.dtype.kind in "iub":
        return True
    try:
        return 0 in decided(network.lowered, [0])
    except UnsupportedError:
        return False


def decided(lowered: Lowered, elements: list[int]) -> list[int]:
    """Those of some elements of the flat outputs that are decisions."""
    from falsifier.network.peeling import may_decide

    if not may_decide(lowered):
        return []
    from falsifier.network.decisions import Decisions

    asked = np.zeros(lowered.m, bool)
    asked[elements] = True
    return [int(at) for at in np.flatnonzero(Decisions(lowered, asked).outputs)]
