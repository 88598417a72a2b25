"""Coverage by what neurons do, as the search has it: neurons that fire, or patterns of activation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.search.coverage.coverage import Coverage as OfSearch

Array = NDArray[Any]

_ADMITTED = 64  # rows of one batch that are kept, at most


class Activations:
    """Wraps a coverage of the search. Its vectors are the activations of the layers side by side."""

    def __init__(self, inner: OfSearch) -> None:
        self._inner = inner
        self.name = inner.name

    @property
    def size(self) -> int:
        """Neurons that fired, or patterns seen."""
        return next(iter(self._inner.figures().values()))

    def novel(self, vectors: Array, parents: Array) -> Array:
        """See `Coverage`. Beyond 64 rows of a batch what is new is noted, and no entry comes of it."""
        return np.flatnonzero(self._inner.novel(_finite(vectors)))[:_ADMITTED]

    def restore(self, vectors: Array) -> None:
        if len(vectors):
            self._inner.novel(_finite(vectors))


def _finite(vectors: Array) -> Array:
    return np.nan_to_num(vectors, nan=0.0)
