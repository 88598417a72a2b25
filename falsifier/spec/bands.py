"""Inputs that stay close to another one: low <= x_j - x_i <= high in every disjunct, as where two networks see almost
the same input.

Such an input is searched as its difference: two inputs drawn each from its own box would almost never be close, in many
dimensions never. The comparisons stay atoms, so nothing depends on what is found here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.spec.atoms import AtomTable, Literals
from falsifier.spec.domain import Band, Domain
from falsifier.spec.elimination import Elimination
from falsifier.spec.layout import Layout

_ROOM = 100  # a band is at least this many rounding errors of a sum wide


def find_bands(
    common: Literals,
    lower: NDArray[Any],
    upper: NDArray[Any],
    elimination: Elimination,
    domain: Domain,
    where: Layout,
    atoms: AtomTable,
) -> tuple[Band, NDArray[Any], NDArray[Any]] | None:
    """The bands among literals that every disjunct has, and the bounds of the differences; None where there are none.

    `lower`, `upper` `[1 or t, n]`: the boxes. An input has a band where that is narrower than its box, nothing else
    follows it, and its box is the same in every target. Every input is in one band at most.
    """
    single = np.all(lower == lower[:1], axis=0) & np.all(upper == upper[:1], axis=0)
    able = np.zeros(where.n, np.bool_)
    able[domain.free] = True
    able &= single & (where.coarse == 0)
    first, second, floor = _differences(common, elimination, where, atoms)
    low, high = (side.astype(lower.dtype) for side in (floor[0], -floor[1]))
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
    return band, low[taken], high[taken]


def _differences(
    common: Literals, elimination: Elimination, where: Layout, atoms: AtomTable
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Pairs i < j of inputs that are left, and floors `[2, pairs]`: x_j - x_i >= floor[0], x_i - x_j >= floor[1]."""
    pair = (common.form >= atoms.slots) & (common.form < atoms.first_polynomial)
    at = np.flatnonzero(pair & where.input_only(common.form, atoms))
    code = common.form[at] - atoms.slots
    left, right = (elimination.root[where.x_of[slot]] for slot in (code // atoms.slots, code % atoms.slots))
    first, second = np.minimum(left, right), np.maximum(left, right)
    positive = (common.sign[at] > 0) == (left > right)  # it bounds x_second - x_first from below
    keys, number = np.unique(first * where.n + second, return_inverse=True)
    floor = np.full((2, len(keys)), -np.inf)
    np.maximum.at(floor, (np.where(positive, 0, 1), number), common.bound[at])
    both = np.flatnonzero(np.isfinite(floor).all(axis=0) & (keys // where.n != keys % where.n))
    return keys[both] // where.n, keys[both] % where.n, floor[:, both]


def _leading(elimination: Elimination) -> set[int]:
    """Inputs that others follow."""
    root = elimination.root
    leading = set(root[root != np.arange(len(root))].tolist())
    for weights, _ in elimination.eliminated.values():
        leading.update(weights)
    return leading
