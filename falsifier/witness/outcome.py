"""What the door says of a candidate: a witness of some class, or a rejection with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from falsifier.query.tree import Kind
from falsifier.records import record

if TYPE_CHECKING:
    from falsifier.query.tree import Query, Variable

Values = list[NDArray[Any]]


class WitnessClass(Enum):
    """How far a witness is beyond dispute."""

    EXACT = "exact"  # every assertion holds as written and under the published rule, all outputs are finite
    CORRECT = "correct"  # every assertion holds under the published rule alone


@record
class Witness:
    """A confirmed counterexample: flat values per declared variable, in the networks' element types."""

    inputs: Values
    outputs: Values
    class_: WitnessClass
    reason: str
    hidden: Sequence[NDArray[Any]] = ()

    def by_variable(self, query: Query) -> Iterator[tuple[Variable, NDArray[Any]]]:
        """The query's variables in its order, each with its values."""
        values = {Kind.INPUT: iter(self.inputs), Kind.HIDDEN: iter(self.hidden), Kind.OUTPUT: iter(self.outputs)}
        return ((variable, next(values[variable.kind])) for variable in query.variables)


@record
class Appraised:
    """A witness and what it is worth.

    margin: the door's (`Door.margin`); disjunct: of the query's normal form, as the search has it, None where it could
    not say; distance: what the search for more was asked to look at, None where that was nothing.
    """

    witness: Witness
    margin: float
    disjunct: int | None = None
    distance: float | None = None

    def to_json(self) -> dict[str, Any]:
        """What it is worth, as JSON types: no infinity, no values."""
        margin, distance = (
            value if value is not None and np.isfinite(value) else None for value in (self.margin, self.distance)
        )
        return {
            "class": self.witness.class_.value,
            "margin": margin,
            "disjunct": self.disjunct,
            "distance": distance,
        }


@record
class Rejection:
    """Why a candidate is no witness: which of the query's assertions fail, and the most by which one does.

    `shortfall` is in the units of the comparison (infinity where a value is not a number or nothing was compared).
    `published`: the published rule accepts the candidate, but the door was told to require more.
    """

    reason: str
    failing: tuple[int, ...] = ()
    shortfall: float = np.inf
    published: bool = False
