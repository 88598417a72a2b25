"""`top1` and `disagree` for networks whose first output is the class itself, or a map of classes, not a score of each.

Axes: b lane, n flat input, k classes of one sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import EngineError, InputError
from falsifier.fuzz.behind import behind
from falsifier.fuzz.objectives import Finding, Judged, Model, Reproducer, finite_score
from falsifier.fuzz.objectives.disagree import demand_comparable, flat_outputs
from falsifier.fuzz.objectives.naming import element, pair
from falsifier.fuzz.watch import Seen
from falsifier.network import Network
from falsifier.witness.text import decimals

Array = NDArray[Any]


class AnotherValue:
    """The class, or each of a map of `k` classes, must be that of the start that a point descends from (or its label);
    a cause is a pair of classes.
    """

    name = "top1"

    def __init__(self, network: Network, starts: Array, labels: Array | None = None, k: int = 1) -> None:
        """Raises InputError for labels beside a map of classes."""
        self._network, self._k = network, k
        if labels is None:
            labels = np.stack([network.reference.run_flat(s)[:k] for s in starts])
        elif k > 1:
            raise InputError(f"{network.origin}: gives {k} classes for a sample, labels say one: leave out the labels")
        self._labels = labels.astype(np.float64).reshape(-1, k)
        self._behind = behind(network, self._labels[:, 0]) if k == 1 else None

    def judge(self, x: Array, seen: Seen, oldest: Array) -> Judged:
        label, got = self._labels[oldest], seen.outputs[:, : self._k].astype(np.float64)
        return _judged(label, got, None if self._behind is None else self._behind.gap(x, label[:, 0]))

    def uphill(self, x: Array, oldest: Array) -> tuple[Array, Array]:
        """Towards the class that is nearest to winning."""
        if self._behind is None:
            raise EngineError("no gradient")
        return self._behind.uphill(x, self._labels[oldest, 0])

    def confirm(self, x: Array, oldest: int) -> Finding | None:
        found = _first(self._labels[oldest], self._network.reference.run_flat(x)[: self._k])
        if found is None:
            return None
        at, label, got, more = found
        return Finding(
            f"class-{label:g}-to-{got:g}",
            f"class {got:g} instead of {label:g}{_where(self._network, at, self._k, more)}",
            {"class": got, "label": label, "start": oldest, "element": at},
        )

    def reproducer(self, x: Array, finding: Finding) -> Reproducer:
        label, at = finding.details["label"], finding.details["element"]
        lines = [
            f"y = run(model, feed)[0].ravel()[{at}]",
            f"print('class', y, 'instead of {label:g}')",
            f"reproduced = bool(y != {label!r})",
        ]
        return Reproducer({"model": Model(self._network)}, lines)

    def atoms(self, finding: Finding, names: Sequence[str]) -> str | None:
        label, name = _number(finding.details["label"], self._network), names[finding.details["element"]]
        return f"(or (< {name} {label}) (> {name} {label}))"


class AnotherDecision:
    """Two models whose first outputs are classes, or maps of `k` classes, that should agree; a cause is a pair."""

    name = "disagree"

    def __init__(self, network: Network, against: Network, k: int = 1) -> None:
        demand_comparable(network, against)
        self._network, self._against, self._k = network, against, k
        self._other = against.engine("cpu")
        self._behind = behind(network) if k == 1 else None

    def judge(self, x: Array, seen: Seen, oldest: Array) -> Judged:
        ours = seen.outputs[:, : self._k].astype(np.float64)
        theirs = np.asarray(self._other.outputs(self._other.asarray(x)))[:, : self._k].astype(np.float64)
        return _judged(ours, theirs, None if self._behind is None else self._behind.gap(x, ours[:, 0]))

    def uphill(self, x: Array, oldest: Array) -> tuple[Array, Array]:
        """Towards where two classes tie."""
        if self._behind is None:
            raise EngineError("no gradient")
        return self._behind.uphill(x)

    def confirm(self, x: Array, oldest: int) -> Finding | None:
        ours = self._network.reference.run_flat(x)[: self._k]
        theirs = self._against.reference.run_flat(x.astype(self._against.reference.dtype))[: self._k]
        found = _first(ours, theirs)
        if found is None:
            return None
        at, mine, its, more = found
        own, other = pair(self._network, self._against)
        return Finding(
            f"class-{mine:g}-against-{its:g}",
            f"class {mine:g} of {own} against class {its:g} of {other}{_where(self._network, at, self._k, more)}",
            {"class": mine, "against_class": its, "element": at},
        )

    def reproducer(self, x: Array, finding: Finding) -> Reproducer:
        models, at = {"model": Model(self._network), "against": Model(self._against)}, finding.details["element"]
        lines = [
            *flat_outputs(self._network),
            f"print('classes', a[{at}], b[{at}])",
            f"reproduced = bool(a[{at}] != b[{at}])",
        ]
        return Reproducer(models, lines)

    def atoms(self, finding: Finding, names: Sequence[str]) -> str | None:
        """Of flat outputs, ours before theirs."""
        ours = _number(finding.details["class"], self._network)
        theirs = _number(finding.details["against_class"], self._against)
        at = finding.details["element"]
        return f"(and (== {names[at]} {ours}) (== {names[len(names) // 2 + at]} {theirs}))"


def _judged(a: Array, b: Array, gap: Array | None) -> Judged:
    """Of classes `[b, k]` that should be equal. gap: how near the points are to another class, where that is known."""
    differs = (a != b) & np.isfinite(a) & np.isfinite(b)
    hit, at = differs.any(axis=1), differs.argmax(axis=1)[:, None]
    score = differs.sum(axis=1).astype(np.float64) if gap is None else gap
    first, second = (np.take_along_axis(part, at, 1)[:, 0] for part in (a, b))
    return Judged(hit, finite_score(score), paired(first, second, hit))


def _first(a: Array, b: Array) -> tuple[int, float, float, int] | None:
    """The first element where classes `[k]` differ, both classes, and in how many more they do; None for nowhere."""
    differs = np.flatnonzero((a != b) & np.isfinite(a) & np.isfinite(b))
    if not differs.size:
        return None
    at = int(differs[0])
    return at, float(a[at]), float(b[at]), differs.size - 1


def _where(network: Network, at: int, k: int, more: int) -> str:
    """Where in a map of `k` classes, as the end of a sentence."""
    if k == 1:
        return ""
    rest = f" and {more} of its other elements" if more else ""
    return f", in {element(network.reference.outputs, at)}{rest}"


def paired(a: Array, b: Array, hit: Array) -> Array:
    """A number `[b]` for each pair of classes `[b]`, the same in every batch; 0 where there is no hit."""
    first, second = (np.where(hit, part, 0).astype(np.int64) for part in (a, b))
    return first * (1 << 20) + second


def _number(value: float, network: Network) -> str:
    (text,) = decimals(np.array([value]))
    return text if network.reference.outputs[0].dtype.kind == "f" else text.partition(".")[0]
