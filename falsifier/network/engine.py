"""What every engine offers: batches of flat points through a network, on one device and in one array namespace.

Axes: b lane, n flat input (row-major over the concatenated inputs), m flat output (over the concatenated outputs),
k atom.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from falsifier.objective import Ascent, ObjectiveForm

Array = Any


class Engine(Protocol):
    """Runs a network in batches. Row i of a result depends on row i of the input alone: it is what that sample gives.

    A run that does not fit into memory raises MemoryError: the caller tries fewer lanes at once.
    """

    name: str  # "onnxruntime", "torch", "single-sample"
    device: str  # "cpu", "cuda:0"
    dtype: np.dtype[Any]  # of points and outputs: float32 or float64
    n: int
    stepped: bool  # whether it passes gradients straight through steps, so that windows make a difference
    lane_bytes: int  # what the tensors of one lane's forward run take together; a gradient run holds about twice that

    @property
    def m(self) -> int:
        """Flat output size."""
        ...

    @property
    def differentiable(self) -> bool:
        """Whether `vjp` and `ascend` exist."""
        ...

    def asarray(self, x: NDArray[Any]) -> Array:
        """Host data as this engine's array type, dtype and device."""
        ...

    def outputs(self, x: Array) -> Array:
        """`[b, n]` -> `[b, m]`."""
        ...

    def activations(self, x: Array, tensors: Sequence[str]) -> dict[str, Array]:
        """Named tensors of the model from one run, each `[b, size]`. Raises EngineError for a name it does not know."""
        ...

    def vjp(self, x: Array, seed: Array, window: Array | None = None) -> tuple[Array, Array]:
        """Outputs `[b, m]` and the gradient `[b, n]` of sum(seed * outputs). `window` as in `ascend`."""
        ...

    def ascend(self, x: Array, objective: ObjectiveForm, window: Array | None = None) -> Ascent:
        """Outputs, slacks, score and its gradient in one run.

        `window` `[b]` chooses the straight-through gradient of Sign, Round, Floor and their like per lane: infinity
        (and None) passes the gradient everywhere, w > 0 only where abs(pre-activation) <= w * its mean magnitude in
        that tensor.
        """
        ...


@runtime_checkable
class Pulling(Protocol):
    """An engine that gives the gradient of a seed which depends on the outputs, without running forward twice."""

    def pull(self, x: Array, seed: Callable[[Array], Array], window: Array | None = None) -> tuple[Array, Array]:
        """Outputs `[b, m]` and the gradient `[b, n]` of sum(seed(outputs) * outputs), the seed held fixed."""
        ...


def pulled(
    engine: Engine, x: Array, seed: Callable[[Array], Array], window: Array | None = None
) -> tuple[Array, Array]:
    """`Pulling.pull` of any engine: of one that has none, a forward run and then a gradient."""
    pull = getattr(engine, "pull", None)  # an isinstance of a Protocol takes as long as a run of a small network
    if pull is not None:
        found: tuple[Array, Array] = pull(x, seed, window)
        return found
    outputs = engine.outputs(x)
    return outputs, engine.vjp(x, seed(outputs), window)[1]
