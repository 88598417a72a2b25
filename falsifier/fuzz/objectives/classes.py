"""`top1` and `disagree` for networks whose first output is the class itself, not a score of each class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import EngineError
from falsifier.fuzz.behind import behind
from falsifier.fuzz.objectives import Finding, Judged, Model, Reproducer, finite_score
from falsifier.fuzz.objectives.disagree import demand_comparable, flat_outputs
from falsifier.fuzz.watch import Seen
from falsifier.network import Network
from falsifier.witness.text import decimals

Array = NDArray[Any]


class AnotherValue:
    """The class must be that of the start that a point descends from (or its label); a cause is a pair of classes."""

    name = "top1"

    def __init__(self, network: Network, starts: Array, labels: Array | None = None) -> None:
        self._network = network
        if labels is None:
            labels = np.array([network.reference.run_flat(s)[0] for s in starts])
        self._labels = labels.astype(np.float64)
        self._behind = behind(network, self._labels)

    def judge(self, x: Array, seen: Seen, oldest: Array) -> Judged:
        label, got = self._labels[oldest], seen.outputs[:, 0].astype(np.float64)
        hit = (got != label) & np.isfinite(got)
        score = hit.astype(np.float64) if self._behind is None else self._behind.gap(x, label)
        return Judged(hit, finite_score(score), paired(label, got, hit))

    def uphill(self, x: Array, oldest: Array) -> tuple[Array, Array]:
        """Towards the class that is nearest to winning."""
        if self._behind is None:
            raise EngineError("no gradient")
        return self._behind.uphill(x, self._labels[oldest])

    def confirm(self, x: Array, oldest: int) -> Finding | None:
        label, got = float(self._labels[oldest]), float(self._network.reference.run_flat(x)[0])
        if got == label or not np.isfinite(got):
            return None
        return Finding(
            f"class-{label:g}-to-{got:g}",
            f"class {got:g} instead of {label:g}",
            {"class": got, "label": label, "start": oldest},
        )

    def reproducer(self, x: Array, finding: Finding) -> Reproducer:
        label = finding.details["label"]
        lines = [
            "y = run(model, feed)[0].ravel()[0]",
            f"print('class', y, 'instead of {label:g}')",
            f"reproduced = bool(y != {label!r})",
        ]
        return Reproducer({"model": Model(self._network)}, lines)

    def atoms(self, finding: Finding, names: Sequence[str]) -> str | None:
        label = _number(finding.details["label"], self._network)
        return f"(or (< {names[0]} {label}) (> {names[0]} {label}))"


class AnotherDecision:
    """Two models whose first outputs are classes that should agree; a cause is a pair of classes."""

    name = "disagree"

    def __init__(self, network: Network, against: Network) -> None:
        demand_comparable(network, against)
        self._network, self._against = network, against
        self._other = against.engine("cpu")
        self._behind = behind(network)

    def judge(self, x: Array, seen: Seen, oldest: Array) -> Judged:
        ours = seen.outputs[:, 0].astype(np.float64)
        theirs = np.asarray(self._other.outputs(self._other.asarray(x)))[:, 0].astype(np.float64)
        hit = (ours != theirs) & np.isfinite(ours) & np.isfinite(theirs)
        score = hit.astype(np.float64) if self._behind is None else self._behind.gap(x, ours)
        return Judged(hit, finite_score(score), paired(ours, theirs, hit))

    def uphill(self, x: Array, oldest: Array) -> tuple[Array, Array]:
        """Towards where two classes tie."""
        if self._behind is None:
            raise EngineError("no gradient")
        return self._behind.uphill(x)

    def confirm(self, x: Array, oldest: int) -> Finding | None:
        ours = float(self._network.reference.run_flat(x)[0])
        theirs = float(self._against.reference.run_flat(x.astype(self._against.reference.dtype))[0])
        if ours == theirs or not np.isfinite([ours, theirs]).all():
            return None
        return Finding(
            f"class-{ours:g}-against-{theirs:g}",
            f"class {ours:g} against class {theirs:g}",
            {"class": ours, "against_class": theirs},
        )

    def reproducer(self, x: Array, finding: Finding) -> Reproducer:
        models = {"model": Model(self._network), "against": Model(self._against)}
        lines = [
            *flat_outputs(self._network),
            "print('classes', a[0], b[0])",
            "reproduced = bool(a[0] != b[0])",
        ]
        return Reproducer(models, lines)

    def atoms(self, finding: Finding, names: Sequence[str]) -> str | None:
        """Of flat outputs, ours before theirs."""
        ours = _number(finding.details["class"], self._network)
        theirs = _number(finding.details["against_class"], self._against)
        return f"(and (== {names[0]} {ours}) (== {names[len(names) // 2]} {theirs}))"


def paired(a: Array, b: Array, hit: Array) -> Array:
    """A number `[b]` for each pair of classes `[b]`, the same in every batch; 0 where there is no hit."""
    first, second = (np.where(hit, part, 0).astype(np.int64) for part in (a, b))
    return first * (1 << 20) + second


def _number(value: float, network: Network) -> str:
    (text,) = decimals(np.array([value]))
    return text if network.reference.outputs[0].dtype.kind == "f" else text.partition(".")[0]
