"""Aims: the rows of targets that the lanes of a batch read, gathered once for as long as the same lanes step.

Axes: b lane, k atom, m flat output, r form.
"""

from __future__ import annotations

from functools import cached_property

from falsifier.arrays import Array, arange, full, gather, is_numpy, namespace
from falsifier.spec.targets import Forms, Targets


class Aim:
    """What the atoms of b lanes are: form, sign, bound, present `[b, k]`, or `[1, k]` where there is one target.

    present is None where no atom is padding.
    """

    def __init__(self, forms: Forms, lanes: int, form: Array, sign: Array, bound: Array, present: Array | None) -> None:
        self._forms, self._lanes = forms, lanes
        self.form, self.sign, self.bound, self.present = form, sign, bound, present

    @cached_property
    def rows(self) -> Array:
        """The outputs' part of each atom, `[b, k, m]` or `[1, k, m]`."""
        return self.sign[:, :, None] * self._forms.outputs[self.form]

    @cached_property
    def offset(self) -> Array:
        """What an atom adds to that where it mentions no input: `[b, k]`."""
        return self.of_lanes(-self.bound)

    @cached_property
    def ones(self) -> Array:
        """Scales that change nothing: 1 `[b, k]`, 0 for padding."""
        return self.unpadded(full((self._lanes, int(self.form.shape[1])), 1.0, self.bound))

    def unpadded(self, scale: Array) -> Array:
        """Scales `[b, k]` with 0 for padding."""
        if self.present is None:
            return scale
        return namespace(scale).where(self.present, scale, full((1, 1), 0.0, scale))

    def of_lanes(self, atoms: Array) -> Array:
        """`[1, k]` or `[b, k]` as `[b, k]`."""
        if atoms.shape[0] == self._lanes:
            return atoms
        return full((self._lanes, 1), 0.0, atoms) + atoms

    def values(self, by_form: Array) -> Array:
        """What the lanes' atoms read of the values of all forms: `[b, r]` to `[b, k]`."""
        if not is_numpy(by_form):
            return gather(by_form, self.form)
        return by_form.reshape(-1).take(self._place)

    @cached_property
    def _place(self) -> Array:
        """Positions of atoms' forms in `[b, r]` laid out row after row."""
        return arange(self._lanes, self.form)[:, None] * self._forms.r + self.form


class Aims:
    """Makes aims from the targets of lanes."""

    def __init__(self, targets: Targets, padded: bool) -> None:
        self._targets, self._padded = targets, padded
        self._target: Array | None = None
        self._last: Aim

    def made(self, target: Array) -> Aim:
        """The aim of lanes with targets `[b]`."""
        rows, lanes = self._targets, int(target.shape[0])
        if rows.t == 1:
            present = rows.present if self._padded else None
            return Aim(rows.forms, lanes, rows.form, rows.sign, rows.bound, present)
        present = rows.present[target] if self._padded else None
        return Aim(rows.forms, lanes, rows.form[target], rows.sign[target], rows.bound[target], present)

    def kept(self, target: Array) -> Aim:
        """The same, kept until lanes with another array of targets ask: lanes that step are not gathered anew.

        The array must not be written to afterwards.
        """
        if self._target is not target:
            self._target, self._last = target, self.made(target)
        return self._last
