"""The one file of sign and strictness: what "an atom holds" means as a number.

An atom is `sign * form >= bound`; its **slack** is `sign * form - bound`, so slack >= 0 iff the atom holds. The
**margin** of a target is the least slack of its atoms, so margin >= 0 iff the target is satisfied, and the margin of
a query is the largest over its targets. Strictness lives in the bound alone: a strict atom's bound is the next
representable value beyond the one written (`reach`), so that meeting it is exceeding what was written. `==` is two
atoms (its slack is -abs(form - c)), `!=` an `or` of two strict ones. NaN never satisfies: it becomes a slack of
-infinity.

Written once for numpy arrays and torch tensors. Axes: b lane, k atom, r form, c input mentioned, m output, q
monomial.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, add_columns, arange, full, is_numpy, namespace, numpy_dtype, zeros
from falsifier.objective import Reduction
from falsifier.spec.targets import Forms

_FEW = 4096  # weights that a lane's outputs are multiplied by one by one


class Rounding(Enum):
    """How a bound as written becomes a value of the network's type."""

    INWARD = "inward"  # nothing outside the bounds as written counts: witnesses are exact
    NEAREST = "nearest"  # to the nearest representable value, as the published rule of the query's version does


def beyond(bound: NDArray[np.float64], strict: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Bounds as floors that may be met: where `strict`, the next float64 above."""
    if not strict.any():
        return bound
    with np.errstate(over="ignore"):
        return np.where(strict, np.nextafter(bound, np.inf), bound)


def round_up(x: NDArray[np.float64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The smallest value of `dtype` that is >= x."""
    if dtype == x.dtype:
        return x
    with np.errstate(over="ignore"):  # beyond the largest finite value infinity is the right answer
        y = x.astype(dtype)
        low = np.flatnonzero(y < x)
        y[low] = np.nextafter(y[low], np.array(np.inf, dtype))
    return y


def reach(
    bound: NDArray[np.float64], strict: NDArray[np.bool_], dtype: np.dtype[Any], *, strict_in_dtype: bool, nearest: bool
) -> NDArray[Any]:
    """The smallest value of `dtype` that counts as satisfying `value >= bound` (`value > bound` where `strict`).

    `nearest` compares with the bound rounded to `dtype` instead of the bound itself. `strict_in_dtype` is for queries
    that a published checker evaluates in `dtype`: there a strict atom must also exceed the rounded bound.
    """
    with np.errstate(over="ignore"):
        reached = bound.astype(dtype) if nearest else round_up(beyond(bound, strict), dtype)
        if strict_in_dtype and strict.any():
            above = np.nextafter(bound.astype(dtype), np.array(np.inf, dtype))
            reached = np.where(strict, above if nearest else np.maximum(reached, above), reached)
    return reached


def weighted(rows: Array, y: Array) -> Array:
    """`rows` `[r, m]` (or `[b, k, m]`, per lane) times `y` `[b, m]`, where what a weight of 0 meets does not count.

    An output that is infinite or NaN decides only the rows that mention it: 0 * infinity would spoil all.
    """
    xp = namespace(y)
    if not is_numpy(y) and math.prod(rows.shape[-2:]) <= _FEW:  # or a device would have to wait for an answer
        return xp.sum(xp.where(rows == 0, full((1, 1, 1), 0.0, y), rows * y[:, None, :]), axis=2)

    def product(weights: Array, values: Array) -> Array:
        return values @ weights.T if weights.ndim == 2 else (weights @ values[:, :, None])[:, :, 0]

    finite = xp.isfinite(y)
    if bool(finite.all()):
        return product(rows, y)
    zero = full((1,) * y.ndim, 0.0, y)
    out = product(rows, xp.where(finite, y, zero))
    kinds = [xp.where(kind, 1 + zero, zero) for kind in (y == math.inf, y == -math.inf, xp.isnan(y))]
    above, below, broken = kinds
    over, under = (xp.astype(side, y.dtype) for side in (rows > 0, rows < 0))
    for count, value in (
        (product(over, above) + product(under, below), math.inf),
        (product(over, below) + product(under, above), -math.inf),
        (product(over + under, broken), math.nan),
    ):
        out = out + xp.where(count > 0, full((1,) * out.ndim, value, out), full((1,) * out.ndim, 0.0, out))
    return out


def form_values(forms: Forms, x: Array, y: Array) -> Array:
    """The value of every form: full inputs `[b, n]` and outputs `[b, m]` to `[b, r]`."""
    values = weighted(forms.outputs, y)
    if forms.inputs is not None:
        values = values + x[:, forms.columns] @ forms.inputs.T
    if forms.monomials is not None:
        values = values + weighted(forms.coefficients, monomial_values(forms, x[:, forms.columns], y))
    return values


def lane_form_values(forms: Forms, form: Array, x: Array, y: Array) -> Array:
    """The values of chosen forms only: `form` `[b, k]` to `[b, k]`, without the `[b, r]` in between."""
    values = weighted(forms.outputs[form], y)
    if forms.inputs is not None:
        values = values + input_values(forms, form, x)
    if forms.monomials is not None:
        values = values + weighted(forms.coefficients[form], monomial_values(forms, x[:, forms.columns], y))
    return values


def input_values(forms: Forms, form: Array, x: Array) -> Array:
    """The inputs' part of linear forms: `form` `[b, k]` or `[1, k]`, full inputs `[b, n]`, to `[b, k]`."""
    used, rows = x[:, forms.columns], forms.inputs
    if form.shape[0] == 1:
        return used @ rows[form[0]].T
    return (rows[form] @ used[:, :, None])[:, :, 0]


def monomial_values(forms: Forms, used: Array, y: Array) -> Array:
    """Products of inputs and outputs: `[b, c]` and `[b, m]` to `[b, q]`."""
    factors = _variables(used, y)[:, forms.monomials]
    return namespace(y).prod(factors, axis=2)


def _variables(used: Array, y: Array) -> Array:
    return namespace(y).concat([used, y, full((y.shape[0], 1), 1.0, y)], axis=1)


def form_gradients(forms: Forms, form: Array, weight: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """The gradient of sum over k of weight * form value, by the outputs `[b, m]` and by the full inputs `[b, n]`.

    `form` `[b, k]` chooses forms, `weight` `[b, k]` is any factor, sign included.
    """
    by_y = (weight[:, None, :] @ forms.outputs[form])[:, 0, :]
    by_x = zeros(tuple(x.shape), y)
    if forms.inputs is not None:
        by_x = add_columns(by_x, forms.columns, (weight[:, None, :] @ forms.inputs[form])[:, 0, :])
    if forms.monomials is not None:
        c, m = int(forms.columns.shape[0]), int(y.shape[1])
        used = x[:, forms.columns]
        per_monomial = (weight[:, None, :] @ forms.coefficients[form])[:, 0, :]
        by_variable = _product_gradients(forms, per_monomial, _variables(used, y))
        by_x = add_columns(by_x, forms.columns, by_variable[:, :c])
        by_y = by_y + by_variable[:, c : c + m]
    return by_y, by_x


def _product_gradients(forms: Forms, weight: Array, variables: Array) -> Array:
    """The gradient of sum over q of weight `[b, q]` * monomial by every variable: `[b, c + m + 1]`."""
    xp = namespace(variables)
    out = zeros(tuple(variables.shape), variables)
    degree = int(forms.monomials.shape[1])
    for j in range(degree):  # over the few factors of a monomial, not over lanes
        others = [i for i in range(degree) if i != j]
        rest = (
            xp.prod(variables[:, forms.monomials[:, others]], axis=2)
            if others
            else full(tuple(weight.shape), 1.0, weight)
        )
        out = add_columns(out, forms.monomials[:, j], weight * rest)
    return out


def slack(values: Array, sign: Array, bound: Array, present: Array | None = None) -> Array:
    """How far each atom holds: `sign * value - bound`, -infinity for NaN, +infinity where `present` is False."""
    xp = namespace(values)
    out = sign * values - bound
    broken = xp.isnan(out)
    if not is_numpy(out) or broken.any():  # a device would have to wait for the answer
        out = xp.where(broken, full((1,) * out.ndim, -math.inf, out), out)
    if present is not None:
        out = xp.where(present, out, full((1,) * out.ndim, math.inf, out))
    return out


def margin(slacks: Array) -> Array:
    """The least slack of every lane: `[b, k]` to `[b]`."""
    if slacks.shape[1] == 1:
        return slacks[:, 0]
    return np.minimum.reduce(slacks, axis=1) if is_numpy(slacks) else namespace(slacks).min(slacks, axis=1)


def score(slacks: Array, scale: Array, reduction: Reduction) -> tuple[Array, Array]:
    """The score to maximise `[b]` and its derivative by each unscaled slack `[b, k]`; atoms of scale 0 do not count.

    The same reductions as an engine runs in one graph (`objective.py`), for forms that no engine knows: polynomial
    atoms and trees. Scores are finite: a slack of -infinity counts as a very low number and has no derivative, a lane
    without atoms scores 0.
    """
    xp = namespace(slacks)
    zero = full((1, 1), 0.0, slacks)
    counts, usable = scale > 0, xp.isfinite(slacks) & (scale > 0)
    floor = -float(np.finfo(numpy_dtype(slacks)).max) / 2**20  # sums of a million of these stay finite
    scaled = xp.where(usable, scale * xp.where(usable, slacks, zero), full((1, 1), floor, slacks))
    if reduction is Reduction.HINGE:
        below = counts & (scaled < 0)
        return xp.sum(xp.where(below, scaled, zero), axis=1), xp.where(below & usable, scale, zero)
    padded = xp.where(counts, scaled, full((1, 1), math.inf, slacks))
    some = xp.any(counts, axis=1)
    least = xp.where(some, xp.min(padded, axis=1), zero[0])
    if reduction is Reduction.HARD:
        worst = arange(slacks.shape[1], slacks)[None, :] == xp.argmin(padded, axis=1)[:, None]
        return least, xp.where(worst & usable, scale, zero)
    power = xp.where(counts, xp.exp(xp.where(counts, least[:, None] - padded, zero)), zero)
    total = xp.where(some, xp.sum(power, axis=1), 1 + zero[0])
    return least - xp.log(total), xp.where(usable, scale * power / total[:, None], zero)
