"""The distinct forms of a query's atoms as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import distinct
from falsifier.errors import UnsupportedError
from falsifier.spec.atoms import AtomTable
from falsifier.spec.layout import Layout
from falsifier.spec.targets import Forms

_MAX_CELLS = 500_000_000  # of a dense matrix of forms over outputs: 2 GB in float32


def build_forms(used: NDArray[np.int64], atoms: AtomTable, where: Layout, dtype: np.dtype[Any]) -> Forms:
    """Arrays of the forms with the given numbers, in their order.

    Raises UnsupportedError for more forms than memory holds.
    """
    s, r = atoms.slots, len(used)
    if r * max(1, where.m) > _MAX_CELLS:
        raise UnsupportedError(f"{r} distinct comparisons over {where.m} outputs do not fit in memory")
    at = np.arange(r)
    single = used < s
    pair = ~single & (used < atoms.first_polynomial)
    polynomial = used >= atoms.first_polynomial
    low, high = atoms.pair(used[pair])
    # linear entries as columns (row, slot, weight); what is of higher degree as (row, monomial, weight)
    rows, slots = [at[single], at[pair], at[pair]], [used[single], low, high]
    weights = [np.ones(int(single.sum())), np.ones(len(low)), -np.ones(len(low))]
    products: list[tuple[int, tuple[int, ...], float]] = []
    linear: list[tuple[int, int, float]] = []
    for row in at[polynomial].tolist():
        for monomial, weight in atoms.polynomials[int(used[row]) - atoms.first_polynomial].items():
            if len(monomial) == 1:
                linear.append((row, monomial[0], float(weight)))
            else:
                products.append((row, monomial, float(weight)))
    rows.append(np.array([e[0] for e in linear], np.int64))
    slots.append(np.array([e[1] for e in linear], np.int64))
    weights.append(np.array([e[2] for e in linear]))
    entry_row, entry_slot, entry_weight = np.concatenate(rows), np.concatenate(slots), np.concatenate(weights)
    of_input = where.kinds[entry_slot] == 0
    outputs = np.zeros((r, where.m), dtype)
    outputs[entry_row[~of_input], where.y_of[entry_slot[~of_input]]] = entry_weight[~of_input]
    in_products = np.array(
        sorted({x for _, monomial, _ in products for x in monomial if where.kinds[x] == 0}), np.int64
    )
    columns = distinct(np.concatenate([where.x_of[entry_slot[of_input]], where.x_of[in_products]]))
    inputs = None
    if of_input.any():
        inputs = np.zeros((r, len(columns)), dtype)
        column = np.searchsorted(columns, where.x_of[entry_slot[of_input]])
        inputs[entry_row[of_input], column] = entry_weight[of_input]
    if not products:
        return Forms(outputs, columns, inputs)
    place = {monomial: q for q, monomial in enumerate(sorted({monomial for _, monomial, _ in products}))}
    degree = max(len(monomial) for monomial in place)
    monomials = np.full((len(place), degree), len(columns) + where.m, np.int64)  # padded with the 1 at the end
    for monomial, q in place.items():
        for j, x in enumerate(monomial):
            is_input = where.kinds[x] == 0
            monomials[q, j] = np.searchsorted(columns, where.x_of[x]) if is_input else len(columns) + where.y_of[x]
    coefficients = np.zeros((r, len(place)), dtype)
    for row, monomial, value in products:
        coefficients[row, place[monomial]] = value
    return Forms(outputs, columns, inputs, monomials, coefficients)
