"""Products with matrices of few numbers per column (lattices of min and max, selections): gathered, not multiplied.

As a dense product, a matrix of 2304 x 4608 with two numbers per column costs ten million multiplications per lane.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.network.program import Builder, Value

GATHERED = 200  # multiplications of a dense product that take as long as one gathered element, measured


def sparse_product(build: Builder, rows: Value, matrix: NDArray[Any]) -> Value | None:
    """`rows` stored `[k]` times a constant `[k, j]`; None where a dense product is faster."""
    k, j = matrix.shape
    if k < GATHERED or j == 0 or _looks_dense(matrix):
        return None
    at = np.flatnonzero(matrix != 0)  # the comparison is what makes it fast
    row, column = np.divmod(at, j)
    counts = np.bincount(column, minlength=j)
    most = int(counts.max())
    if most * GATHERED > k or most == 0:
        return None
    order = np.argsort(column, kind="stable")
    row, column = row[order], column[order]
    place = np.arange(len(column)) - (np.cumsum(counts) - counts)[column]  # the how-manieth of its column
    index = np.zeros((most, j), dtype=np.int64)
    weight = np.zeros((most, j), dtype=matrix.dtype)
    index[place, column] = row
    weight[place, column] = matrix[row, column]
    total: Value | None = None
    for i in range(most):
        part = build.emit("Gather", [rows, index[i]], (j,), lead=rows.lead, axis=1)
        op = "Add"
        if (weight[i] == -1).all() and total is not None:
            op = "Sub"
        elif not (weight[i] == 1).all():
            part = build.emit("Mul", [part, weight[i]], (j,), lead=rows.lead)
        total = part if total is None else build.emit(op, [total, part], (j,), lead=rows.lead)
    return total


def _looks_dense(matrix: NDArray[Any]) -> bool:
    """Whether a few dozen of the rows hold too many numbers already: dense matrices are told apart at once."""
    some = matrix[:: max(len(matrix) // 32, 1)]
    return bool(np.count_nonzero(some) * GATHERED > 2 * some.size)
