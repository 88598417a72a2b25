"""A lowered program made fit for watching: half precision rounds as in the model, integers are never divided by zero.

The batched program computes half precision in float32, and one lane's division by zero would end the run of all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from falsifier.network.lowering import Lowered
from falsifier.network.operators.elementwise import compare
from falsifier.network.program import Builder, Primitive, Value


@dataclass(frozen=True)
class Watchable:
    """`builder` goes on from the rewritten program. `names` maps the old names of values to those that hold them now.

    `zero_divisors`: bool values, stored as divisors are, true where an integer was to be divided by zero.
    """

    builder: Builder
    names: Mapping[str, str]
    zero_divisors: tuple[Value, ...]

    def value(self, value: Value) -> Value:
        """What holds `value` now."""
        return Value(self.names.get(value.name, value.name), value.shape, value.stored, value.dtype, value.lead)


def watchable(lowered: Lowered, halves: frozenset[str] = frozenset()) -> Watchable:
    """The program of `lowered` rewritten. `halves`: the model's tensors of half precision (see `half_tensors`)."""
    build = lowered.builder.fork()
    before = list(build.program.primitives)
    if not halves and not any(_divides_integers(build, p) for p in before):
        return Watchable(build, {}, ())
    rounded = {v.name for name in halves if isinstance(v := lowered.tensors.get(name), Value)}
    build.program.primitives.clear()
    names: dict[str, str] = {}
    zeros: list[Value] = []
    for primitive in before:
        inputs = tuple(names.get(name, name) for name in primitive.inputs)
        if _divides_integers(build, primitive):
            inputs = (inputs[0], _guarded(build, inputs[1], zeros))
        build.append(Primitive(primitive.op, inputs, primitive.outputs, primitive.attributes))
        for name in primitive.outputs:
            value = build.program.values.get(name)
            if value is not None and name in rounded and value.dtype == np.float32:
                names[name] = build.cast(build.cast(value, np.float16), np.float32).name
    return Watchable(build, names, tuple(zeros))


def _divides_integers(build: Builder, primitive: Primitive) -> bool:
    if primitive.op not in ("Div", "Mod") or primitive.inputs[1] not in build.program.values:
        return False
    return build.program.values[primitive.outputs[0]].dtype.kind in "iu"


def _guarded(build: Builder, name: str, zeros: list[Value]) -> str:
    """A divisor with 1 in place of 0."""
    divisor = build.program.values[name]
    zero = compare(build, "Equal", divisor, 0)
    zeros.append(zero)
    one = np.ones((), divisor.dtype)
    return build.emit("Where", [zero, one, divisor], divisor.stored, divisor.dtype, lead=divisor.lead).name


def half_tensors(proto: Any) -> frozenset[str]:
    """The tensors of a ModelProto that have half precision, as far as shape inference says."""
    from onnx import TensorProto, shape_inference

    if not any(i.data_type == TensorProto.FLOAT16 for i in proto.graph.initializer) and not any(
        _is_half(i) for i in (*proto.graph.input, *proto.graph.output)
    ):
        return frozenset()  # what a Cast alone makes half is rounded by that Cast
    graph = shape_inference.infer_shapes(proto).graph
    return frozenset(i.name for i in (*graph.value_info, *graph.input, *graph.output) if _is_half(i))


def _is_half(info: Any) -> bool:
    from onnx import TensorProto

    return bool(info.type.tensor_type.elem_type == TensorProto.FLOAT16)
