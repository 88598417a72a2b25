"""Objectives: what a fuzzer looks for. One file per kind; a user's own comes in by `module:function`.

Axes: b lane, n flat input, m flat output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from falsifier.fuzz.watch import Seen
from falsifier.network import Network

Array = NDArray[Any]


@dataclass(frozen=True)
class Judged:
    """What an objective makes of a batch. Row i says something about lane i.

    hit: bool `[b]`. score: `[b]`, larger is nearer to a hit; used to choose parents, so that its scale is free; never
    NaN. label: int64 `[b]`, of hits that have the same cause as far as the batch tells; signature: int64 `[b]`, of what
    makes an entry worth keeping beyond coverage (a value not seen before is kept), None for none.
    """

    hit: Array
    score: Array
    label: Array
    signature: Array | None = None


@dataclass(frozen=True)
class Finding:
    """What is wrong at one point, on the original files. Hits are deduplicated by `cause`; JSON takes `details`."""

    cause: str
    summary: str
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
    """A model that a reproducer runs: `network`, with `tensors` that have to be made outputs first."""

    network: Network
    tensors: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reproducer:
    """How a hit is shown without this package: `models` by variable name, and lines of Python behind their loading.

    The lines find `run(model, feed)`, a list of outputs, and `feed`, the inputs by name; the last one asserts nothing
    and sets `reproduced`.
    """

    models: dict[str, Model]
    lines: Sequence[str]


class Objective(Protocol):
    """Judges batches while searching, and single points on the original files before they are reported."""

    name: str

    def judge(self, x: Array, seen: Seen, oldest: Array) -> Judged:
        """A whole batch `[b, n]`. oldest: int64 `[b]`, the starts that the points descend from."""
        ...

    def confirm(self, x: Array, oldest: int) -> Finding | None:
        """One point `[n]`, on onnxruntime's CPU and the original file; None where nothing is wrong."""
        ...

    def reproducer(self, x: Array, finding: Finding) -> Reproducer:
        """The script for a confirmed point."""
        ...


@runtime_checkable
class Uphill(Protocol):
    """An objective with a gradient: what the mutator `uphill` follows."""

    def uphill(self, x: Array, oldest: Array) -> tuple[Array, Array]:
        """value `[b]`, at least 0 where a point is a hit or nearly, and its gradient `[b, n]`, finite."""
        ...


@runtime_checkable
class Scripted(Protocol):
    """What a query needs to know of an objective: see `as_query`."""

    def atoms(self, finding: Finding, names: Sequence[str]) -> str | None:
        """The 2.0 formula over outputs that the finding satisfies; None where no query can say it.

        names: of the output variables, those of the first network before those of the second.
        """
        ...


def finite_score(score: Array) -> Array:
    """Scores with the lowest number in place of NaN, and finite."""
    return np.nan_to_num(score.astype(np.float64), nan=-1e300, posinf=1e300, neginf=-1e300)
