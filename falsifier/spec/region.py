"""Which atoms of the targets are about inputs alone: together with the boxes they are the region that is searched.

Axes: t target, k atom (or root of a tree), r form.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import to_host
from falsifier.spec.compile import Spec
from falsifier.spec.targets import Forms


def region_atoms(spec: Spec) -> NDArray[np.bool_] | None:
    """`[t, k]`: the atoms of inputs alone, of a tree the roots that are one; None where there are none."""
    targets = spec.targets
    if targets is None:
        return None
    atoms = to_host(targets.present) & _of_inputs(targets.forms)[to_host(targets.form)]
    if spec.tree is not None:
        roots = to_host(spec.tree.roots)
        single = roots < spec.tree.atoms
        atoms = np.where(single, atoms[0][np.where(single, roots, 0)], False)[None, :]
    return atoms if bool(atoms.any()) else None


def _of_inputs(forms: Forms) -> NDArray[np.bool_]:
    """`[r]`: which forms mention no output."""
    out: NDArray[np.bool_] = ~np.any(to_host(forms.outputs) != 0, axis=1)
    if forms.monomials is not None:
        first, m = len(forms.columns), int(forms.outputs.shape[1])
        factors = to_host(forms.monomials)
        computed = np.any((factors >= first) & (factors < first + m), axis=1)
        out &= ~np.any(to_host(forms.coefficients)[:, computed] != 0, axis=1)
    return out
