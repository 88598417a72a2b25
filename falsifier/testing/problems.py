"""A small problem to try parts of the search on: a ReLU network of two layers and three boxes of very unequal sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from falsifier.arrays import Array, as_dtype_of, is_numpy, namespace
from falsifier.errors import EngineError
from falsifier.network.observation import Layer, Observer, Watch
from falsifier.objective import Ascent, ObjectiveForm
from falsifier.problem import Problem
from falsifier.query import parse
from falsifier.spec import compile_query
from falsifier.spec.margin import score, slack

_WIDTHS = (2.0, 0.5, 0.01, 3e-4, 0.0)  # sides of the boxes; an input that is pinned in some of them
_CENTRES = (0.0, 0.3, -0.4)
_HIDDEN, _OUTPUTS = 24, 3


def kinds() -> tuple[str, ...]:
    """The kinds of arrays there are to try: numpy, and torch where it is installed."""
    from importlib.util import find_spec

    return ("numpy", "torch") if find_spec("torch") else ("numpy",)


class SmallEngine:
    """A random ReLU network as an engine, in numpy or torch, that shows its one hidden layer."""

    name = "small"
    device = "cpu"
    dtype: np.dtype[Any] = np.dtype(np.float32)
    stepped = False
    lane_bytes = 4 * _HIDDEN
    differentiable = True
    layers = (Layer("hidden", _HIDDEN, _HIDDEN),)

    def __init__(self, kind: str = "numpy", rng_seed: int = 0) -> None:
        rng = np.random.default_rng(rng_seed)
        self.kind = kind
        self.n, self.m = len(_WIDTHS), _OUTPUTS
        self._first = self.asarray(rng.normal(0, 1, (self.n, _HIDDEN)))
        self._second = self.asarray(rng.normal(0, 0.5, (_HIDDEN, self.m)))

    def asarray(self, x: Any) -> Array:
        host = np.array(x, dtype=self.dtype)
        if self.kind == "numpy":
            return host
        import torch

        return torch.from_numpy(host)

    def outputs(self, x: Array) -> Array:
        return self._hidden(x) @ self._second

    def _hidden(self, x: Array) -> Array:
        xp = namespace(x)
        return xp.clip(x @ self._first, 0.0, None)

    def activations(self, x: Array, tensors: Sequence[str]) -> dict[str, Array]:
        return {name: self._hidden(x) for name in tensors}

    def observer(self, watched: Sequence[Watch]) -> Observer:
        unknown = [watch.tensor for watch in watched if watch.tensor != "hidden"]
        if unknown:
            raise EngineError(f"the network computes no tensor {unknown[0]!r}")

        def run(x: Array) -> tuple[Array, Array]:
            hidden = self._hidden(x)
            return hidden @ self._second, namespace(x).concat([hidden] * len(watched), axis=1)

        return Observer((_HIDDEN,) * len(watched), run)

    def vjp(self, x: Array, seed: Array, window: Array | None = None) -> tuple[Array, Array]:
        hidden = self._hidden(x)
        inner = (seed @ self._second.T) * as_dtype_of(hidden > 0, x)
        return hidden @ self._second, inner @ self._first.T

    def ascend(self, x: Array, objective: ObjectiveForm, window: Array | None = None) -> Ascent:
        y = self.outputs(x)
        values = (objective.rows @ y[:, :, None])[:, :, 0]
        slacks = slack(values, 1.0, -objective.offset)
        value, weight = score(slacks, objective.scale, objective.reduction)
        rows = namespace(x).broadcast_to(objective.rows, (len(x), *objective.rows.shape[1:]))
        _, gradient = self.vjp(x, (weight[:, None, :] @ rows)[:, 0, :])
        return Ascent(y, slacks, value, weight, gradient)


def small_problem(kind: str = "numpy", rng_seed: int = 0) -> Problem:
    """Three boxes, in each of which one output is to exceed the two others: three targets of two atoms."""
    declared = [f"(declare-const X_{i} Real)" for i in range(len(_WIDTHS))]
    declared += [f"(declare-const Y_{i} Real)" for i in range(_OUTPUTS)]
    cases = []
    for case, centre in enumerate(_CENTRES):
        sides = [
            f"(>= X_{i} {centre - width / 2:.9f}) (<= X_{i} {centre + width / 2:.9f})"
            for i, width in enumerate(_WIDTHS)
        ]
        atoms = [f"(>= Y_{case} Y_{j})" for j in range(_OUTPUTS) if j != case]
        cases.append(f"(and {' '.join(sides + atoms)})")
    text = "\n".join(declared) + f"\n(assert (or {' '.join(cases)}))\n"
    return Problem(compile_query(parse(text), np.float32), SmallEngine(kind, rng_seed))


def is_like(x: Array, kind: str) -> bool:
    """Whether an array is of a kind that `kinds` names."""
    return is_numpy(x) == (kind == "numpy")
