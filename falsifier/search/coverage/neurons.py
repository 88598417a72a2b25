"""Neuron coverage: a neuron has fired once its activation exceeded a threshold (paper A, 17)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from falsifier.arrays import Array, namespace


@dataclass
class Neurons:
    """A lane is novel if it fires a neuron that no lane fired in an earlier step. Maps count by channel."""

    threshold: float = 0.1
    name: str = "neurons"
    channels: bool = True
    _fired: Array = field(default=None, repr=False)

    def watch(self, layers: Sequence[str]) -> Sequence[str]:
        return layers

    def novel(self, activations: Array) -> Array:
        xp = namespace(activations)
        fires = activations > self.threshold
        if self._fired is None:
            self._fired = fires[0] & False
        new = xp.any(fires & ~self._fired, axis=1)
        self._fired = self._fired | xp.any(fires, axis=0)
        return new

    def figures(self) -> dict[str, int]:
        if self._fired is None:
            return {"fired": 0, "neurons": 0}
        return {"fired": int(self._fired.sum()), "neurons": int(self._fired.shape[0])}
