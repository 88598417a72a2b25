"""Whether a query only compares outputs with each other: an increasing change of all outputs then changes no answer."""

from __future__ import annotations

import numpy as np

from falsifier.arrays import to_host
from falsifier.spec.compile import Spec


def compares_outputs(spec: Spec) -> bool:
    """Whether every atom is c * (Y_i - Y_j) >= 0 or > 0, for any c."""
    targets = spec.targets
    if targets is None or spec.tree is not None:
        return False
    forms = targets.forms
    if forms.inputs is not None or forms.monomials is not None:
        return False
    rows = to_host(forms.outputs)
    pairs = (rows != 0).sum(axis=1) == 2
    bound = np.where(to_host(targets.present), to_host(targets.bound), 0)
    tiny = np.finfo(spec.dtype).tiny  # the reach of a strict zero is the smallest representable value
    return bool(np.all(pairs & (rows.sum(axis=1) == 0)) and np.all(np.abs(bound) < tiny))
