"""Objective forms as primitives behind a program's outputs: slack, score, weight, and the seed of the adjoint."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from falsifier.network.program import Builder, Value
from falsifier.objective import Reduction


@dataclass(frozen=True)
class ObjectiveValues:
    """Inputs `rows` `[b or 1, k, m]`, `offset` and `scale` `[b, k]`; results `slack`, `weight` `[b, k]`, `score` `[b]`.

    `seed` is the derivative of the score by the outputs, stored as they are.
    """

    rows: Value
    offset: Value
    scale: Value
    slack: Value
    score: Value
    weight: Value
    seed: Value


def add_objective(build: Builder, y: Value, reduction: Reduction, seed: str) -> ObjectiveValues:
    """Append the form over flat outputs `y` `[b, m]`; the derivative of the score by y gets the name `seed`.

    A NaN slack stays NaN; in the score it counts as a number below all others, and its weight is 0. Padded atoms
    (scale 0) contribute nothing; a lane of nothing else scores 0.
    """
    # the number of atoms is symbolic: these values never meet a primitive that needs it
    dtype, m = y.dtype, y.size
    worst = np.array(-np.finfo(dtype).max / 2**20, dtype=dtype)
    zero, one = np.zeros((), dtype), np.ones((), dtype)
    rows = build.input("rows", (-1, m), dtype)
    offset = build.input("offset", (-1,), dtype)
    scale = build.input("scale", (-1,), dtype)
    k = (-1,)
    last = np.array([2], dtype=np.int64)
    atoms = np.array([1], dtype=np.int64)
    column = build.emit("Unsqueeze", [build.view(y, (m,)), last], (m, 1))
    linear = build.emit("Squeeze", [build.emit("MatMul", [rows, column], (-1, 1)), last], k)
    slack = build.emit("Add", [linear, offset], k)
    broken = build.emit("IsNaN", [slack], k, np.bool_)
    real = build.emit("Greater", [scale, zero], k, np.bool_)
    usable = build.emit("And", [real, build.emit("Not", [broken], k)], k, np.bool_)
    # bounded first, so that no infinity meets a scale of 0 or another infinity
    bounded = build.emit("Clip", [build.emit("Where", [broken, worst, slack], k, dtype), worst, -worst], k)
    z = build.emit("Mul", [bounded, scale], k)
    if reduction is Reduction.HINGE:
        score = build.emit("ReduceSum", [build.emit("Min", [z, zero], k), atoms], (), keepdims=0)
        share = build.emit("Less", [z, zero], k, np.bool_)
        weight = build.emit("Where", [build.emit("And", [share, usable], k), scale, zero], k, dtype)
    else:
        far = build.emit("Where", [real, z, np.array(np.inf, dtype)], k, dtype)
        lowest = build.emit("ReduceMin", [far, atoms], (1,), keepdims=1)
        some = build.emit("Less", [lowest, np.array(np.inf, dtype)], (1,), np.bool_)
        base = build.emit("Where", [some, lowest, zero], (1,), dtype)
        if reduction is Reduction.SOFT:
            part = build.emit("Exp", [build.emit("Sub", [base, far], k)], k)
            total = build.emit(
                "Max", [build.emit("ReduceSum", [part, atoms], (1,), keepdims=1), np.array(1e-30, dtype)], (1,)
            )
            value = build.emit("Sub", [base, build.emit("Log", [total], (1,))], (1,))
            value = build.emit("Where", [some, value, zero], (1,), dtype)
            share = build.emit("Div", [part, total], k)
        else:
            value = base
            first = build.emit("ArgMin", [far], (1,), np.int64, axis=1, keepdims=1)
            count = build.emit("Shape", [far], (), np.int64, start=1, end=2)
            depth = build.emit(
                "Range", [np.zeros((), np.int64), build.emit("Squeeze", [count], ()), np.ones((), np.int64)], k
            )
            hit = build.emit("Equal", [first, depth], k, np.bool_)
            share = build.emit("Where", [hit, one, zero], k, dtype)
        score = build.emit("Squeeze", [value, atoms], ())
        weight = build.emit("Where", [usable, build.emit("Mul", [share, scale], k), zero], k, dtype)
    row = build.emit("Unsqueeze", [weight, atoms], (1, -1))
    product = build.emit("MatMul", [row, rows], (1, m))
    result = build.emit("Reshape", [product, np.array([-1, *y.stored], dtype=np.int64)], y.stored)
    named = build.rename(result, seed)
    return ObjectiveValues(rows, offset, scale, slack, score, weight, named)
