"""What is left of the disjuncts, stacked to targets: atoms over shared forms in padded columns.

Axes: t target, k atom, i literal of some target.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import distinct
from falsifier.records import record
from falsifier.spec.atoms import Literals
from falsifier.spec.boxes import MAX_CELLS, TooManyCellsError
from falsifier.spec.margin import Rounding, beyond, reach

Ints = NDArray[np.int64]


@record
class Rows:
    """Literals of t targets: literal i belongs to target `target[i]`."""

    target: Ints
    literals: Literals

    def take(self, index: Ints) -> Rows:
        """The rows at `index`."""
        return Rows(self.target[index], self.literals.take(index))


@record
class Stacked:
    """Columns `[t, k]` as `Targets` has them; `forms` `[r]` are the numbers of the forms that `form` points into.

    exact `[t]`: False where a bound was rounded to the nearest value because none is left inside.
    """

    forms: Ints
    form: Ints
    sign: NDArray[Any]
    bound: NDArray[Any]
    strict: NDArray[np.bool_]
    present: NDArray[np.bool_]
    exact: NDArray[np.bool_]


def tightest(rows: Rows) -> Rows:
    """Of literals of one target with the same form and sign only the tightest, sorted by target."""
    literals = rows.literals
    written = beyond(literals.bound, literals.strict)
    order = np.lexsort((-written, literals.sign, literals.form, rows.target))
    keys = np.stack([rows.target[order], literals.form[order], literals.sign[order]])
    first = np.ones(len(order), np.bool_)
    first[1:] = np.any(keys[:, 1:] != keys[:, :-1], axis=0)
    kept = order[first]
    return Rows(rows.target[kept], literals.take(kept))


def contradictory(rows: Rows, dtype: np.dtype[Any], version_2: bool) -> Ints:
    """Targets that ask a form to lie above what they ask it to lie below (rows as `tightest` leaves them), also for
    readers of 2.0, who round bounds to the nearest of `dtype`.
    """
    literals = rows.literals
    pair = (rows.target[1:] == rows.target[:-1]) & (literals.form[1:] == literals.form[:-1])  # sign -1 comes before +1
    floors = [beyond(literals.bound, literals.strict)]
    if version_2:
        floors.append(reach(literals.bound, literals.strict, dtype, strict_in_dtype=True, nearest=True))
    for floor in floors:
        pair &= floor[1:] > -floor[:-1]
    return distinct(rows.target[1:][pair])


def stack(rows: Rows, t: int, dtype: np.dtype[Any], rounding: Rounding, version_2: bool) -> Stacked:
    """Rows sorted by target as padded columns; at least one column, padding where a target has fewer atoms.

    Outputs are compared in float64 by the published checker of 1.0, in `dtype` by that of 2.0: only there rounding
    matters, and a bound that no value meets as written is met by the nearest one. Raises TooManyCellsError.
    """
    literals = rows.literals
    counts = np.bincount(rows.target, minlength=t)
    k = max(1, int(counts.max(initial=0)))
    if t * k > max(MAX_CELLS // 4, 4 * len(literals)):
        raise TooManyCellsError
    column = np.arange(len(literals)) - np.repeat(np.cumsum(counts) - counts, counts)
    nearest = version_2 and rounding is Rounding.NEAREST
    bound = reach(literals.bound, literals.strict, dtype, strict_in_dtype=version_2, nearest=nearest)
    exact = np.ones(t, np.bool_)
    if version_2 and not nearest:
        pinched = _pinched(rows, bound)
        if len(pinched):
            some = literals.take(pinched)
            bound[pinched] = reach(some.bound, some.strict, dtype, strict_in_dtype=True, nearest=True)
            exact[rows.target[pinched]] = False
    forms, number = np.unique(literals.form, return_inverse=True)

    def padded(values: NDArray[Any], fill: Any, kind: Any) -> NDArray[Any]:
        out = np.full((t, k), fill, kind)
        out[rows.target, column] = values
        return out

    if not len(forms):
        forms = np.zeros(1, np.int64)  # padding points at some form: slot 0, whose value does not matter
    return Stacked(
        forms,
        padded(number, 0, np.int64),
        padded(literals.sign, 1, dtype),
        padded(bound, 0, dtype),
        padded(literals.strict, False, np.bool_),
        padded(np.ones(len(literals), np.bool_), False, np.bool_),
        exact,
    )


def _pinched(rows: Rows, bound: NDArray[Any]) -> Ints:
    """Literals whose bounds, rounded inwards, leave nothing between them: `==` with what the type cannot hold."""
    form, target = rows.literals.form, rows.target
    pair = (target[1:] == target[:-1]) & (form[1:] == form[:-1])  # sign -1 comes before +1
    first = np.flatnonzero(pair & (bound[1:] > -bound[:-1]))
    return np.sort(np.r_[first, first + 1])
