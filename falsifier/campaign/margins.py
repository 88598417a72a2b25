"""Where an instance stayed open: the best margins of its disjuncts, as a record keeps them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MOST = 128  # disjuncts of an instance, the nearest ones, of which margins are kept


def nearest(disjunct: Sequence[int] | NDArray[np.int64], margin: NDArray[np.float64]) -> dict[int, float]:
    """The best margin of each disjunct, in their order, from margins `[t]` of targets of disjuncts `[t]`.

    What has none (-infinity, NaN) is left out, and of more than MOST disjuncts those furthest from satisfaction.
    """
    number, place = np.unique(np.asarray(disjunct, dtype=np.int64), return_inverse=True)
    best = np.full(len(number), -np.inf)
    known = np.isfinite(margin)
    np.maximum.at(best, place[known], margin[known])
    kept = np.flatnonzero(np.isfinite(best))
    kept = np.sort(kept[np.argsort(-best[kept], kind="stable")[:MOST]])
    return dict(zip(number[kept].tolist(), best[kept].tolist(), strict=True))


def nearest_of(open_: Sequence[int], margins: Sequence[float | None]) -> dict[int, float]:
    """The same from margins of every disjunct of a query (None: never evaluated), of those that are open."""
    if not margins:
        return {}
    values = [margins[i] for i in open_]
    return nearest(open_, np.array([-np.inf if value is None else value for value in values], dtype=np.float64))
