"""Activations that a model writes out with exponentials, and slopes for them that do not vanish.

1 / (1 + exp(-x)) is a sigmoid, but its parts overflow or round to nothing long before a network is done with it: from
some 90 units from the middle no gradient passes, and beyond 20 it is that of rounding. Found in the program, such a one
is one function from the argument of its exponential to its result, whose slope is at least the least slope of the
activation itself. Values stay those of the parts; so do gradients of what else reads the parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from falsifier.network.operators.elementwise import elementwise, leak
from falsifier.network.operators.softmax import through_softmax
from falsifier.network.program import Builder, Primitive, Value

Rule = Callable[[Builder, Value, Value], Value]
"""(builder, result, gradient of the result) -> gradient of the argument."""

_DEEP = 4  # primitives that two expressions are compared through


@dataclass(frozen=True)
class WrittenOut:
    """The argument's name, and how a gradient passes from the result to it.

    keeps: along which axis of the array a greater argument gives a greater result: 0 for every axis, None for none.
    """

    argument: str
    rule: Rule
    keeps: int | None = 0


def written_out(build: Builder) -> dict[str, WrittenOut]:
    """By the name of its result, every sigmoid, hyperbolic tangent and softmax that a program writes out."""
    primitives = build.program.primitives
    if not any(primitive.op == "Exp" for primitive in primitives):
        return {}
    seen = _Seen(build)
    found = {primitive.outputs[0]: seen.activation(primitive) for primitive in primitives}
    return {name: one for name, one in found.items() if one is not None}


def as_written_out(build: Builder, primitive: Primitive) -> WrittenOut | None:
    """What a primitive completes, if it does."""
    return _Seen(build).activation(primitive)


@dataclass(frozen=True)
class _Seen:
    build: Builder

    def activation(self, primitive: Primitive) -> WrittenOut | None:
        """What a primitive completes, if it does."""
        if primitive.op not in ("Div", "Reciprocal"):
            return None
        return self.sigmoid(primitive) or self.tanh(primitive) or self.softmax(primitive)

    def sigmoid(self, primitive: Primitive) -> WrittenOut | None:
        """c / (d + exp(z)) and exp(z) / (d + exp(z)), for positive numbers c and d."""
        above = primitive.inputs[0] if primitive.op == "Div" else ""
        below = self._made(primitive.inputs[-1], "Add")
        if below is None:
            return None
        for one, other in (below.inputs, below.inputs[::-1]):
            power, d = self._made(one, "Exp"), self._number(other)
            if power is None or d is None or not self._alike(one, primitive):
                continue
            c = 1.0 if not above else self._number(above)
            if c is not None:
                return WrittenOut(power.inputs[0], _falling(c, d), None)
            return WrittenOut(power.inputs[0], _rising) if self._same(above, one) and d else None
        return None

    def tanh(self, primitive: Primitive) -> WrittenOut | None:
        """(exp(z) - 1) / (exp(z) + 1) and (exp(z) - exp(-z)) / (exp(z) + exp(-z))."""
        if primitive.op != "Div":
            return None
        above, below = self._made(primitive.inputs[0], "Sub"), self._made(primitive.inputs[1], "Add")
        if above is None or below is None:
            return None
        power, other = above.inputs
        ends = below.inputs if self._same(power, below.inputs[0]) else below.inputs[::-1]
        rises = self._made(power, "Exp")
        if rises is None or not self._same(power, ends[0]) or not self._alike(power, primitive):
            return None
        if self._number(other) == 1 and self._number(ends[1]) == 1:
            return WrittenOut(rises.inputs[0], _tanh(0.5))
        falls = self._made(other, "Exp")
        opposite = None if falls is None else self._made(falls.inputs[0], "Neg")
        if opposite is None or not self._same(other, ends[1]) or not self._same(opposite.inputs[0], rises.inputs[0]):
            return None
        return WrittenOut(rises.inputs[0], _tanh(1.0))

    def softmax(self, primitive: Primitive) -> WrittenOut | None:
        """exp(z) / sum(exp(z)) along one axis."""
        if primitive.op != "Div":
            return None
        power, total = self._made(primitive.inputs[0], "Exp"), self._made(primitive.inputs[1], "ReduceSum")
        if power is None or total is None or not self._same(total.inputs[0], primitive.inputs[0]):
            return None
        axes = self.build.program.constants.get(total.inputs[1]) if len(total.inputs) > 1 else None
        if axes is None or axes.size != 1 or not self._alike(primitive.inputs[0], primitive):
            return None
        axis = int(axes.reshape(-1)[0])
        return WrittenOut(power.inputs[0], lambda build, y, g: through_softmax(build, y, g, axis), axis)

    def _made(self, name: str, op: str) -> Primitive | None:
        """What makes a value, if it is `op`."""
        primitive = self.build.producer(name)
        return primitive if primitive is not None and primitive.op == op else None

    def _number(self, name: str) -> float | None:
        """A positive constant that is the same everywhere."""
        array = self.build.program.constants.get(name)
        if array is None or array.size == 0 or array.dtype.kind != "f":
            return None
        first = float(array.reshape(-1)[0])
        return first if first > 0 and np.isfinite(first) and bool((array == first).all()) else None

    def _alike(self, name: str, primitive: Primitive) -> bool:
        """Whether a value is stored as the result is: then so is the argument."""
        values = self.build.program.values
        one, result = values[name], values[primitive.outputs[0]]
        return one.stored == result.stored and one.lead == result.lead

    def _same(self, one: str, other: str, depth: int = _DEEP) -> bool:
        """Whether two names are the same expression."""
        if one == other:
            return True
        a, b = self.build.producer(one), self.build.producer(other)
        if a is None or b is None or not depth or a.op != b.op or len(a.inputs) != len(b.inputs):
            return False
        if a.attributes or b.attributes:
            return False
        return all(self._same(x, y, depth - 1) for x, y in zip(a.inputs, b.inputs, strict=True))


def _product(build: Builder, y: Value, rest: Value) -> Value:
    return elementwise(build, "Max", elementwise(build, "Mul", y, rest), leak(y.dtype))


def _falling(c: float, d: float) -> Rule:
    """-y * (1 - y * d / c): y falls from c / d to 0."""

    def rule(build: Builder, y: Value, g: Value) -> Value:
        rest = elementwise(build, "Sub", 1.0, elementwise(build, "Mul", y, d / c) if c != d else y)
        return elementwise(build, "Neg", elementwise(build, "Mul", g, _product(build, y, rest)))

    return rule


def _rising(build: Builder, y: Value, g: Value) -> Value:
    """y * (1 - y), for y from 0 to 1."""
    return elementwise(build, "Mul", g, _product(build, y, elementwise(build, "Sub", 1.0, y)))


def _tanh(factor: float) -> Rule:
    """factor * (1 - y * y)."""

    def rule(build: Builder, y: Value, g: Value) -> Value:
        rest = elementwise(build, "Sub", 1.0, elementwise(build, "Mul", y, y))
        slope = elementwise(build, "Max", rest, leak(y.dtype))
        return elementwise(build, "Mul", g, elementwise(build, "Mul", slope, factor) if factor != 1 else slope)

    return rule
