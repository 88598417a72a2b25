"""Sign, Round, Floor and Ceil: piecewise constant, so their adjoints pass the gradient straight through.

A lane's window (see `straight_through`) lets it pass only near a jump: Sign jumps at 0, Round half-way between
integers, the others at integers.
"""

from __future__ import annotations

from falsifier.network.operators import Gradients, PrimitiveRule
from falsifier.network.operators.elementwise import elementwise, sole_gradient
from falsifier.network.operators.logical import torch_function
from falsifier.network.operators.pointwise import lower_unary
from falsifier.network.operators.straight_through import pass_gradient, takes_few_values
from falsifier.network.program import Builder, Primitive, Value


def past_jump(build: Builder, step: str, x: Value) -> Value:
    """How far x is, either way, from the nearest jump of `step`: Sign, Round, Floor, Ceil, or Cast to integers."""
    if step == "Sign":
        return x
    if step == "Round":
        return elementwise(build, "Sub", elementwise(build, "Sub", x, elementwise(build, "Floor", x)), 0.5)
    return elementwise(build, "Sub", x, elementwise(build, "Round", x))


def straight_through(build: Builder, step: str, x: Value, gradient: Value) -> Value:
    """The gradient of x, where `step` of x has `gradient`: the same, in windowed lanes only near a jump."""
    if takes_few_values(build, x.name):
        return gradient
    distance = past_jump(build, step, x)
    return pass_gradient(build, Primitive(step, (distance.name,), ()), gradient)


def rounding_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    g = sole_gradient(build, gradients)
    return [straight_through(build, primitive.op, build.program.values[primitive.inputs[0]], g)]


LOWERINGS = dict.fromkeys(["Sign", "Round", "Floor", "Ceil"], lower_unary)
PRIMITIVES = {
    "Ceil": PrimitiveRule(torch_function("ceil"), rounding_adjoint),
    "Floor": PrimitiveRule(torch_function("floor"), rounding_adjoint),
    "Round": PrimitiveRule(torch_function("round"), rounding_adjoint),
    "Sign": PrimitiveRule(torch_function("sign"), rounding_adjoint),
}
