"""Two models that should agree: another class, or outputs further apart than a tolerance (source paper B5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import EngineError, InputError
from falsifier.fuzz.objectives import Finding, Judged, Model, Reproducer
from falsifier.fuzz.objectives.naming import element, pair
from falsifier.fuzz.watch import Seen
from falsifier.network import Network
from falsifier.witness.text import decimals

Array = NDArray[Any]


class Disagree:
    """`tolerance` None: another class is a hit, where both classes win strictly. Else a difference above it.

    A cause is the pair of classes, or the output element that differs most. Raises InputError for models whose inputs
    or outputs differ in size.
    """

    name = "disagree"

    def __init__(self, network: Network, against: Network, tolerance: float | None = None) -> None:
        self._network, self._against, self._tolerance = network, against, tolerance
        demand_comparable(network, against)
        ours = network.reference
        if tolerance is None and ours.outputs[0].size < 2:
            raise InputError(f"{network.origin} has one output and no classes: give a tolerance, such as 0.1")
        self._classes = ours.outputs[0].shape[-1] if ours.outputs[0].shape else 1
        if self._classes < 2:
            self._classes = ours.outputs[0].size
        self._rows = ours.outputs[0].size // self._classes
        self._other = against.engine("cpu")
        self._own = network.engine("cpu")

    def judge(self, x: Array, seen: Seen, oldest: Array) -> Judged:
        ours, theirs = seen.outputs, np.asarray(self._other.outputs(self._other.asarray(x)))
        with np.errstate(all="ignore"):
            if self._tolerance is not None:
                difference = np.abs(ours.astype(np.float64) - theirs)
                difference = np.where(np.isnan(difference), -np.inf, difference)
                worst = difference.argmax(axis=1)
                score = difference.max(axis=1) - self._tolerance
                return Judged(score > 0, score, worst.astype(np.int64))
            a, b = self._by_row(ours), self._by_row(theirs)
            first, second = a.argmax(axis=2), b.argmax(axis=2)
            gain = np.take_along_axis(b, second[..., None], 2) - np.take_along_axis(b, first[..., None], 2)
            loss = np.take_along_axis(a, first[..., None], 2) - np.take_along_axis(a, second[..., None], 2)
            differs = (first != second) & (gain[..., 0] > 0) & (loss[..., 0] > 0)
            row = differs.argmax(axis=1)
            lanes = np.arange(len(x))
            label = first[lanes, row] * self._classes + second[lanes, row]
            # how nearly two classes of ours tie, beside how far the models differ
            ranked = -np.partition(-a, 1, axis=2)[..., :2]
            gap = (ranked[..., 0] - ranked[..., 1]).min(axis=1)
            apart = np.abs(a - b).max(axis=(1, 2))
        return Judged(differs.any(axis=1), np.nan_to_num(apart - gap, nan=-1e30), label.astype(np.int64))

    def _by_row(self, outputs: Array) -> Array:
        size = self._rows * self._classes
        return outputs[:, :size].reshape(len(outputs), self._rows, self._classes)

    def uphill(self, x: Array, oldest: Array) -> tuple[Array, Array]:
        """Towards where two classes tie, or where outputs differ more."""
        if not self._own.differentiable:
            raise EngineError("no gradient")
        lanes = np.arange(len(x))
        ours = np.asarray(self._own.outputs(x))
        seed = np.zeros_like(ours)
        if self._tolerance is not None:
            theirs = np.asarray(self._other.outputs(self._other.asarray(x)))
            difference = np.nan_to_num(ours.astype(np.float64) - theirs)
            worst = np.abs(difference).argmax(axis=1)
            seed[lanes, worst] = np.sign(difference[lanes, worst])
            _, up = self._own.vjp(x, seed)
            if self._other.differentiable:
                up = up - np.asarray(self._other.vjp(self._other.asarray(x), seed)[1])
            return np.abs(difference[lanes, worst]) - self._tolerance, np.nan_to_num(up)
        ranked = np.argsort(-ours[:, : self._classes], axis=1)
        seed[lanes, ranked[:, 1]], seed[lanes, ranked[:, 0]] = 1.0, -1.0
        _, up = self._own.vjp(x, seed)
        return ours[lanes, ranked[:, 1]] - ours[lanes, ranked[:, 0]], np.nan_to_num(up)

    def confirm(self, x: Array, oldest: int) -> Finding | None:
        ours = self._network.reference.run_flat(x)
        theirs = self._against.reference.run_flat(x.astype(self._against.reference.dtype))
        own, other = pair(self._network, self._against)
        details: dict[str, Any] = {"outputs": ours.tolist()[:64], "against_outputs": theirs.tolist()[:64]}
        if self._tolerance is not None:
            with np.errstate(invalid="ignore"):
                difference = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
            difference = np.where(np.isnan(difference), -np.inf, difference)
            worst = int(difference.argmax())
            if not difference[worst] > self._tolerance:
                return None
            details |= {"element": worst, "difference": float(difference[worst]), "tolerance": self._tolerance}
            return Finding(
                f"output-{worst}",
                f"output {element(self._network.reference.outputs, worst)} differs by {difference[worst]:.6g}: "
                f"{ours[worst]:.6g} of {own} against {theirs[worst]:.6g} of {other} (tolerance {self._tolerance:g})",
                details,
            )
        a, b = self._by_row(ours[None])[0], self._by_row(theirs[None])[0]
        for row in range(self._rows):
            if np.isnan(a[row]).any() or np.isnan(b[row]).any():
                continue
            i, j = int(a[row].argmax()), int(b[row].argmax())
            if i != j and a[row, i] > a[row, j] and b[row, j] > b[row, i]:
                details |= {"class": i, "against_class": j, "row": row}
                return Finding(
                    f"class-{i}-against-{j}",
                    f"class {i} of {own} against class {j} of {other}: the first gives them {a[row, i]:.6g} and "
                    f"{a[row, j]:.6g}, the second {b[row, i]:.6g} and {b[row, j]:.6g}",
                    details,
                )
        return None

    def reproducer(self, x: Array, finding: Finding) -> Reproducer:
        models = {"model": Model(self._network), "against": Model(self._against)}
        feeds = flat_outputs(self._network)
        if self._tolerance is not None:
            return Reproducer(
                models,
                [
                    *feeds,
                    "print('largest difference', abs(a - b).max())",
                    f"reproduced = bool(abs(a - b).max() > {self._tolerance!r})",
                ],
            )
        start = finding.details["row"] * self._classes
        part = f"[{start}:{start + self._classes}].argmax()"
        return Reproducer(
            models, [*feeds, f"print('classes', a{part}, b{part})", f"reproduced = bool(a{part} != b{part})"]
        )

    def atoms(self, finding: Finding, names: Sequence[str]) -> str | None:
        """Of flat outputs, ours before theirs."""
        m = len(names) // 2
        ours, theirs = names[:m], names[m:]
        if self._tolerance is not None:
            k, (bound,) = finding.details["element"], decimals(np.array([self._tolerance], np.float64))
            return f"(or (> (- {ours[k]} {theirs[k]}) {bound}) (> (- {theirs[k]} {ours[k]}) {bound}))"
        i, j = finding.details["class"], finding.details["against_class"]
        start = finding.details["row"] * self._classes
        a, b = ours[start : start + self._classes], theirs[start : start + self._classes]
        parts = [f"({'>' if k == j else '>='} {a[i]} {a[k]})" for k in range(self._classes) if k != i]
        parts += [f"({'>' if k == i else '>='} {b[j]} {b[k]})" for k in range(self._classes) if k != j]
        return f"(and {' '.join(parts)})"


def demand_comparable(network: Network, against: Network) -> None:
    """Raises InputError for models whose inputs or outputs differ in size."""
    ours, theirs = network.reference, against.reference
    if [i.size for i in ours.inputs] != [i.size for i in theirs.inputs] or ours.m != theirs.m:
        raise InputError(
            f"{network.origin} and {against.origin} cannot be compared: their inputs have "
            f"{[i.size for i in ours.inputs]} and {[i.size for i in theirs.inputs]} values, their outputs {ours.m} "
            f"and {theirs.m}"
        )


def flat_outputs(network: Network) -> list[str]:
    """Lines of a reproducer that make the flat outputs `a` of `model` and `b` of `against`."""
    return [
        f"def flat(model, names={[i.name for i in network.reference.inputs]!r}):",
        "    kind = {'tensor(float)': 'f4', 'tensor(double)': 'f8', 'tensor(float16)': 'f2'}",
        "    own = {i.name: feed[n].astype(kind.get(i.type, feed[n].dtype))",
        "           for i, n in zip(model.get_inputs(), names)}",
        "    return numpy.concatenate([r.ravel() for r in run(model, own)]).astype('f8')",
        "a, b = flat(model), flat(against)",
    ]
