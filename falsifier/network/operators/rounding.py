"""Sign, Round, Floor and Ceil: piecewise constant, so their adjoints pass the gradient straight through."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from falsifier.network.operators import Gradients, Node, PrimitiveRule
from falsifier.network.operators.logical import torch_function
from falsifier.network.operators.pointwise import lower_unary
from falsifier.network.operators.straight_through import pass_gradient
from falsifier.network.program import Builder, Operand, Primitive, Value


def lower_rounding(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x = operands[0]
    assert isinstance(x, Value)
    if not np.issubdtype(x.dtype, np.floating) and node.op != "Sign":
        return [x]
    return lower_unary(build, node, operands)


def straight_through_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    (g,) = gradients
    assert g is not None
    return [pass_gradient(build, primitive, g)]


LOWERINGS = dict.fromkeys(["Sign", "Round", "Floor", "Ceil"], lower_rounding)
PRIMITIVES = {
    "Ceil": PrimitiveRule(torch_function("ceil"), straight_through_adjoint),
    "Floor": PrimitiveRule(torch_function("floor"), straight_through_adjoint),
    "Round": PrimitiveRule(torch_function("round"), straight_through_adjoint),
    "Sign": PrimitiveRule(torch_function("sign"), straight_through_adjoint),
}
