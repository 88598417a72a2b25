"""The box that a witness lies in: of all boxes that its query allows, the one that holds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import UnsupportedError
from falsifier.spec import Rounding, compile_query

if TYPE_CHECKING:
    from falsifier.network.reference import Reference
    from falsifier.query.tree import Query
    from falsifier.spec import Spec


@dataclass(frozen=True)
class Box:
    """Bounds and centre over the flat inputs, `[n]` each. Where inputs depend on each other they are those of the
    free ones, carried over.
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    centre: NDArray[np.float64]


def box_of(query: Query, reference: Reference, point: NDArray[np.float64]) -> Box:
    """The box of a flat point `[n]`, or the nearest where it lies in none. Raises InputError, UnsupportedError."""
    types = [tensor.dtype for tensor in reference.inputs]
    spec = compile_query(query, reference.dtype, Rounding.NEAREST, types=types)
    if spec.domain is None or spec.targets is None:
        raise UnsupportedError("no box can be read from its query")
    lower, upper = (np.asarray(side, np.float64) for side in (spec.targets.lower, spec.targets.upper))
    free = np.asarray(spec.domain.restrict(point[None, :].copy()))
    beyond = np.maximum(lower - free, free - upper).max(axis=1, initial=0.0)
    inside = int(np.argmin(beyond))
    return _embedded(spec, lower[inside], upper[inside])


def _embedded(spec: Spec, lower: NDArray[np.float64], upper: NDArray[np.float64]) -> Box:
    """A box over the free inputs as one over all."""
    assert spec.domain is not None
    corners = np.stack([lower, upper, (lower + upper) / 2]).astype(spec.dtype)
    first, last, centre = np.asarray(spec.domain.embed(corners), np.float64)
    return Box(np.minimum(first, last), np.maximum(first, last), centre)
