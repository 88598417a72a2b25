"""Where a query's slots lie: flat inputs and outputs over all networks, and the types of the inputs.

Flat inputs are the slots of all inputs in slot order, so several networks are simply concatenated; flat outputs are
likewise all that networks compute, hidden elements included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.query.tree import Kind, Query
from falsifier.records import record
from falsifier.spec.atoms import AtomTable

INTEGER, HALF, SINGLE = 3, 2, 1  # codes of `Layout.coarse`: larger for types that hold fewer values; 0 is the search's
NARROW: dict[int, np.dtype[Any]] = {HALF: np.dtype(np.float16), SINGLE: np.dtype(np.float32)}


@record
class Layout:
    """n flat inputs and m flat outputs of a query.

    kinds `[slots]`: 0 input, 1 hidden, 2 output; x_of, y_of `[slots]`: flat position, -1 elsewhere; slot_of_x `[n]`;
    coarse `[n]`: INTEGER, HALF, SINGLE (where the search is in float64) or 0 by element type; least, greatest `[n]`:
    the range of the element type where it bounds.
    """

    query: Query
    kinds: NDArray[np.int8]
    x_of: NDArray[np.int64]
    y_of: NDArray[np.int64]
    slot_of_x: NDArray[np.int64]
    coarse: NDArray[np.int8]
    least: NDArray[np.float64]
    greatest: NDArray[np.float64]

    @property
    def n(self) -> int:
        return len(self.slot_of_x)

    @property
    def m(self) -> int:
        return int(np.sum(self.kinds > 0))

    @property
    def vast(self) -> NDArray[np.bool_]:
        """`[n]`: integers of so many values that the range of their type counts as no bound."""
        out: NDArray[np.bool_] = (self.coarse == INTEGER) & (self.greatest - self.least > 2**16)
        return out

    @property
    def whole(self) -> NDArray[np.bool_]:
        """`[n]`: inputs of an integer element type, bool included."""
        return np.asarray(self.coarse == INTEGER)

    @property
    def roughest(self) -> np.dtype[Any]:
        """The least precise type that a reader of the query may compute in: float32 where no tensor is of float16."""
        half = np.any(self.coarse == HALF) or any(v.dtype == "float16" for v in self.query.variables)
        return np.dtype(np.float16 if half else np.float32)

    def outwards(self, side: NDArray[Any], outward: float, at: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """One side of boxes `[.., n]`, or of the inputs `at` alone, moved by a step of each input's own type towards
        `outward`, an infinity.
        """
        coarse = self.coarse if at is None else self.coarse[at]
        with np.errstate(over="ignore"):  # an input that others determine has a box without ends
            out: NDArray[np.float64] = np.nextafter(side, np.array(outward, side.dtype)).astype(np.float64)
            for code, kind in NARROW.items():
                mine = coarse == code
                if mine.any():
                    out[..., mine] = np.nextafter(side[..., mine].astype(kind), kind.type(outward))
        return out

    def input_name(self, i: int) -> str:
        """The name of a flat input as the query writes it."""
        return self.query.slot_name(int(self.slot_of_x[i]))

    def input_only(self, form: NDArray[np.int64], atoms: AtomTable) -> NDArray[np.bool_]:
        """Which forms mention no output."""
        is_input = self.kinds == 0
        of_polynomial = np.array(
            [all(is_input[slot] for monomial in form for slot in monomial) for form in atoms.polynomials], np.bool_
        )
        single, polynomial = form < atoms.slots, form >= atoms.first_polynomial
        pair = ~single & ~polynomial
        out = np.zeros(len(form), np.bool_)
        out[single] = is_input[form[single]]
        low, high = atoms.pair(form[pair])
        out[pair] = is_input[low] & is_input[high]
        out[polynomial] = of_polynomial[form[polynomial] - atoms.first_polynomial]
        return out


def layout(query: Query, dtype: np.dtype[Any], types: Sequence[np.dtype[Any]] | None = None) -> Layout:
    """The layout of a query that is searched in `dtype`. `types`: the element types of the networks' inputs, in order,
    where they are known.
    """
    kinds = query.slot_kinds()
    inputs, outputs = kinds == 0, kinds > 0
    slots = np.arange(len(kinds))
    variables = [v for v in query.variables if v.kind is Kind.INPUT]
    coarse, least, greatest = [], [], []
    for position, variable in enumerate(variables):
        code, low, high = _range(str(types[position]) if types is not None else variable.dtype, dtype)
        coarse.append(np.full(variable.size, code, np.int8))
        least.append(np.full(variable.size, low))
        greatest.append(np.full(variable.size, high))
    return Layout(
        query,
        kinds,
        np.where(inputs, np.cumsum(inputs) - 1, -1),
        np.where(outputs, np.cumsum(outputs) - 1, -1),
        slots[inputs],
        np.concatenate([np.zeros(0, np.int8), *coarse]),
        np.concatenate([np.zeros(0), *least]),
        np.concatenate([np.zeros(0), *greatest]),
    )


def _range(name: str, dtype: np.dtype[Any]) -> tuple[int, float, float]:
    """Of an element type: its code beside the search's `dtype`, and the least and greatest value where those are small
    enough to search between.
    """
    if name == "bool":
        return INTEGER, 0.0, 1.0
    if name == "float16":
        return HALF, -np.inf, np.inf
    if name == "float32" and dtype == np.float64:
        return SINGLE, -np.inf, np.inf
    if name.startswith(("int", "uint")):
        bits = int(name.removeprefix("u").removeprefix("int") or 64)
        low, high = (0, 2**bits - 1) if name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        return INTEGER, float(low), float(high) if bits < 64 else float(np.nextafter(float(high), 0))
    return 0, -np.inf, np.inf
