"""A range for inputs that a query leaves open, so that they can be searched at all.

VNN-LIB 2.0 asks for no bounds, and a query about one network may leave inputs free that do not matter. They are
searched on the scale of the query's own numbers. Nothing is concluded from a range that nobody wrote: it is wider than
every number of the query, so that it contradicts none of them.

Several networks are another matter: there an open input is a forgotten equality, and refused (`boxes.py`); in 1.0 it is
a forgotten bound.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from falsifier.spec.atoms import Literals
from falsifier.spec.boxes import BoxLiterals
from falsifier.spec.elimination import Elimination
from falsifier.spec.layout import Layout


def with_assumed(
    bounds: BoxLiterals, every: Literals, t: int, where: Layout, elimination: Elimination
) -> tuple[BoxLiterals, str]:
    """Bounds with those added that some of the t disjuncts lack, and what to tell the user of them.

    `every`: the literals of the query, whose numbers set the scale.
    """
    if where.query.version[0] < 2 or len(where.query.networks) > 1:
        return bounds, ""
    missing = _open(bounds, t, where) & ~elimination.follows
    if not missing.any():
        return bounds, ""
    sizes = np.abs(np.concatenate([every.bound, bounds.literals.bound]))
    reach = 1 + 2 * float(sizes[np.isfinite(sizes)].max(initial=0.0))
    side, position = np.nonzero(missing)
    sign = np.where(side == 0, 1, -1).astype(np.int8)
    first, others = where.input_name(int(position.min())), len(np.unique(position)) - 1
    more = f" and {others} more input{'s' * (others > 1)}" if others else ""
    told = f"the query does not bound {first}{more} on both sides: searched from {-reach:g} to {reach:g}"
    return bounds.with_common(position, sign, np.full(len(position), -reach)), told


def _open(bounds: BoxLiterals, t: int, where: Layout) -> NDArray[np.bool_]:
    """`[2, n]`: which sides of which inputs neither their type nor, in every disjunct, a comparison bounds."""
    side = np.where(bounds.literals.sign > 0, 0, 1)
    everywhere = bounds.clause < 0
    out: NDArray[np.bool_] = np.isinf(np.stack([where.least, where.greatest])) | where.vast
    out[side[everywhere], bounds.position[everywhere]] = False
    own = np.stack([side, bounds.position, bounds.clause])[:, ~everywhere]
    pairs, disjuncts = np.unique(np.unique(own, axis=1)[:2], axis=1, return_counts=True)
    bounded = pairs[:, disjuncts == t]
    out[bounded[0], bounded[1]] = False
    return out
