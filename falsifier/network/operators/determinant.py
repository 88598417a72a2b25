"""Det of the last two axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from falsifier.network.operators import Gradients, Node, PrimitiveRule
from falsifier.network.operators.elementwise import elementwise, sole_gradient
from falsifier.network.program import Builder, Operand, Primitive, Value


def lower_det(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x = operands[0]
    assert isinstance(x, Value)
    return [build.emit("Det", [build.sample(x)], x.shape[:-2])]


def det_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """The cofactors: signed determinants of the matrices that lack one row and one column."""
    g = sole_gradient(build, gradients)
    x = build.program.values[primitive.inputs[0]]
    outer, n = x.stored[:-2], x.stored[-1]
    spread = build.view(build.shaped(g, (*outer, 1, 1)), (*outer, 1, 1))
    if n == 1:
        return [spread]
    left = np.array([[i for i in range(n) if i != row] for row in range(n)], dtype=np.int64)  # [row, n - 1]
    minors = left[:, None, :, None] * n + left[None, :, None, :]  # [row, column, n - 1, n - 1]
    flat = build.view(x, (*outer, n * n))
    gathered = build.emit("Gather", [flat, minors], (*outer, *minors.shape), axis=len(outer) + 1)
    determinants = build.emit("Det", [gathered], x.stored)
    signs = (-1.0) ** np.add.outer(np.arange(n), np.arange(n))
    return [elementwise(build, "Mul", spread, elementwise(build, "Mul", determinants, signs))]


def torch_det(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    return (inputs[0].det(),)


LOWERINGS = {"Det": lower_det}
PRIMITIVES = {"Det": PrimitiveRule(torch_det, det_adjoint)}
