"""Properties of the outputs themselves: a range that they must stay in, a class that must stay the start's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import EngineError
from falsifier.fuzz.objectives import Finding, Judged, Model, Reproducer
from falsifier.fuzz.objectives.naming import element
from falsifier.fuzz.watch import Seen
from falsifier.network import Network
from falsifier.witness.text import decimals

Array = NDArray[Any]


class OutsideRange:
    """Outputs below `low` or above `high`; a cause is an output element and a side. NaN is no hit."""

    name = "range"

    def __init__(self, network: Network, low: float, high: float) -> None:
        self._network, self._low, self._high = network, low, high
        self._own = network.engine("cpu")

    def _excess(self, outputs: Array) -> Array:
        """`[b, 2 m]`: how far beyond the low end, then how far beyond the high end."""
        wide = outputs.astype(np.float64)
        excess = np.concatenate([self._low - wide, wide - self._high], axis=1)
        return np.where(np.isnan(excess), -np.inf, excess)

    def judge(self, x: Array, seen: Seen, oldest: Array) -> Judged:
        excess = self._excess(seen.outputs)
        score = excess.max(axis=1)
        return Judged(score > 0, score, excess.argmax(axis=1).astype(np.int64))

    def uphill(self, x: Array, oldest: Array) -> tuple[Array, Array]:
        """Towards the nearer end of the element that is nearest to one."""
        if not self._own.differentiable:
            raise EngineError("no gradient")
        ours = np.asarray(self._own.outputs(x))
        excess = self._excess(ours)
        at, m, lanes = excess.argmax(axis=1), ours.shape[1], np.arange(len(x))
        seed = np.zeros_like(ours)
        seed[lanes, at % m] = np.where(at < m, -1.0, 1.0)
        return np.nan_to_num(excess.max(axis=1), neginf=-1e30), np.nan_to_num(self._own.vjp(x, seed)[1])

    def confirm(self, x: Array, oldest: int) -> Finding | None:
        outputs = self._network.reference.run_flat(x)
        excess = self._excess(outputs[None])[0]
        at = int(excess.argmax())
        if not excess[at] > 0:
            return None
        k, side = at % outputs.size, "above" if at >= outputs.size else "below"
        end = self._high if side == "above" else self._low
        return Finding(
            f"output-{k}-{side}",
            f"output {element(self._network.reference.outputs, k)} is {outputs[k]:.9g}, {side} {end:g}",
            {"element": k, "value": float(outputs[k]), "side": side, "bound": end},
        )

    def reproducer(self, x: Array, finding: Finding) -> Reproducer:
        k, sign = finding.details["element"], ">" if finding.details["side"] == "above" else "<"
        lines = [
            "y = numpy.concatenate([r.ravel() for r in run(model, feed)])",
            f"print('output', {element(self._network.reference.outputs, k)!r}, y[{k}])",
            f"reproduced = bool(y[{k}] {sign} {finding.details['bound']!r})",
        ]
        return Reproducer({"model": Model(self._network)}, lines)

    def atoms(self, finding: Finding, names: Sequence[str]) -> str | None:
        sign = ">" if finding.details["side"] == "above" else "<"
        (bound,) = decimals(np.array([finding.details["bound"]]))
        return f"({sign} {names[finding.details['element']]} {bound})"


class AnotherClass:
    """The class of the first output must be that of the start that a point descends from (or its label)."""

    name = "top1"

    def __init__(self, network: Network, starts: Array, labels: Array | None = None) -> None:
        self._network = network
        self._own = network.engine("cpu")
        self._classes = network.reference.outputs[0].size
        if labels is None:
            labels = np.array([network.reference.run_flat(s)[: self._classes].argmax() for s in starts])
        self._labels = labels.astype(np.int64)

    def _gains(self, outputs: Array, label: Array) -> Array:
        """`[b, c]`: how far each class is ahead of the label's; minus infinity for the label itself."""
        y = outputs[:, : self._classes].astype(np.float64)
        gain = y - np.take_along_axis(y, label[:, None], axis=1)
        gain[np.arange(len(y)), label] = -np.inf
        return np.where(np.isnan(gain), -np.inf, gain)

    def judge(self, x: Array, seen: Seen, oldest: Array) -> Judged:
        label = self._labels[oldest]
        gain = self._gains(seen.outputs, label)
        score = gain.max(axis=1)
        return Judged(score > 0, score, label * self._classes + gain.argmax(axis=1))

    def uphill(self, x: Array, oldest: Array) -> tuple[Array, Array]:
        """Towards the class that is nearest to winning."""
        if not self._own.differentiable:
            raise EngineError("no gradient")
        label, lanes = self._labels[oldest], np.arange(len(x))
        ours = np.asarray(self._own.outputs(x))
        gain = self._gains(ours, label)
        seed = np.zeros_like(ours)
        seed[lanes, label] = -1.0
        seed[lanes, gain.argmax(axis=1)] = 1.0
        return np.nan_to_num(gain.max(axis=1), neginf=-1e30), np.nan_to_num(self._own.vjp(x, seed)[1])

    def confirm(self, x: Array, oldest: int) -> Finding | None:
        outputs = self._network.reference.run_flat(x)
        label = int(self._labels[oldest])
        gain = self._gains(outputs[None], np.array([label]))[0]
        other = int(gain.argmax())
        if not gain[other] > 0:
            return None
        return Finding(
            f"class-{label}-to-{other}",
            f"class {other} instead of {label}, ahead by {gain[other]:.6g}",
            {"class": other, "label": label, "start": oldest, "ahead": float(gain[other])},
        )

    def reproducer(self, x: Array, finding: Finding) -> Reproducer:
        label, other = finding.details["label"], finding.details["class"]
        lines = [
            "y = run(model, feed)[0].ravel()",
            f"print('class', y.argmax(), 'instead of {label}')",
            f"reproduced = bool(y[{other}] > y[{label}])",
        ]
        return Reproducer({"model": Model(self._network)}, lines)

    def atoms(self, finding: Finding, names: Sequence[str]) -> str | None:
        label = finding.details["label"]
        others = " ".join(f"(> {names[k]} {names[label]})" for k in range(self._classes) if k != label)
        return f"(or {others})"
