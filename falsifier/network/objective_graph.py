"""Objective forms as primitives behind a program's outputs: slack, score, weight, and the seed of the adjoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from falsifier.network.program import Builder, Value
from falsifier.objective import Reduction

HARD = "hard"
"""The program input `[b]` that chooses the lanes' reduction where there are two."""

_K = (-1,)  # the number of atoms is symbolic: these values never meet a primitive that needs it


@dataclass(frozen=True)
class ObjectiveValues:
    """Inputs `rows` `[b or 1, k, m]`, `offset` and `scale` `[b, k]`; results `slack`, `weight` `[b, k]`, `score` `[b]`.

    `seed` is the derivative of the score by the outputs, stored as they are. `hard` `[b]` chooses between two
    reductions.
    """

    rows: Value
    offset: Value
    scale: Value
    slack: Value
    score: Value
    weight: Value
    seed: Value
    hard: Value | None = None


class _Slacks(NamedTuple):
    """Slacks `[b, k]`: as they are, bounded and scaled; which are of atoms that exist, which count; their scales."""

    slack: Value
    z: Value
    real: Value
    usable: Value
    scale: Value


def add_objective(build: Builder, y: Value, reductions: Sequence[Reduction], seed: str) -> ObjectiveValues:
    """Append the form over flat outputs `y` `[b, m]`; the derivative of the score by y gets the name `seed`.

    A NaN slack stays NaN; in the score it counts as a number below all others, and its weight is 0. Padded atoms
    (scale 0) contribute nothing; a lane of nothing else scores 0. `reductions`: one, or HINGE and HARD, lane by lane.
    """
    dtype, m = y.dtype, y.size
    rows = build.input("rows", (-1, m), dtype)
    offset = build.input("offset", _K, dtype)
    scale = build.input("scale", _K, dtype)
    last = np.array([2], dtype=np.int64)
    column = build.emit("Unsqueeze", [build.view(y, (m,)), last], (m, 1))
    linear = build.emit("Squeeze", [build.emit("MatMul", [rows, column], (-1, 1)), last], _K)
    slacks = _slacks(build, build.emit("Add", [linear, offset], _K), scale)
    reduced = [_hinge(build, slacks) if r is Reduction.HINGE else _least(build, slacks, r) for r in reductions]
    score, weight = reduced[0]
    hard = None
    if len(reduced) > 1:
        hard = build.input(HARD, (), np.dtype(np.bool_))
        other, weights = reduced[1]
        wide = build.emit("Unsqueeze", [hard, np.array([1], dtype=np.int64)], (1,))
        score = build.emit("Where", [hard, other, score], (), dtype)
        weight = build.emit("Where", [wide, weights, weight], _K, dtype)
    row = build.emit("Unsqueeze", [weight, np.array([1], dtype=np.int64)], (1, -1))
    product = build.emit("MatMul", [row, rows], (1, m))
    result = build.emit("Reshape", [product, np.array([-1, *y.stored], dtype=np.int64)], y.stored)
    named = build.rename(result, seed)
    return ObjectiveValues(rows, offset, scale, slacks.slack, score, weight, named, hard)


def _slacks(build: Builder, slack: Value, scale: Value) -> _Slacks:
    dtype = slack.dtype
    worst = np.array(-np.finfo(dtype).max / 2**20, dtype=dtype)
    broken = build.emit("IsNaN", [slack], _K, np.bool_)
    real = build.emit("Greater", [scale, np.zeros((), dtype)], _K, np.bool_)
    usable = build.emit("And", [real, build.emit("Not", [broken], _K)], _K, np.bool_)
    # bounded first, so that no infinity meets a scale of 0 or another infinity
    bounded = build.emit("Clip", [build.emit("Where", [broken, worst, slack], _K, dtype), worst, -worst], _K)
    return _Slacks(slack, build.emit("Mul", [bounded, scale], _K), real, usable, scale)


def _hinge(build: Builder, slacks: _Slacks) -> tuple[Value, Value]:
    """The sum of what atoms lack, and the weights of their slacks in it."""
    z, dtype = slacks.z, slacks.z.dtype
    zero, atoms = np.zeros((), dtype), np.array([1], dtype=np.int64)
    score = build.emit("ReduceSum", [build.emit("Min", [z, zero], _K), atoms], (), keepdims=0)
    lacking = build.emit("And", [build.emit("Less", [z, zero], _K, np.bool_), slacks.usable], _K, np.bool_)
    return score, build.emit("Where", [lacking, slacks.scale, zero], _K, dtype)


def _least(build: Builder, slacks: _Slacks, reduction: Reduction) -> tuple[Value, Value]:
    """The least scaled slack, or its SOFT stand-in, and the weights."""
    z, dtype = slacks.z, slacks.z.dtype
    zero, one, atoms = np.zeros((), dtype), np.ones((), dtype), np.array([1], dtype=np.int64)
    far = build.emit("Where", [slacks.real, z, np.array(np.inf, dtype)], _K, dtype)
    lowest = build.emit("ReduceMin", [far, atoms], (1,), keepdims=1)
    some = build.emit("Less", [lowest, np.array(np.inf, dtype)], (1,), np.bool_)
    base = build.emit("Where", [some, lowest, zero], (1,), dtype)
    if reduction is Reduction.SOFT:
        part = build.emit("Exp", [build.emit("Sub", [base, far], _K)], _K)
        total = build.emit(
            "Max", [build.emit("ReduceSum", [part, atoms], (1,), keepdims=1), np.array(1e-30, dtype)], (1,)
        )
        value = build.emit("Sub", [base, build.emit("Log", [total], (1,))], (1,))
        value = build.emit("Where", [some, value, zero], (1,), dtype)
        share = build.emit("Div", [part, total], _K)
    else:
        value = base
        first = build.emit("ArgMin", [far], (1,), np.int64, axis=1, keepdims=1)
        count = build.emit("Shape", [far], (), np.int64, start=1, end=2)
        depth = build.emit(
            "Range", [np.zeros((), np.int64), build.emit("Squeeze", [count], ()), np.ones((), np.int64)], _K
        )
        hit = build.emit("Equal", [first, depth], _K, np.bool_)
        share = build.emit("Where", [hit, one, zero], _K, dtype)
    score = build.emit("Squeeze", [value, atoms], ())
    return score, build.emit("Where", [slacks.usable, build.emit("Mul", [share, slacks.scale], _K), zero], _K, dtype)
