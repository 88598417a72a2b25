"""The region that an `unsat` has to cover, and the bounds that atoms have to stay below: all as written, or wider.

Search works in boxes rounded inwards. Here every bound goes outwards by one value of the network's type beyond both
roundings, pinned inputs included; tied inputs count as independent ones in the range that their ties give them.

Axes: t target, n flat input, f free input, k atom, m output, c input that some form mentions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import UnsupportedError
from falsifier.spec import Domain
from falsifier.spec.compile import Spec

Floats = NDArray[np.float64]
_MAX_CELLS = 1 << 24  # of a [t, n] array or of all rows together
_TIE_ULPS = 8  # of the network's type: what computing a tied input may be off


@dataclass(frozen=True)
class Region:
    """lower, upper `[t, n]`; rows `[t, k, m + c]` and bound `[t, k]`: target t is satisfied only where all its atoms
    have rows @ (outputs, inputs[columns]) >= bound; present `[t, k]` bool, False for padding.
    """

    lower: Floats
    upper: Floats
    rows: Floats
    bound: Floats
    present: NDArray[np.bool_]
    columns: NDArray[np.int64]

    @property
    def t(self) -> int:
        return len(self.bound)


def region_of(spec: Spec, nearest: Spec | None) -> Region:
    """The region of a compiled query. `nearest`: the same query in boxes rounded to the nearest values, if they differ.

    Raises UnsupportedError for polynomial atoms, and for more numbers than memory holds.
    """
    targets = spec.targets
    assert targets is not None, "the spec is empty"
    if spec.assumed:
        raise UnsupportedError("an input without bounds: what is searched is not all of its range")
    if targets.forms.monomials is not None:
        raise UnsupportedError("polynomial comparisons are not bounded")
    if spec.tree is not None:
        raise UnsupportedError("a query kept as a tree of comparisons is not bounded")
    forms = targets.forms
    width = forms.outputs.shape[1] + (0 if forms.inputs is None else len(forms.columns))
    if targets.t * spec.n > _MAX_CELLS or targets.t * targets.k * width > _MAX_CELLS:
        raise UnsupportedError(f"{targets.t} disjuncts over {spec.n} inputs are too many to bound")
    lower, upper = _full_box(spec)
    if nearest is not None:
        same = nearest.targets is not None and np.array_equal(nearest.targets.disjunct, targets.disjunct)
        if not same:
            raise UnsupportedError("rounding the bounds changes which disjuncts are empty: not bounded")
        other_lower, other_upper = _full_box(nearest)
        lower, upper = np.minimum(lower, other_lower), np.maximum(upper, other_upper)
    shape = (targets.t, spec.n)
    weights = forms.outputs if forms.inputs is None else np.concatenate([forms.outputs, forms.inputs], axis=1)
    rows = targets.sign[:, :, None].astype(np.float64) * weights.astype(np.float64)[targets.form]
    return Region(
        np.broadcast_to(_outwards(lower, -np.inf, spec.dtype), shape),
        np.broadcast_to(_outwards(upper, np.inf, spec.dtype), shape),
        rows,
        _outwards(_outwards(targets.bound, -np.inf, spec.dtype), -np.inf, spec.dtype),
        np.asarray(targets.present),
        np.zeros(0, np.int64) if forms.inputs is None else np.asarray(forms.columns),
    )


def _full_box(spec: Spec) -> tuple[Floats, Floats]:
    """The range of every input `[1 or t, n]`, those that ties determine by interval arithmetic."""
    domain, targets = spec.domain, spec.targets
    assert domain is not None
    assert targets is not None
    low, high = targets.lower.astype(np.float64), targets.upper.astype(np.float64)
    lower = np.repeat(np.asarray(domain.base, np.float64)[None, :], len(low), axis=0)
    upper = lower.copy()
    lower[:, domain.free], upper[:, domain.free] = low, high
    for tied, ends in _tied(domain, low, high):
        slack = _TIE_ULPS * np.finfo(spec.dtype).eps * np.maximum(np.abs(ends[0]), np.abs(ends[1]))
        lower[:, tied], upper[:, tied] = np.minimum(*ends) - slack, np.maximum(*ends) + slack
    return lower, upper


def _tied(domain: Domain, low: Floats, high: Floats) -> list[tuple[Any, tuple[Floats, Floats]]]:
    found: list[tuple[Any, tuple[Floats, Floats]]] = []
    for tie in domain.ties:
        a, b = (side[:, tie.source] * tie.scale.astype(np.float64) + tie.shift for side in (low, high))
        found.append((tie.tied, (a, b)))
    if domain.combination is not None:
        rows, shift = domain.combination.rows.astype(np.float64), domain.combination.shift
        above, below = np.maximum(rows, 0).T, np.minimum(rows, 0).T
        terms = np.abs(rows) @ np.maximum(np.abs(low), np.abs(high)).T  # sums cancel: their rounding does not
        slack = 64 * np.finfo(np.float32).eps * terms.T
        least, most = low @ above + high @ below + shift, high @ above + low @ below + shift
        found.append((domain.combination.tied, (least - slack, most + slack)))
    return found


def _outwards(values: NDArray[Any], towards: float, dtype: np.dtype[Any]) -> Floats:
    """The next value of a type, for values that it holds or that lie between two of its."""
    typed = values.astype(dtype)
    exact = np.nextafter(typed, np.array(towards, dtype)).astype(np.float64)
    # a value that the type rounded inwards is one step nearer than it should be
    again = np.nextafter(exact.astype(dtype), np.array(towards, dtype)).astype(np.float64)
    inwards = typed.astype(np.float64) > values if towards < 0 else typed.astype(np.float64) < values
    return np.asarray(np.where(inwards, again, exact))
