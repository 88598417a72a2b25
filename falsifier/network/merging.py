"""Several lowered programs as one: the flat input is cut into theirs, their flat outputs stand side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from falsifier.network.lowering import INPUT, Lowered, join, split
from falsifier.network.program import Builder, Operand, Primitive, Value
from falsifier.network.reference import TensorInfo
from falsifier.records import replaced


def merge(parts: Sequence[Lowered]) -> Lowered:
    """The program from flat points over the inputs of all parts to their outputs, one after the other.

    A program may occur several times: its constants are taken once.
    """
    dtype = np.result_type(*(part.dtype for part in parts))
    build = Builder()
    x = build.input(INPUT, (sum(part.n for part in parts),), dtype)
    pieces = split(build, x, [TensorInfo("", (part.n,), part.dtype) for part in parts])
    models = list({id(part): part for part in parts}.values())
    outputs: list[Operand] = []
    inputs: list[Value] = []
    results: list[Operand] = []
    tensors: dict[str, Operand] = {}
    for at, (part, piece) in enumerate(zip(parts, pieces, strict=True)):
        model = next(i for i, other in enumerate(models) if other is part)
        copy = _Copy(build, part, piece, f"n{at}_", f"m{model}_")
        outputs.append(copy.value(part.y))
        inputs += [copy.value(value) for value in part.input_values]
        results += [copy.operand(operand) for operand in part.output_values]
        tensors.update({f"{at}:{name}": copy.operand(operand) for name, operand in part.tensors.items()})
    y = join(build, outputs, dtype)
    infos = [tuple(info for part in parts for info in getattr(part, name)) for name in ("inputs", "outputs")]
    grain = max(part.grain for part in parts)
    return Lowered(build, x, y, dtype, infos[0], infos[1], tuple(inputs), tuple(results), tensors, grain=grain)


class _Copy:
    """A program copied into a builder: its values get a prefix, its constants that of their model."""

    def __init__(self, build: Builder, part: Lowered, x: Value, prefix: str, shared: str) -> None:
        """`x` `[b, n]` takes the place of the program's input."""
        program = part.program
        self._names = {"": "", part.x.name: x.name}
        for name, constant in program.constants.items():
            self._names[name] = shared + name
            build.adopt(shared + name, constant)
        for name, origin in program.dequantized.items():
            build.program.dequantized[shared + name] = origin
        for name, value in program.values.items():
            if name != part.x.name:
                self._names[name] = prefix + name
                build.program.values[prefix + name] = self.value(value)
        for primitive in program.primitives:
            inputs, outputs = (tuple(self._names[n] for n in names) for names in (primitive.inputs, primitive.outputs))
            build.append(Primitive(primitive.op, inputs, outputs, primitive.attributes))

    def value(self, value: Value) -> Value:
        """What became of a value."""
        return replaced(value, name=self._names[value.name])

    def operand(self, operand: Operand) -> Operand:
        """What became of an operand: a constant stays what it is."""
        return self.value(operand) if isinstance(operand, Value) else operand
