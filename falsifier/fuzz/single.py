"""What a fuzzer sees of a network that has no batched program: the original, one sample at a time, no gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import InputError
from falsifier.fuzz.exposed import Exposed
from falsifier.fuzz.watch import Seen
from falsifier.network import Network

Array = NDArray[Any]


class SingleWatch:
    """Stands in for `watch.Watch`. A sample that the network refuses has NaN outputs and is broken everywhere."""

    def __init__(self, network: Network, *, finite: bool = False, tensors: Sequence[str] = ()) -> None:
        self._reference = network.reference
        self._finite, self._tensors = finite, tuple(tensors)
        self._exposed = Exposed(network, None if finite else self._tensors) if finite or tensors else None
        self._order: list[str] = list(self._exposed.nodes) if finite and self._exposed is not None else []
        self._place = {name: i for i, name in enumerate(self._order)}
        self.m = self._reference.m

    @property
    def width(self) -> int:
        """Watched tensors, and one for failures."""
        return len(self._order) + 1 if self._finite else 0

    def run(self, x: Array) -> Seen:
        outputs = np.full((len(x), self.m), np.nan, self._reference.dtype)
        inner: dict[str, list[Array]] = {name: [] for name in self._tensors}
        nan, infinite = self._marks(len(x))
        for lane, point in enumerate(x):
            try:
                if self._exposed is not None:
                    found = self._exposed.run(point)
                    for name in self._tensors:
                        inner[name].append(found[name].ravel())
                    self._mark(found, nan[lane], infinite[lane])
                outputs[lane] = self._reference.run_flat(point)
            except InputError:
                nan[lane, self.width - 1 : self.width] = True
        self._kinds = (nan, infinite)
        activations = {name: _stacked(rows, len(x)) for name, rows in inner.items()}
        return Seen(outputs, nan | infinite, activations)

    def kinds(self, x: Array) -> tuple[Array, Array]:
        """As `watch.Watch.kinds`."""
        self.run(x)
        return self._kinds

    def _marks(self, b: int) -> tuple[Array, Array]:
        return np.zeros((b, self.width), np.bool_), np.zeros((b, self.width), np.bool_)

    def _mark(self, found: dict[str, Array], nan: Array, infinite: Array) -> None:
        for name, array in found.items():
            if self._finite and array.dtype.kind == "f" and not np.isfinite(array).all():
                nan[self._place[name]] = np.isnan(array).any()
                infinite[self._place[name]] = np.isinf(array).any()


def _stacked(rows: list[Array], b: int) -> Array:
    return np.stack(rows) if len(rows) == b else np.full((b, rows[0].size if rows else 1), np.nan)
