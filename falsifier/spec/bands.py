"""Inputs that stay close to another one: low <= x_j - x_i <= high in every disjunct, as where two networks see almost
the same input.

Such an input is searched as its difference: two inputs drawn each from its own box would almost never be close, in many
dimensions never. Comparisons that all such points meet are no atoms any more: in high dimensions they are most of all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.records import record
from falsifier.spec.atoms import AtomTable, Literals
from falsifier.spec.domain import Band, Domain
from falsifier.spec.elimination import Elimination
from falsifier.spec.layout import Layout

_ROOM = 100  # a band is at least this many rounding errors of a sum wide


@record
class Bands:
    """The band of a domain, the bounds `[e]` of its differences, and literals that every point then meets."""

    band: Band
    low: NDArray[Any]
    high: NDArray[Any]
    met: Literals

    def left(self, literals: Literals) -> NDArray[np.int64]:
        """Which literals are not among those that are met, nor weaker than one of them."""
        met = self.met
        if not len(met):
            return np.arange(len(literals))
        keys, number = np.unique(met.form * 2 + (met.sign > 0), return_inverse=True)
        floor = np.full(len(keys), -np.inf)
        np.maximum.at(floor, number, met.bound)
        key = literals.form * 2 + (literals.sign > 0)
        at = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        return np.flatnonzero((keys[at] != key) | (literals.bound > floor[at]))


@record
class _Differences:
    """Pairs first < second of inputs that are left, and floors `[2, pairs]`: x_second - x_first >= floor[0],
    x_first - x_second >= floor[1]; literal `literal[i]` says so of pair `owner[i]`.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    floor: NDArray[np.float64]
    literal: NDArray[np.int64]
    owner: NDArray[np.int64]


def find_bands(
    common: Literals,
    lower: NDArray[Any],
    upper: NDArray[Any],
    elimination: Elimination,
    domain: Domain,
    where: Layout,
    atoms: AtomTable,
) -> Bands | None:
    """The bands among literals that every disjunct has; None where there are none.

    `lower`, `upper` `[1 or t, n]`: the boxes. An input has a band where that is narrower than its box, nothing else
    follows it, and its box is the same in every target. Every input is in one band at most.
    """
    single = np.all(lower == lower[:1], axis=0) & np.all(upper == upper[:1], axis=0)
    able = np.zeros(where.n, np.bool_)
    able[domain.free] = True
    able &= single & (where.coarse == 0)
    pairs = _differences(common, elimination, where, atoms)
    first, second = pairs.first, pairs.second
    low, high = (side.astype(lower.dtype) for side in (pairs.floor[0], -pairs.floor[1]))
    reach = np.maximum(np.abs(lower[0]), np.abs(upper[0]))
    slip = np.finfo(lower.dtype).eps * np.maximum(reach[first], reach[second])
    low, high = low + slip, high - slip  # what rounding x_i + difference may add
    with np.errstate(over="ignore"):
        narrow = (high - low > _ROOM * slip) & (high - low < upper[0, second] - lower[0, second])
    leading = _leading(elimination)
    taken: list[int] = []
    used: set[int] = set()
    for at in np.flatnonzero(narrow & able[first] & able[second]).tolist():
        i, j = int(first[at]), int(second[at])
        if not {i, j} & used and j not in leading:
            taken.append(at)
            used |= {i, j}
    if not taken:
        return None
    position = np.zeros(where.n, np.int64)
    position[domain.free] = np.arange(domain.f)
    tied = second[taken]
    band = Band(tied, position[tied], position[first[taken]], lower[0, tied], upper[0, tied])
    # clipping x_j into its box brings it nearer to x_i where the box of x_i does not reach further
    near = (lower[0, first] >= lower[0, second] - high) & (upper[0, first] <= upper[0, second] - low)
    sure = np.zeros(len(first), np.bool_)
    sure[taken] = near[taken] & (slip[taken] > 0)
    return Bands(band, low[taken], high[taken], common.take(pairs.literal[sure[pairs.owner]]))


def _differences(common: Literals, elimination: Elimination, where: Layout, atoms: AtomTable) -> _Differences:
    pair = (common.form >= atoms.slots) & (common.form < atoms.first_polynomial)
    at = np.flatnonzero(pair & where.input_only(common.form, atoms))
    left, right = (elimination.root[where.x_of[slot]] for slot in atoms.pair(common.form[at]))
    first, second = np.minimum(left, right), np.maximum(left, right)
    at, first, second, left, right = (a[first != second] for a in (at, first, second, left, right))
    positive = (common.sign[at] > 0) == (left > right)  # it bounds x_second - x_first from below
    keys, number = np.unique(first * where.n + second, return_inverse=True)
    floor = np.full((2, len(keys)), -np.inf)
    np.maximum.at(floor, (np.where(positive, 0, 1), number), common.bound[at])
    both = np.isfinite(floor).all(axis=0)
    kept = both[number]
    return _Differences(
        keys[both] // where.n, keys[both] % where.n, floor[:, both], at[kept], (np.cumsum(both) - 1)[number[kept]]
    )


def _leading(elimination: Elimination) -> set[int]:
    """Inputs that others follow."""
    root = elimination.root
    leading = set(root[root != np.arange(len(root))].tolist())
    for weights, _ in elimination.eliminated.values():
        leading.update(weights)
    return leading
