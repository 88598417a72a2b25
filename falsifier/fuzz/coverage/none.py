"""No coverage: random search, the baseline of source paper B (B7). Nothing is ever new."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class NoCoverage:
    """Keeps nothing."""

    name = "none"
    size = 0

    def novel(self, vectors: Array, parents: Array) -> Array:
        return np.zeros(0, np.int64)

    def restore(self, vectors: Array) -> None:
        return None
