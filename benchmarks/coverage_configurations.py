"""The configurations that the coverage-fuzzing experiments compare, and what a fuzzer finds in one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Rng
from falsifier.fuzz.coverage.nearest import NearestNeighbour
from falsifier.fuzz.coverage.none import NoCoverage
from falsifier.fuzz.fuzzer import Fuzzer
from falsifier.fuzz.loop import Loop
from falsifier.fuzz.mutators.noise import Noise
from falsifier.fuzz.objectives import Finding
from falsifier.fuzz.space import Space

Array = NDArray[Any]

CONFIGURATIONS = ("uniform", "noise", "paper", "unguided", "default")


class Uniform:
    """Random search: a mutator that forgets its parents."""

    name = "uniform"

    def __init__(self, space: Space) -> None:
        self._space = space

    def children(self, parents: Array, oldest: Array, rng: Rng) -> Array:
        lower, upper = self._space.ball(self._space.starts[oldest])
        return np.asarray(lower + rng.uniform(parents.shape) * (upper - lower), dtype=parents.dtype)


class Texts:
    """Random texts of random lengths."""

    name = "texts"

    def __init__(self, space: Space) -> None:
        self._space = space

    def children(self, parents: Array, oldest: Array, rng: Rng) -> Array:
        b, n = parents.shape
        ids = rng.integers(0, int(self._space.upper[0]) + 1, (b, n))
        length = rng.integers(1, n + 1, (b, 1))
        return np.where(np.arange(n) < length, ids, -1).astype(parents.dtype)


def configured(fuzzer: Fuzzer, configuration: str) -> Fuzzer:
    """The fuzzer in one of the configurations (its mutators and coverage are replaced)."""
    text = any(m.name == "edits" for m, _ in fuzzer.mutators)
    width = fuzzer.cover(fuzzer.run(fuzzer.space.starts[:1])).shape[1]
    if configuration in ("uniform", "noise", "unguided"):
        fuzzer.coverage = NoCoverage()
    if configuration == "uniform":
        fuzzer.mutators = [(Texts(fuzzer.space) if text else Uniform(fuzzer.space), 1.0)]
    if configuration in ("noise", "paper") and not text:
        fuzzer.mutators = [(Noise(fuzzer.space, (0.2,), 0.0), 1.0)]
    if configuration == "paper":
        fuzzer.coverage = NearestNeighbour(width, 1.0)
    return fuzzer


def found(
    fuzzer: Fuzzer,
    evaluations: int,
    *,
    until: Callable[[dict[str, int]], bool] = lambda causes: False,
    key: Callable[[Finding, int], str] = lambda finding, oldest: finding.cause,
) -> dict[str, int]:
    """Confirmed causes, and after how many evaluations each was found first."""
    causes: dict[str, int] = {}

    def on_hit(point: Array, oldest: int) -> bool:
        finding = fuzzer.objective.confirm(point, oldest)
        if finding is not None:
            causes.setdefault(key(finding, oldest), 0 if loop is None else loop.progress.evaluations)
        return finding is not None

    loop: Loop | None = None
    loop = fuzzer.loop(on_hit, per_label=1 << 30)
    while loop.progress.evaluations < evaluations and not until(causes):
        loop.step(min(fuzzer.lanes, evaluations - loop.progress.evaluations))
    return causes
