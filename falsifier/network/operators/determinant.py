"""Det, without a gradient graph: torch's autograd serves where one is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from falsifier.network.operators import Node, PrimitiveRule
from falsifier.network.program import Builder, Operand, Value


def lower_det(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    x = operands[0]
    assert isinstance(x, Value)
    return [build.emit("Det", [build.sample(x)], x.shape[:-2])]


def torch_det(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    return (inputs[0].det(),)


LOWERINGS = {"Det": lower_det}
PRIMITIVES = {"Det": PrimitiveRule(torch_det)}
