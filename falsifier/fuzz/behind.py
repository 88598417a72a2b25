"""How far points are from another class than a given one, by the scores behind a network's class."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import EngineError, UnsupportedError
from falsifier.network.engine import pulled

if TYPE_CHECKING:
    from falsifier.network import Network
    from falsifier.network.engine import Engine

Array = NDArray[Any]

_WIDTH = 1 << 16  # scores that the gaps of one lane read, at most


class Behind:
    """The gaps of the classes `values`, sorted, of the first output: at least 0 where it is another one."""

    def __init__(self, engine: Engine, values: Array, m: int) -> None:
        self._engine, self._values, self._m = engine, values, m

    def gap(self, x: Array, label: Array) -> Array:
        """`[b]` of points `[b, n]` and classes `[b]`; minus infinity for classes without a gap."""
        return self._taken(np.asarray(self._engine.outputs(self._engine.asarray(x))), label)[0]

    def uphill(self, x: Array, label: Array | None = None) -> tuple[Array, Array]:
        """The gap `[b]` and its gradient `[b, n]`, both finite, of classes `[b]`, by default those of the points.

        Raises EngineError where there is no gradient.
        """
        if not self._engine.differentiable:
            raise EngineError("no gradient")

        def seed(outputs: Array) -> Array:
            outputs = np.asarray(outputs)
            _, at, known = self._taken(outputs, label)
            chosen = np.zeros_like(outputs)
            chosen[np.arange(len(chosen)), at] = known
            return chosen

        outputs, up = map(np.asarray, pulled(self._engine, self._engine.asarray(x), seed))
        gap, _, _ = self._taken(outputs, label)
        return np.nan_to_num(gap, neginf=0.0), np.nan_to_num(up)

    def _taken(self, outputs: Array, label: Array | None) -> tuple[Array, Array, Array]:
        label = outputs[:, 0] if label is None else label
        which = np.searchsorted(self._values, label).clip(0, len(self._values) - 1)
        known = self._values[which] == label
        gap = outputs[np.arange(len(outputs)), self._m + which].astype(np.float64)
        return np.where(known, gap, -np.inf), self._m + which, known


def behind(network: Network, labels: Iterable[float] | None = None) -> Behind | None:
    """The gaps of some classes, by default of all; None where no scores are found behind the class, or too many."""
    from falsifier.network.decisions import Gap, decision, with_further
    from falsifier.network.peeling import engine_like

    try:
        lowered = network.lowered
    except UnsupportedError:
        return None
    build = lowered.builder.fork()
    found = decision(build, lowered.y, 0)
    if found is None:
        return None
    values = np.unique(np.asarray(list(found.values if labels is None else labels), np.float64))
    if len(values) * len(found.values) > _WIDTH:
        return None
    gaps = [(value, found.gap(found.values != value)) for value in values]
    kept = [(value, gap) for value, gap in gaps if isinstance(gap, Gap)]
    if not kept:
        return None
    engine = engine_like(network.engine("cpu"), with_further(lowered, build, [gap for _, gap in kept]))
    return None if engine is None else Behind(engine, np.array([value for value, _ in kept]), lowered.m)
