"""What the array API standard lacks, for numpy arrays and torch tensors alike, and the axis glossary.

Axes, used in every docstring: b lane, n flat input of the networks, f free input (what search moves), m flat output,
t target, k atom of a target, r distinct form.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any  # a numpy array or a torch tensor


def namespace(x: Array) -> Any:
    """The array namespace of `x`: numpy itself (it follows the standard, and the wrapper costs 0.2 s to import), or torch's."""
    if isinstance(x, np.ndarray):
        return np
    from array_api_compat import array_namespace

    return array_namespace(x)
