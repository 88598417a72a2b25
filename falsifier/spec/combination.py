"""Linear comparisons of inputs that together hold nowhere in the inputs' box, though each of them may: shown by a
positive combination of them that holds nowhere (Farkas).

The combination is guessed in floating point, from the weights by which points are pushed into the polytope
(`polytope.py`), and judged in exact arithmetic: its greatest value in the box, widened by a step of the type, lies
below what its comparisons ask for, less what every one of them may be off for a reader who computes in float32. So what
is said of it does not depend on how it was found.

Axes: t target, k comparison, g free input.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.records import record
from falsifier.spec.atoms import AtomTable
from falsifier.spec.elimination import Elimination, linear_weights
from falsifier.spec.layout import Layout
from falsifier.spec.polytope import Slabs, nearest
from falsifier.spec.stack import Rows
from falsifier.spec.ties import Affine

Ints = NDArray[np.int64]
_MOST_FORMS, _MOST_COMPARISONS, _MOST_TARGETS, _MOST_CELLS = 2000, 128, 1000, 1 << 22
_SAFE = 4  # times what an operation may be off
_STEPS = (12, 60)  # of a projection: most polytopes have points, which few steps find
_FAR = 1e-7  # what the comparisons of a polytope that is worth a judgement lack, in lengths of the unit cube
_HOPELESS = 100.0  # times what shows that there is no point: what is left must outweigh rounding
_FAINT = 1e-9  # of the largest weight of a combination: what is left out of it
_VAST = 1e100  # numbers whose squares fit in float64


@record
class _Form:
    """A linear form: its weights of free inputs and its constant; size: the sum of the magnitudes of its terms at most;
    operations: roundings of a reader.
    """

    affine: Affine
    size: Fraction
    operations: int


def jointly_infeasible(
    rows: Rows, lower: NDArray[Any], upper: NDArray[Any], where: Layout, atoms: AtomTable, elimination: Elimination
) -> Ints:
    """Targets whose linear comparisons of inputs contradict each other in the box `[1 or t, n]`, as far as found."""
    literals = rows.literals
    at = np.flatnonzero((literals.form >= atoms.slots) & where.input_only(literals.form, atoms))
    counts = np.bincount(rows.target[at])
    several = np.flatnonzero(counts > 1)
    if not several.size or several.size > _MOST_TARGETS or counts.max() > _MOST_COMPARISONS:
        return several[:0]
    at = at[np.isin(rows.target[at], several)]
    if len(np.unique(literals.form[at])) > _MOST_FORMS:
        return several[:0]
    outer = where.outwards(lower, -np.inf), where.outwards(upper, np.inf)
    reach = np.maximum(np.abs(outer[0]), np.abs(outer[1])).max(axis=0)
    forms: dict[int, _Form | None] = {}
    for form in np.unique(literals.form[at]).tolist():
        forms[form] = _read(form, where, atoms, elimination, reach)
    at = at[[forms[form] is not None for form in literals.form[at].tolist()]]
    if not at.size:
        return several[:0]
    read = {form: found for form, found in forms.items() if found is not None}
    with np.errstate(all="ignore"):  # a combination that is not finite shows nothing
        found = _weights(rows, at, read, outer)
    kind = np.finfo(where.roughest)
    return np.array([t for t, mine, weight in found if _shown(rows, mine, weight, read, outer, t, kind)], np.int64)


def _read(
    form: int, where: Layout, atoms: AtomTable, elimination: Elimination, reach: NDArray[np.float64]
) -> _Form | None:
    """A form over the free inputs; None for what is not linear, has no finite size or vast numbers."""
    weights = linear_weights(form, where, atoms)
    if weights is None:
        return None
    affine = elimination.ties.resolve((weights, Fraction(0)), {})
    if any(abs(number) > _VAST for number in (affine[1], *affine[0].values())):
        return None
    size, operations = Fraction(0), 2 + len(weights)
    for i, weight in weights.items():
        inner, constant = elimination.ties.resolve(({i: Fraction(1)}, Fraction(0)), {})
        if not all(np.isfinite(reach[j]) for j in inner):
            return None
        size += abs(weight) * (abs(constant) + sum(abs(w) * Fraction(float(reach[j])) for j, w in inner.items()))
        operations += len(inner)  # a tied input is what its equality makes of the others, rounded
    return _Form(affine, size, operations)


def _weights(
    rows: Rows, at: Ints, forms: dict[int, _Form], outer: tuple[NDArray[np.float64], NDArray[np.float64]]
) -> list[tuple[int, Ints, NDArray[np.float64]]]:
    """Targets that no point was found for, their comparisons and the weights of these."""
    literals = rows.literals
    used = np.array(sorted({i for form in forms.values() for i in form.affine[0]}), np.int64)
    column = {i: c for c, i in enumerate(used.tolist())}
    targets, owner = np.unique(rows.target[at], return_inverse=True)
    rank = np.arange(len(at)) - np.searchsorted(owner, owner)
    t, k, g = len(targets), int(rank.max()) + 1, len(used)
    if t * k * g > _MOST_CELLS or not g:
        return []
    matrix, low = np.zeros((t, k, g)), np.full((t, k), -np.inf)
    box = targets if len(outer[0]) > 1 else np.zeros(t, np.int64)
    lower, upper = (side[np.ix_(box, used)] for side in outer)
    width = np.where(upper > lower, upper - lower, 1.0)
    for i, (row, place) in enumerate(zip(owner.tolist(), rank.tolist(), strict=True)):
        weights, constant = forms[int(literals.form[at[i]])].affine
        sign = int(literals.sign[at[i]])
        for j, weight in weights.items():
            matrix[row, place, column[j]] = sign * float(weight)
        low[row, place] = literals.bound[at[i]] - sign * float(constant)
    low -= (matrix @ lower[:, :, None])[:, :, 0]
    matrix *= width[:, None, :]
    length = np.sqrt(np.vecdot(matrix, matrix))
    scale = np.where(length > 0, length, 1.0)
    slabs = Slabs(matrix / scale[:, :, None], low / scale, np.full((t, k), np.inf))
    left, pushes = np.arange(t), np.zeros((t, k))
    for steps in _STEPS:
        start = np.full((len(left), g), 0.5)
        z, pushes = nearest(
            start, slabs.at(left), np.zeros_like(start), np.ones_like(start), iterations=steps, hopeless=_HOPELESS
        )
        open_ = (slabs.at(left).lack(z) > _FAR).any(axis=1)
        left, pushes = left[open_], pushes[open_]
    out = []
    for row, push in zip(left.tolist(), pushes, strict=True):
        mine = np.flatnonzero(owner == row)
        out.append((int(targets[row]), at[mine], (push / scale[row])[rank[mine]]))
    return out


def _shown(
    rows: Rows,
    at: Ints,
    weight: NDArray[np.float64],
    forms: dict[int, _Form],
    outer: tuple[NDArray[np.float64], NDArray[np.float64]],
    target: int,
    kind: np.finfo,
) -> bool:
    """Whether comparisons, weighted so, hold nowhere in the box together: in exact arithmetic."""
    literals, largest = rows.literals, float(weight.max(initial=0))
    if not 0 < largest < np.inf:
        return False
    total: dict[int, Fraction] = {}
    eps, tiny, greatest = (Fraction(float(value)) for value in (kind.eps, kind.tiny, kind.max))
    asked = Fraction(0)  # beyond what the combination has to reach, less what readers may be off
    for i, w in zip(at.tolist(), weight.tolist(), strict=True):
        if w <= _FAINT * largest or not np.isfinite(literals.bound[i]):
            continue
        factor, sign, form = Fraction(w / largest), int(literals.sign[i]), forms[int(literals.form[i])]
        weights, constant = form.affine
        for j, v in weights.items():
            total[j] = total.get(j, Fraction(0)) + factor * sign * v
        bound = Fraction(float(literals.bound[i]))
        if form.size > greatest:
            return False
        slip = form.operations * _SAFE * (eps * (form.size + abs(bound)) + tiny)
        asked += factor * (bound - sign * constant - slip)
    row = target if len(outer[0]) > 1 else 0
    ends = [float((outer[1] if v > 0 else outer[0])[row, j]) for j, v in total.items()]
    if not np.isfinite(ends).all():
        return False
    most = sum((v * Fraction(end) for v, end in zip(total.values(), ends, strict=True)), Fraction(0))
    return most < asked
