"""Elements of inner tensors and their gradients by the input: many tensors in one graph, one choice per lane.

Axes: b lane, n flat input, s site.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import EngineError, UnsupportedError
from falsifier.fuzz.part import Part
from falsifier.fuzz.sites import Site, sites
from falsifier.network.adjoint import add_adjoint
from falsifier.network.lowering import Lowered
from falsifier.network.program import WINDOW, Builder, Value
from falsifier.network.work import division

Array = NDArray[Any]


@dataclass(frozen=True)
class Extremes:
    """Which element of each site is the largest, the smallest, the nearest to 0: `[b, s]` each."""

    largest: Array
    smallest: Array
    nearest: Array


class Magnitudes:
    """The sites of one network. Raises UnsupportedError or EngineError where it has no gradient."""

    def __init__(self, lowered: Lowered, threads: int | None = None) -> None:
        self._lowered = lowered
        self._division = division(lowered, threads)
        build = lowered.builder.fork()
        self.sites: list[Site] = [s for s in sites(build.program) if s.value.dtype == lowered.dtype]
        if not self.sites:
            raise UnsupportedError("no tensor of this network can break")
        self.sizes = np.array([s.value.lead * int(np.prod(s.value.stored, dtype=np.int64)) for s in self.sites])
        element = build.input("element", (len(self.sites),), np.dtype(np.int64))
        weight = build.input("weight", (len(self.sites),), lowered.dtype)
        picked = [self._picked(build, i, element) for i in range(len(self.sites))]
        values = picked[0]
        if len(picked) > 1:
            values = build.emit("Concat", picked, (len(picked),), axis=1)
        self._values = Part(build.fork(), [lowered.x, element], [values], self._division)
        gradient = add_adjoint(build, {values.name: weight}).get(lowered.x.name)
        if gradient is None:
            raise UnsupportedError("no gradient reaches the input")
        program = build.program
        windows = [program.values[WINDOW]] if WINDOW in program.values else []
        self._windows = [w.dtype for w in windows]
        inputs = [lowered.x, element, weight, *windows]
        self._gradient = Part(build, inputs, [values, gradient], self._division)

    def _picked(self, build: Builder, at: int, element: Value) -> Value:
        """`[b, 1]`: the chosen element of a site."""
        value = self.sites[at].value
        flat = build.view(value, (int(self.sizes[at]),))
        index = element
        if len(self.sites) > 1:
            index = build.emit("Gather", [element, np.array([at], np.int64)], (1,), np.int64, axis=1)
        if flat.stored == (1,):
            return build.emit("Identity", [flat], (1,))
        return build.emit("GatherElements", [flat, index], (1,), flat.dtype, axis=1)

    def extremes(self, x: Array) -> Extremes:
        """Of points `[b, n]`."""
        largest, smallest, nearest = self._extremes.run({self._lowered.x.name: x})
        return Extremes(largest, smallest, nearest)

    def values(self, x: Array, element: Array) -> Array:
        """Chosen elements `[b, s]` of points `[b, n]`; `element` as in `gradient`."""
        feed = {self._lowered.x.name: x, "element": np.mod(element, self.sizes).astype(np.int64)}
        return self._values.run(feed)[0]

    def gradient(self, x: Array, element: Array, weight: Array) -> tuple[Array, Array]:
        """Chosen elements `[b, s]` and the gradient `[b, n]` of the sum of weight * element, finite everywhere.

        element: int64 `[b, s]`, taken modulo the sites' sizes; weight: `[b, s]`.
        """
        feed = {
            self._lowered.x.name: x,
            "element": np.mod(element, self.sizes).astype(np.int64),
            "weight": weight.astype(self._lowered.dtype),
        }
        for dtype in self._windows:
            feed[WINDOW] = np.full(len(x), np.finfo(dtype).max, dtype)
        values, gradient = self._gradient.run(feed)
        return values, np.where(np.isfinite(gradient), gradient, gradient.dtype.type(0))

    @cached_property
    def _extremes(self) -> Part:
        build = self._lowered.builder.fork()
        columns: list[list[Value]] = [[], [], []]
        for at, site in enumerate(self.sites):
            flat = build.view(site.value, (int(self.sizes[at]),))
            size = build.emit("Abs", [flat], flat.stored)
            for column, op, source in zip(columns, ("ArgMax", "ArgMin", "ArgMin"), (flat, flat, size), strict=True):
                column.append(build.emit(op, [source], (1,), np.int64, axis=1, keepdims=1))
        joined = [c[0] if len(c) == 1 else build.emit("Concat", c, (len(c),), np.int64, axis=1) for c in columns]
        return Part(build, [self._lowered.x], joined, self._division)


def magnitudes(lowered: Lowered) -> Magnitudes | None:
    """The sites of a network, None where it has no gradient: special values and chance are left then."""
    try:
        return Magnitudes(lowered)
    except (UnsupportedError, EngineError):
        return None
