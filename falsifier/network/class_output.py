"""Networks whose first output is a class itself, an integer or a decision (see `decisions`), or a map of classes."""

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


def class_elements(network: Network) -> int:
    """How many elements of the first output each name a class: 0 where they are scores of the classes.

    One where it `gives_class`; several where decisions among classes are found behind them, as an ArgMax over the
    channels of a picture makes them. Yes or no, in a type of no integers, is a score.
    """
    first = network.reference.outputs[0]
    if gives_class(network):
        return 1
    if first.size < 2 or first.dtype.kind == "b":
        return 0
    from falsifier.network.decisions import decision
    from falsifier.network.peeling import may_decide

    try:
        lowered = network.lowered
    except UnsupportedError:
        return 0
    if not may_decide(lowered):
        return 0
    build = lowered.builder.fork()
    for at in (0, first.size - 1):
        found = decision(build, lowered.y, at)
        if found is None or (first.dtype.kind == "f" and len(found.values) < 3):
            return 0
    return first.size


def decided(lowered: Lowered, elements: list[int]) -> list[int]:
    """Those of some elements of the flat outputs that are decisions."""
    from falsifier.network.peeling import may_decide

    if not may_decide(lowered):
        return []
    from falsifier.network.decisions import Decisions

    asked = np.zeros(lowered.m, bool)
    asked[elements] = True
    return [int(at) for at in np.flatnonzero(Decisions(lowered, asked).outputs)]
