"""An objective that a user wrote: a function over inputs, outputs and activations, a whole batch at a time.

    def my_objective(inputs, outputs, activations):
        return outputs["Y"][:, 0] - 10.0        # [b]: a score, at least 0 where it is a hit; or a bool

`inputs`, `outputs`: arrays `[b, ...]` by name (a leading 1 of one sample is the batch); `activations`: `[b, size]` for
the names in the function's attribute `tensors`, if it has one. It may return a pair (scores, labels), labels `[b]`
being what hits are deduplicated by.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import InputError
from falsifier.fuzz.exposed import Exposed
from falsifier.fuzz.objectives import Finding, Judged, Model, Reproducer
from falsifier.fuzz.space import Space, as_batch
from falsifier.fuzz.watch import Seen
from falsifier.network import Network

Array = NDArray[Any]


def _code(text: str) -> int:
    """The same number in every process, which `hash` does not give: the order of hits follows it."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)


class Written:
    """Wraps the function `name` = "module:function". Raises InputError for what it returns, if it is of no use."""

    def __init__(self, name: str, function: Callable[..., Any], network: Network, space: Space) -> None:
        self.name, self._function, self._network, self._space = name, function, network, space
        self._tensors: tuple[str, ...] = tuple(getattr(function, "tensors", ()))
        self._exposed = Exposed(network, self._tensors) if self._tensors else None
        self._places: list[tuple[str, int, tuple[int, ...]]] = []
        at = 0
        for info in network.reference.outputs:
            self._places.append((info.name, at, info.shape))
            at += info.size

    def judge(self, x: Array, seen: Seen, oldest: Array) -> Judged:
        score, labels = self._call(x, seen.outputs, seen.activations)
        hit = score if score.dtype.kind == "b" else score >= 0
        codes = np.zeros(len(x), np.int64)
        if labels is not None:
            texts = [str(v) for v in labels.tolist()]
            known = {text: _code(text) for text in set(texts)}
            codes = np.array([known[text] for text in texts], np.int64)
        return Judged(np.asarray(hit, np.bool_), score.astype(np.float64), codes)

    def _call(self, x: Array, outputs: Array, activations: dict[str, Array]) -> tuple[Array, Array | None]:
        named = {
            name: as_batch(outputs[:, at : at + int(np.prod(shape, dtype=np.int64))].reshape(len(x), *shape))
            for name, at, shape in self._places
        }
        found = self._function(self._space.batches(x), named, activations)
        score, labels = found if isinstance(found, tuple) else (found, None)
        score = np.asarray(score)
        if score.shape != (len(x),) or score.dtype.kind not in "bfiu":
            raise InputError(
                f"objective {self.name!r} returned an array of shape {list(score.shape)} and type {score.dtype} for "
                f"{len(x)} samples: it has to return one number or bool for each"
            )
        labels = None if labels is None else np.asarray(labels)
        if labels is not None and labels.shape != (len(x),):
            raise InputError(f"objective {self.name!r} returned {labels.size} labels for {len(x)} samples")
        return score, labels

    def confirm(self, x: Array, oldest: int) -> Finding | None:
        outputs = self._network.reference.run_flat(x)[None]
        inner = {}
        if self._exposed is not None:
            every = self._exposed.run(x)
            inner = {name: every[name].reshape(1, -1) for name in self._tensors}
        score, labels = self._call(x[None], outputs, inner)
        if not (score[0] if score.dtype.kind == "b" else score[0] >= 0):
            return None
        cause = self.name if labels is None else f"{self.name}-{labels[0]}"
        shown = "" if score.dtype.kind == "b" else f" (score {float(score[0]):.6g})"
        return Finding(cause, f"{cause} holds{shown}", {"score": float(score[0]), "outputs": outputs[0].tolist()[:64]})

    def reproducer(self, x: Array, finding: Finding) -> Reproducer:
        file = Path(inspect.getfile(self._function)).resolve()
        attribute = self.name.rpartition(":")[2]
        lines = [
            f"sys.path.insert(0, {str(file.parent)!r})",
            f"from {file.stem} import {attribute} as objective",
            "names = [o.name for o in model.get_outputs()]",
            "batch = lambda v: v if v.shape[:1] == (1,) else v[None]",
            "outputs = {n: batch(r) for n, r in zip(names, run(model, feed))}",
            f"activations = {{n: outputs[n].reshape(1, -1) for n in {list(self._tensors)!r}}}",
            "score = objective({n: batch(v) for n, v in feed.items()}, outputs, activations)",
            "score = (score[0] if isinstance(score, tuple) else score)[0]",
            "print('score', score)",
            "reproduced = bool(score if getattr(score, 'dtype', None) == bool else score >= 0)",
        ]
        return Reproducer({"model": Model(self._network, self._tensors)}, lines)
