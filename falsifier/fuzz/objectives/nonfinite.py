"""Values that are not finite, anywhere in the graph, from inputs that are (source paper B5)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.fuzz.exposed import Exposed
from falsifier.fuzz.objectives import Finding, Judged, Model, Reproducer
from falsifier.fuzz.watch import Seen, Watching, kinds_in_parts, run_in_parts
from falsifier.network import Network

Array = NDArray[Any]

_WORDS = {"nan": "NaN", "inf": "an infinity", "error": "a failure"}


class NonFinite:
    """NaN and infinities, apart: a cause is the first tensor of a kind in topological order.

    What breaks at the starts already (masks of minus infinity, say) does not hide what breaks elsewhere: it is reported
    once, and looked past.
    """

    name = "nonfinite"

    def __init__(self, network: Network, watch: Watching, starts: Array) -> None:
        self._network, self._watch = network, watch
        self._exposed = Exposed(network)
        everywhere = [set(self._kinds_at(start)) for start in starts[:16]]
        self._known = set.intersection(*everywhere) if everywhere else set()
        self._usual = run_in_parts(watch, starts[:16], 16).broken.all(axis=0)

    def _kinds_at(self, x: Array) -> list[tuple[str, str]]:
        return [pair for broken in self._exposed.broken(x) for pair in broken.tensors]

    def judge(self, x: Array, seen: Seen, oldest: Array) -> Judged:
        b = len(x)
        broken = seen.broken
        label = np.full(b, -1, np.int64)
        lanes = np.flatnonzero(broken.any(axis=1))
        signature = np.zeros(b, np.int64)
        if lanes.size:
            nan, infinite = kinds_in_parts(self._watch, x[lanes])
            w = nan.shape[1]
            new = ~self._usual
            first_nan = _first(nan & new)
            first_infinite = _first(infinite & new)
            usual = np.where(nan.any(axis=1), 4 * w, 4 * w + 1)
            label[lanes] = np.where(first_nan < w, first_nan, np.where(first_infinite < w, w + first_infinite, usual))
            weights = np.random.Generator(np.random.PCG64(7)).integers(1, 1 << 62, (2, w))
            signature[lanes] = nan @ weights[0] + infinite @ weights[1]
        return Judged(label >= 0, broken.sum(axis=1).astype(np.float64), label, signature)

    def confirm(self, x: Array, oldest: int) -> Finding | None:
        found = self._exposed.broken(x)
        if not found:
            return None
        fresh = [b for b in found if b.kind == "error" or (b.tensor, b.kind) not in self._known]
        pool = fresh or found
        worst = next((b for kind in ("error", "nan", "inf") for b in pool if b.kind == kind), pool[0])
        if worst.kind == "error":
            summary = f"onnxruntime fails in node {worst.node!r} ({worst.op}): {worst.message}"
            return Finding(f"error-{worst.node}", summary, {"kind": "error", "node": worst.node, "op": worst.op})
        summary = f"{_WORDS[worst.kind]} in tensor {worst.tensor!r}, of node {worst.node!r} ({worst.op})"
        return Finding(
            f"{worst.kind}-{worst.tensor}",
            summary,
            {
                "kind": worst.kind,
                "tensor": worst.tensor,
                "node": worst.node,
                "op": worst.op,
                "broken_tensors": [list(pair) for pair in worst.tensors],
            },
        )

    def reproducer(self, x: Array, finding: Finding) -> Reproducer:
        if finding.details["kind"] == "error":
            lines = ["try:", "    run(model, feed)", "    reproduced = False", "except Exception as error:"]
            return Reproducer({"model": Model(self._network)}, [*lines, "    reproduced = print(error) is None"])
        name = finding.details["tensor"]
        test = "isnan" if finding.details["kind"] == "nan" else "isinf"
        model = Model(self._network, (name,))
        lines = [
            f"value = run(model, feed, {name!r})[0]",
            f"reproduced = bool(numpy.{test}(value).any())",
            f"print({name!r}, value.ravel()[:10])",
        ]
        return Reproducer({"model": model}, lines)


def _first(mask: Array) -> Array:
    """`[b, w]` -> `[b]`: the first true column, w where there is none."""
    return np.asarray(np.where(mask.any(axis=1), mask.argmax(axis=1), mask.shape[1]))
