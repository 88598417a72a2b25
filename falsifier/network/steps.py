"""Steps as onnxruntime runs them fast: its Sign takes eight times as long as a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.network.program import Primitive, Program

Array = NDArray[Any]


def without_double_signs(program: Program, primitives: Sequence[Primitive]) -> tuple[list[Primitive], dict[str, Array]]:
    """Primitives in which Sign(Sign(x) + c) with 0 < |c| < 1 is one comparison and a choice between 1 and -1.

    Binarised layers are exported so, lest a Sign of 0 be 0. The inner Sign stays for whoever reads it. Returns the
    primitives and the constants that are new. Values are the same, save that of a NaN, which becomes -1.
    """
    makers = {name: primitive for primitive in primitives for name in primitive.outputs}
    changed, constants = [], dict[str, Array]()
    for primitive in primitives:
        found = _inner(program, makers, primitive)
        if found is None:
            changed.append(primitive)
            continue
        source, shift = found
        (out,) = primitive.outputs
        kind = program.values[source].dtype
        named = {value: f"{kind.name}_{value}" for value in (0, 1, -1)}
        constants |= {name: np.array(value, dtype=kind) for value, name in named.items()}
        above = f"{out}_above"
        changed += [
            Primitive("GreaterOrEqual" if shift > 0 else "Greater", (source, named[0]), (above,)),
            Primitive("Where", (above, named[1], named[-1]), (out,)),
        ]
    return changed, constants


def _inner(program: Program, makers: Mapping[str, Primitive], primitive: Primitive) -> tuple[str, float] | None:
    """x and c of Sign(Sign(x) + c), None for any other primitive."""
    added = makers.get(primitive.inputs[0]) if primitive.op == "Sign" else None
    if added is None or added.op != "Add":
        return None
    for name, other in (added.inputs, added.inputs[::-1]):
        signed, shift = makers.get(name), program.constants.get(other)
        if signed is None or signed.op != "Sign" or shift is None or shift.ndim > 1 or shift.size != 1:
            continue
        source = signed.inputs[0]
        x = program.values[source]
        if (
            x.dtype.kind == "f"
            and x.stored == program.values[primitive.outputs[0]].stored
            and 0 < abs(shift.item()) < 1
        ):
            return source, shift.item()
    return None
