"""What findings call models and elements of their outputs."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from falsifier.network import Network
from falsifier.network.reference import TensorInfo


def element(outputs: Sequence[TensorInfo], k: int) -> str:
    """The element `k` of flat outputs as the model names it: `logits[0,3]`."""
    for info in outputs:
        if k < info.size:
            index = ",".join(str(at) for at in np.unravel_index(k, info.shape)) if info.shape else ""
            return f"{info.name}[{index}]" if info.shape else info.name
        k -= info.size
    raise IndexError(k)


def pair(network: Network, against: Network) -> tuple[str, str]:
    """The names of two models, as short as tells them apart."""
    ours, theirs = network.origin, against.origin
    short = os.path.basename(ours), os.path.basename(theirs)
    if short[0] != short[1] and all(short):
        return short
    return (ours, theirs) if ours != theirs else ("the model", "the other model")
