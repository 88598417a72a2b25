"""Several networks as one: inputs side by side in the query's order, outputs (hidden tensors first) likewise.

Its program is the merge of theirs, so that engines, adjoints and the search know nothing of it. Networks that share a
model share its constants. Where one of them cannot be lowered, all run one sample at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from falsifier.network.load import Network
from falsifier.network.reference import Reference

if TYPE_CHECKING:
    from falsifier.network.engine import Engine
    from falsifier.network.lowering import Lowered
    from falsifier.network.selection import Attempt


class JointReference:
    """The references of several networks, one sample each."""

    def __init__(self, references: Sequence[Reference]) -> None:
        self._references = tuple(references)
        self.inputs = tuple(info for reference in references for info in reference.inputs)
        self.n = sum(reference.n for reference in references)
        self.dtype = np.result_type(*(reference.dtype for reference in references))
        self._ends = np.cumsum([reference.n for reference in references])[:-1]

    @property
    def m(self) -> int:
        """How many numbers a point gives. May run networks once, where they leave output shapes open."""
        return sum(reference.m for reference in self._references)

    def run_flat(self, x: NDArray[Any]) -> NDArray[Any]:
        """`[n]` -> `[m]`, in float32 (float64 where an input of any network is). Raises InputError where one fails."""
        parts = np.split(x, self._ends)
        results = [
            r.run_flat(part.astype(r.dtype, copy=False)) for r, part in zip(self._references, parts, strict=True)
        ]
        return np.concatenate(results).astype(self.dtype, copy=False)


class JointNetwork:
    """Several networks as something to search: what `Network` offers for that."""

    def __init__(self, networks: Sequence[Network]) -> None:
        """One network per declaration of the query, in its order; one that stands for several occurs several times."""
        self._networks = tuple(networks)
        self.report: tuple[Attempt, ...] = ()
        self.engines: dict[tuple[str, str], Engine] = {}

    @cached_property
    def reference(self) -> JointReference:
        """The originals in onnxruntime. Raises InputError where one cannot be loaded."""
        return JointReference([network.reference for network in self._networks])

    @cached_property
    def lowered(self) -> Lowered:
        """The merged program. Raises UnsupportedError where one of the models cannot be lowered."""
        from falsifier.network.merging import merge

        return merge([network.lowered for network in self._networks])

    def engine(
        self, device: str = "auto", box: tuple[NDArray[Any], NDArray[Any]] | None = None, *, check: bool = True
    ) -> Engine:
        """The engine of all networks together, chosen as `Network.engine` chooses."""
        from falsifier.network.selection import choose

        engine, self.report = choose(self, device, box, check=check)
        return engine
