"""What is allowed for rounding: how far below a bound an atom has to stay before a box counts as refuted.

Bounds are computed in float64, the network that decides runs in its own type, mostly float32. The allowance for a
target is the larger of 64 units in the last place of that type and 8 times the largest deviation seen between the
original network (onnxruntime, single samples) and the float64 network at points of the region, both relative to the
magnitude of what the target's atoms add up: sum |row| * max |output| + |bound|. It is an estimate, not a proof: the
arithmetic of such an `unsat` is floating point.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier_adapters.lirpa_region import Region

Floats = NDArray[np.float64]

ULPS, TIMES = 64, 8


class Allowance:
    """Grows with what is seen. Axes: b point, t target, k atom, m output with the inputs that rows mention."""

    def __init__(self, region: Region, dtype: np.dtype[Any]) -> None:
        self._region = region
        self._ulp = float(np.finfo(dtype).eps)
        self._weight = np.abs(region.rows).max(axis=1, initial=0.0)  # [t, m]
        self._bound = np.where(region.present, np.abs(region.bound), 0.0).max(axis=1, initial=0.0)  # [t]
        self._largest = np.zeros(region.rows.shape[2])
        self.relative = ULPS * self._ulp

    def see(self, exact: Floats, replayed: Floats, target: NDArray[np.int64]) -> None:
        """Outputs `[b, m]` in float64 and of the original network at the same points, of these targets `[b]`."""
        finite = np.isfinite(exact) & np.isfinite(replayed)
        self._largest = np.maximum(self._largest, np.where(finite, np.abs(exact), 0.0).max(axis=0, initial=0.0))
        off = np.abs(self._region.rows[target] @ np.where(finite, replayed - exact, 0.0)[:, :, None])[:, :, 0]
        size = self._magnitude()[target]
        worst = np.max(off.max(axis=1, initial=0.0) / np.maximum(size, np.finfo(float).tiny), initial=0.0)
        if not finite.all():
            worst = np.inf
        self.relative = max(self.relative, TIMES * float(worst))

    def of_targets(self) -> Floats:
        """The allowance of every target `[t]`."""
        return np.asarray(self.relative * self._magnitude())

    def _magnitude(self) -> Floats:
        return np.asarray(self._weight @ self._largest + self._bound)
