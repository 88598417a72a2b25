"""Targets from arrays: a box around a sample, and comparisons of which one must hold. No text is compiled.

What comes out is what compiling the same question as VNN-LIB gives.

Axes: n flat input, m flat output, t target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.spec.compile import Spec
from falsifier.spec.domain import Domain
from falsifier.spec.margin import Rounding, reach
from falsifier.spec.targets import Forms, Targets


@dataclass(frozen=True)
class Region:
    """Bounds as meant, float64 `[n]`."""

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    """Y_high - Y_low >= bound (> where strict); an output that is None counts as 0."""

    high: int | None
    low: int | None
    bound: float
    strict: bool


def sample_spec(
    region: Region,
    comparisons: Sequence[Comparison],
    m: int,
    dtype: np.dtype[Any],
    rounding: Rounding,
    *,
    version_2: bool = False,
) -> Spec:
    """One target for every comparison, all in one box. version_2: as its text is read in that version."""
    n, t = len(region.lower), len(comparisons)
    lower, upper, exact = _rounded(region, dtype, rounding)
    free = np.flatnonzero(lower < upper)
    domain = Domain(
        n=n,
        free=free,
        base=np.where(lower < upper, 0, lower).astype(dtype),
        integer=np.zeros(len(free), dtype=bool),
        half=np.zeros(len(free), dtype=bool),
        single=np.zeros(len(free), dtype=bool),
    )
    bound = np.array([c.bound for c in comparisons])
    strict = np.array([c.strict for c in comparisons])
    targets = Targets(
        lower=lower[None, free],
        upper=upper[None, free],
        forms=_forms(tuple((c.high, c.low) for c in comparisons), m, dtype),
        form=np.arange(t)[:, None],
        sign=np.ones((t, 1), dtype),
        bound=reach(
            bound, strict, dtype, strict_in_dtype=version_2, nearest=version_2 and rounding is Rounding.NEAREST
        )[:, None],
        strict=strict[:, None],
        present=np.ones((t, 1), dtype=bool),
        disjunct=np.arange(t),
        exact=np.full(t, exact),
    )
    return Spec(n, m, np.dtype(dtype), rounding, t, domain=domain, targets=targets)


@lru_cache(maxsize=256)
def _forms(pairs: tuple[tuple[int | None, int | None], ...], m: int, dtype: np.dtype[Any]) -> Forms:
    """The differences of outputs; samples with the same label share them."""
    outputs = np.zeros((len(pairs), m), dtype)
    for row, (high, low) in enumerate(pairs):
        if high is not None:
            outputs[row, high] += 1
        if low is not None:
            outputs[row, low] -= 1
    return Forms(outputs, np.zeros(0, np.int64))


def _rounded(region: Region, dtype: np.dtype[Any], rounding: Rounding) -> tuple[NDArray[Any], NDArray[Any], bool]:
    """Bounds in the network's type, and whether nothing between them lies outside those meant."""
    strict = np.zeros(len(region.lower), dtype=bool)

    def side(values: NDArray[np.float64], nearest: bool) -> NDArray[Any]:
        return reach(values, strict, dtype, strict_in_dtype=False, nearest=nearest)

    lower, upper = side(region.lower, False), -side(-region.upper, False)
    inside = lower <= upper if rounding is Rounding.INWARD else np.zeros_like(strict)
    lower = np.where(inside, lower, side(region.lower, True))
    upper = np.where(inside, upper, -side(-region.upper, True))
    exact = np.all((lower.astype(np.float64) >= region.lower) & (upper.astype(np.float64) <= region.upper))
    return lower, np.maximum(lower, upper), bool(exact)
