"""The way of points into what targets ask of inputs alone besides their boxes.

Several comparisons of one form are a slab `low <= form <= high`. Points are moved to the nearest ones of the slabs and
the box (`polytope.py`), in widths of the box; where forms are curved, slabs are replaced by those of the tangents, anew
in every round (Newton's corrections). What is asked for is a little more than the slabs, an allowance for the rounding
of inputs and of sums in the network's type. Points that end outside all the same are pulled towards the region's
centre; what is still outside then, where no centre was found, is what search has to raise as before.

Axes: b lane, t target, k atom or slab, r form, g free input that some slab mentions, c input of the networks that some
does, f free input, n flat input.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.records import replaced
from falsifier.spec.compile import Spec
from falsifier.spec.margin import form_gradients, form_values
from falsifier.spec.polytope import Slabs, nearest
from falsifier.spec.region import region_atoms
from falsifier.spec.targets import Forms
from falsifier.spec.whole import repaired

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

_MOST_SLABS, _MOST_NUMBERS, _MOST_CELLS = 128, 1 << 17, 1 << 22  # of a target; in its rows; of all targets
_LANE_CELLS = 1 << 23  # numbers in the rows of the lanes that are moved at once
_ROUNDING, _LEAST = (
    4.0,
    1e-9,
)  # what is asked for beyond the ends of a form: units of rounding of its largest sum, and at
# least a share of that, since projections stop short
_CORRECTIONS = 6  # of curved slabs
_INSIDE = 0.25  # allowances that a point must be inside of slabs to stay where it is
_PULLS = (1e-7, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.3, 1.0)  # shares of the way to the centre
_STARTS = 8  # from which the centre of a curved region is sought
_DEPTHS = 12  # powers of 1/4 of the box's width that a centre may lie inside
_STEPS, _BRIEF = 30, 15  # of a projection, at most; where many must fail


def region_of(spec: Spec) -> Region | None:
    """The region of a spec; None where boxes are all there is, or the region is too large to move points into."""
    atoms = region_atoms(spec)
    if atoms is None or spec.targets is None or spec.domain is None:
        return None
    targets, domain = spec.targets, spec.domain
    place = np.nonzero(atoms)
    column = place[1] if spec.tree is None else spec.tree.roots[place[1]]
    target, form, sign, bound = (
        place[0],
        targets.form[place[0], column],
        targets.sign[place[0], column],
        targets.bound[place[0], column].astype(np.float64),
    )
    used, form = np.unique(form, return_inverse=True)
    key, slab = np.unique(target * len(used) + form, return_inverse=True)
    ends = np.full((2, len(key)), -np.inf)
    np.maximum.at(ends, (np.where(sign > 0, 0, 1), slab), bound)
    owner = key // len(used)
    rank = np.arange(len(key)) - np.searchsorted(owner, owner)
    most = int(rank.max()) + 1
    if most > _MOST_SLABS or targets.t * most > _MOST_CELLS:
        return None
    columns, inputs, into, base = _read(targets.forms, used, spec)
    if not 0 < len(columns) * most <= _MOST_NUMBERS or len(columns) * targets.t > _MOST_CELLS:
        return None
    number = np.zeros((targets.t, most), np.int64)
    low, high = np.full((targets.t, most), -np.inf), np.full((targets.t, most), np.inf)
    number[owner, rank] = key % len(used)
    low[owner, rank], high[owner, rank] = ends[0], -ends[1]
    row = np.zeros(targets.t, np.int64) if len(targets.lower) == 1 else np.arange(targets.t)
    if targets.box is not None:
        row = targets.box
    sides = (targets.lower[:, columns], targets.upper[:, columns])
    return Region(columns, inputs, into, base, number, low, high, sides, row, domain.integer[columns], spec.dtype)


def _read(forms: Forms, used: Ints, spec: Spec) -> tuple[Ints, Forms, Floats, Floats]:
    """The free inputs `[g]` that forms `used` read, these forms over the inputs `[c]` that they mention, and how those
    follow from the free ones: x = into `[c, g]` @ p + base `[c]`.
    """
    domain = spec.domain
    assert domain is not None
    weights = np.zeros((len(used), len(forms.columns)))
    if forms.inputs is not None:
        weights = forms.inputs[used].astype(np.float64)
    mentioned = np.any(weights != 0, axis=0)
    monomials = coefficients = None
    if forms.monomials is not None:
        coefficients = forms.coefficients[used].astype(np.float64)
        some = np.any(coefficients != 0, axis=0)
        monomials, coefficients = forms.monomials[some], coefficients[:, some]
        factors = monomials[monomials < len(forms.columns)]
        mentioned[factors] = True
    kept = np.flatnonzero(mentioned)
    renumbered = np.full(len(forms.columns) + 1, len(kept))
    renumbered[kept] = np.arange(len(kept))
    if monomials is not None:
        monomials = renumbered[np.minimum(monomials, len(forms.columns))]
        if not monomials.size:
            monomials = coefficients = None
    inputs = forms.columns[kept]
    if len(inputs) * domain.n > _MOST_CELLS * 16:
        return np.zeros(0, np.int64), forms, np.zeros((0, 0)), np.zeros(0)
    single = np.zeros((len(inputs), domain.n))
    single[np.arange(len(inputs)), inputs] = 1
    into = domain.pull(single).astype(np.float64)
    plain = replaced(domain, lattice=None, band=None)
    base = plain.embed(np.zeros((1, domain.f), spec.dtype))[0, inputs].astype(np.float64)
    columns = np.flatnonzero(np.any(into != 0, axis=0))
    out = Forms(np.zeros((len(used), 0)), np.arange(len(kept)), weights[:, kept], monomials, coefficients)
    return columns, out, into[:, columns], base


class Region:
    """Slabs of forms over the free inputs `columns` `[g]`, for every target."""

    def __init__(
        self,
        columns: Ints,
        forms: Forms,
        into: Floats,
        base: Floats,
        number: Ints,
        low: Floats,
        high: Floats,
        sides: tuple[NDArray[Any], NDArray[Any]],
        box: Ints,
        integer: Flags,
        dtype: np.dtype[Any],
    ) -> None:
        """forms over inputs `into @ p + base`; number, low, high `[t, k]`; the boxes' sides `[u, g]`, box `[t]`."""
        self.columns, self._forms, self._into, self._base = columns, forms, into, base
        self._number, self._low, self._high = number, low, high
        self._sides, self._box, self._integer = sides, box, integer
        self._dtype = dtype
        self._linear = forms.inputs @ into  # [r, g]
        self.curved = forms.monomials is not None
        self._whole = bool(integer.any())
        self._centre, self._sought = np.full((len(number), len(columns)), np.nan), np.zeros(len(number), bool)
        ends = np.maximum(np.abs(sides[0]), np.abs(sides[1])).max(axis=0).astype(np.float64)
        reach = np.abs(into) @ ends + np.abs(base)
        size = np.abs(forms.inputs) @ reach
        if forms.monomials is not None:
            factors = np.append(reach, 1.0)[forms.monomials]
            size += np.abs(forms.coefficients) @ np.prod(factors, axis=1)
        slip = max(_ROUNDING * float(np.finfo(dtype).eps), _LEAST) * size[number]
        self._slip = np.where(np.isfinite(low) & np.isfinite(high), np.minimum(slip, (high - low) / 4), slip)

    # --- values ---

    def values(self, points: Floats, target: Ints) -> Floats:
        """The forms of lanes' slabs at points `[b, g]`: `[b, k]`."""
        inputs = points @ self._into.T + self._base
        every = form_values(self._forms, inputs, np.zeros((len(points), 0)))
        return np.asarray(np.take_along_axis(every, self._number[target], axis=1))

    def lack(self, points: Floats, target: Ints, slip: float = 0.0) -> Floats:
        """How far forms have to rise, or, where negative, to fall to be `slip` allowances inside: `[b, k]`."""
        value, more = self.values(points, target), slip * self._slip[target]
        out = np.maximum(self._low[target] + more - value, 0) + np.minimum(self._high[target] - more - value, 0)
        return np.where(np.isnan(out), np.inf, out)

    def _rows(self, points: Floats, target: Ints) -> Floats:
        """The forms' gradients at points: `[b, k, g]`, or `[1, k, g]` where all lanes share them."""
        if not self.curved:
            rows: Floats = self._linear[self._number[:1] if len(self._number) == 1 else self._number[target]]
            return rows
        number = self._number[target]
        b, k = number.shape
        inputs = np.repeat(points @ self._into.T + self._base, k, axis=0)
        by_x = form_gradients(self._forms, number.reshape(-1, 1), np.ones((b * k, 1)), inputs, np.zeros((b * k, 0)))[1]
        return np.asarray((by_x @ self._into).reshape(b, k, -1))

    def holds(self, points: NDArray[Any], target: Ints) -> Flags:
        """Which points `[b, f]` of the targets' boxes lie in the slabs."""
        return np.asarray((self.lack(points[:, self.columns].astype(np.float64), target) == 0).all(axis=1))

    # --- moves ---

    def settled(self, points: NDArray[Any], target: Ints) -> NDArray[Any]:
        """Points `[b, f]` of the targets' boxes `[b]`, those outside of the slabs moved inside where that succeeds.

        All that a point depends on is the point itself and its target.
        """
        part = points[:, self.columns].astype(np.float64)
        if self._whole:
            part = self._rounded(part, *self._bounds(target))
            points = points.copy()
            points[:, self.columns] = part
        out = np.flatnonzero((self.lack(part, target, _INSIDE) != 0).any(axis=1))
        if not out.size:
            return points
        size = max(1, _LANE_CELLS // (self._number.shape[1] * len(self.columns)))
        moved = points.copy()
        for first in range(0, out.size, size):
            lanes = out[first : first + size]
            moved[np.ix_(lanes, self.columns)] = self._moved(part[lanes], target[lanes])
        return moved

    def _moved(self, points: Floats, target: Ints) -> NDArray[Any]:
        lower, upper = self._bounds(target)
        x = self._near(points, target, lower, upper)
        if self._whole:
            fixed = self._rounded(x, lower, upper)
            if not self._integer.all():
                low, high = (np.where(self._integer, fixed, side) for side in (lower, upper))
                fixed = self._near(fixed, target, low, high)
            if not self.curved:
                fixed = self._repaired(fixed, target, lower, upper)
            return self._cast(fixed, target)
        return self._pulled(x, target)

    def _rounded(self, x: Floats, lower: Floats, upper: Floats) -> Floats:
        return np.where(self._integer, np.clip(np.round(x), np.ceil(lower), np.floor(upper)), x)

    def _repaired(self, x: Floats, target: Ints, lower: Floats, upper: Floats) -> Floats:
        bad = np.flatnonzero((self.lack(x, target) != 0).any(axis=1))
        if bad.size:
            aims = target[bad]
            rows = self._rows(x[bad], aims)
            ends = self._low[aims], self._high[aims]
            x[bad] = repaired(x[bad], self.values(x[bad], aims), rows, ends, (lower[bad], upper[bad]), self._integer)
        return x

    def _near(
        self,
        points: Floats,
        target: Ints,
        lower: Floats,
        upper: Floats,
        inner: Floats | None = None,
        iterations: int = _STEPS,
    ) -> Floats:
        """Points near the given ones, an allowance inside of the slabs; `inner` `[b, k]`: farther inside."""
        width = upper - lower
        per_width = np.where(width > 0, 1 / np.where(width > 0, width, 1), 0.0)
        x = np.clip(points, lower, upper)
        more = self._slip[target] if inner is None else inner
        left = np.arange(len(x))
        for _ in range(_CORRECTIONS if self.curved else 1):
            aims, w, at = target[left], width[left], x[left]
            same = len(self._box) == 1 or np.all(self._box[aims] == self._box[aims[0]])
            rows = self._rows(at, aims)
            rows = rows * (w[:1] if len(rows) == 1 and same else w)[:, None, :]
            length = np.sqrt(np.vecdot(rows, rows))
            scale = np.where(length > 0, length, 1.0)
            unit = (at - lower[left]) * per_width[left]
            value = self.values(at, aims)
            slabs = Slabs(rows / scale[:, :, None], np.zeros(0), np.zeros(0))
            offset = slabs.values(unit) - value / scale
            low = (self._low[aims] + more[left]) / scale + offset
            high = (self._high[aims] - more[left]) / scale + offset
            dead = length <= 0
            slabs = Slabs(slabs.rows, np.where(dead, -np.inf, low), np.where(dead, np.inf, high))
            enough = more[left] / scale / 2
            moved = nearest(unit, slabs, np.zeros_like(unit), np.where(w > 0, 1.0, 0.0), enough, iterations)[0]
            x[left] = np.clip(lower[left] + moved * w, lower[left], upper[left])
            if self.curved:
                off = np.abs(self._off(x[left], aims, more[left]))
                left = left[(off > 0).any(axis=1)]
                if not left.size:
                    break
        return x

    def _off(self, points: Floats, target: Ints, more: Floats) -> Floats:
        """What slabs lack to be at least half of `more` inside."""
        value = self.values(points, target)
        return np.maximum(self._low[target] + more / 2 - value, 0) + np.minimum(
            self._high[target] - more / 2 - value, 0
        )

    def _pulled(self, x: Floats, target: Ints) -> NDArray[Any]:
        """Points as the network's type has them, those outside pulled towards the centre of their region."""
        out = self._cast(x, target)
        bad = self._outside(out, target)
        if not bad.size:
            return out
        centre = self.centres(target[bad])
        there = np.isfinite(centre[:, 0])
        bad, centre = bad[there], centre[there]
        for share in _PULLS:
            out[bad] = self._cast(x[bad] + share * (centre - x[bad]), target[bad])
            left = self._outside(out[bad], target[bad])
            bad, centre = bad[left], centre[left]
            if not bad.size:
                break
        return out

    def _outside(self, points: NDArray[Any], target: Ints) -> Ints:
        return np.flatnonzero((self.lack(points.astype(np.float64), target, _INSIDE) != 0).any(axis=1))

    def _cast(self, x: Floats, target: Ints) -> NDArray[Any]:
        row = self._box[target]
        lower, upper = self._sides[0][row], self._sides[1][row]
        return np.asarray(np.clip(x.astype(self._dtype), lower, upper))

    def _bounds(self, target: Ints) -> tuple[Floats, Floats]:
        row = self._box[target]
        return self._sides[0][row].astype(np.float64), self._sides[1][row].astype(np.float64)

    def centres(self, target: Ints) -> Floats:
        """A point `[b, g]` of each target's region, about as far inside as there is; NaN where none was found.

        Sought once for every target.
        """
        fresh = np.unique(target[~self._sought[target]])
        if fresh.size:
            self._centre[fresh] = self._deepest(fresh)
            self._sought[fresh] = True
        return np.asarray(self._centre[target])

    def _deepest(self, target: Ints) -> Floats:
        """Points `[b, g]` as many widths inside of slabs and box as of the depths 1/4, 1/16, ... can be had."""
        centre = np.full((len(target), len(self.columns)), np.nan)
        tries = _STARTS if self.curved else 1
        owner = np.repeat(np.arange(len(target)), tries)
        aims = target[owner]
        lower, upper = self._bounds(aims)
        unit = np.random.default_rng(0).random(lower.shape)  # the middle of a ball is a poor place to start from
        unit[::tries] = 0.5
        x = lower + unit * (upper - lower)
        thickness = (self._high - self._low)[aims]
        room = np.where(np.isfinite(thickness), 0.4 * thickness, np.inf)
        rows = self._rows(x, aims) * (upper - lower)[:, None, :]
        reach = np.broadcast_to(np.sqrt(np.vecdot(rows, rows)), room.shape)
        left = np.arange(len(aims))
        for power in range(1, _DEPTHS):
            depth = 0.25**power
            inner = np.minimum(depth * reach, room)[left]
            ends = (upper - lower)[left] * depth
            moved = self._near(x[left], aims[left], lower[left] + ends, upper[left] - ends, inner, _BRIEF)
            good = np.flatnonzero((self._off(moved, aims[left], inner) == 0).all(axis=1))
            centre[owner[left[good]][::-1]] = moved[good][::-1]  # the first start that succeeds
            left = left[np.isnan(centre[owner[left], 0])]
            if not left.size:
                break
        return centre

    def along(self, points: NDArray[Any], gradient: NDArray[Any], target: Ints, share: float = 0.02) -> NDArray[Any]:
        """Gradients `[b, f]` without what would lead out of the slabs: by where a step of `share` widths of the box
        along them ends once it is moved inside.
        """
        lower, upper = self._bounds(target)
        part = points[:, self.columns].astype(np.float64)
        part_slope = gradient[:, self.columns].astype(np.float64) * (upper - lower)
        longest = np.abs(part_slope).max(axis=1, initial=0.0)[:, None]
        usable = np.isfinite(longest) & (longest > 0)
        length = share / np.where(usable, longest, 1.0)
        step = np.where(usable, part_slope, 0.0) * length * (upper - lower)
        there = np.clip(part + step, lower, upper)
        out = np.flatnonzero((self.lack(there, target, _INSIDE) != 0).any(axis=1) & usable[:, 0])
        if not out.size:
            return gradient
        end = self._near(there[out], target[out], lower[out], upper[out])
        width = (upper - lower)[out]
        moved = (end - part[out]) / np.where(width > 0, width, 1.0) ** 2 / length[out]
        new = gradient.copy()
        new[np.ix_(out, self.columns)] = moved
        return new
