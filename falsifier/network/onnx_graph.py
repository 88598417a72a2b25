"""A program, or a part of it, written as an ONNX model for onnxruntime."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.network.program import OPSET, Primitive, Program, Value, needed_primitives
from falsifier.network.steps import without_double_signs

SHARED_BYTES = 1 << 15  # constants from this size on are handed over in memory, not copied into the model

# the primitives mean the same in it; from 21 on onnxruntime 1.32 fails where it turns signed quantisation to unsigned
_OPSET_OF_QUANTISED = 20


@dataclass(frozen=True)
class Graph:
    """A serialised model, the constants that it expects to be handed over beside it, and those fed with every run."""

    model: bytes
    shared: dict[str, NDArray[Any]]
    fed: dict[str, NDArray[Any]]


def write_graph(
    program: Program,
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    primitives: Sequence[Primitive] | None = None,
    *,
    as_integers: bool = False,
    fed: Collection[str] = (),
) -> Graph:
    """The model that computes `outputs` from those of `inputs` that they need. Lane axes are symbolic.

    `primitives`: those to take instead of the program's, in execution order. `as_integers`: constants of a quantised
    model stay integers behind a DequantizeLinear, so that onnxruntime uses its integer kernels as in the original.
    `fed`: names of constants that become inputs of the model, so that no session copies them.
    """
    from onnx import GraphProto

    part = _part(program, primitives, [v.name for v in outputs], as_integers=as_integers, fed=fed)
    graph = GraphProto(
        name="program",
        node=part.nodes,
        input=[_info(v) for v in inputs if v.name in part.read],
        output=[_info(v) for v in outputs],
        initializer=part.initializers,
    )
    return part.model(graph)


def write_loop(
    program: Program,
    primitives: Sequence[Primitive],
    state: Sequence[tuple[Value, Value]],
    going: Value,
    *,
    fed: Collection[str] = (),
) -> Graph:
    """A model that runs the primitives up to `steps` (an input) times, until `going` is false.

    `state`: values before and after one run of them. The model's inputs are called as those, its outputs as those with
    `_after`; inputs that do not change are the program's other ones. `fed` as in `write_graph`.
    """
    from onnx import GraphProto, NodeProto, TensorProto, TypeProto, ValueInfoProto

    def typed(name: str, kind: Any, dims: Sequence[int] | None = None) -> ValueInfoProto:
        info = ValueInfoProto(name=name, type=TypeProto(tensor_type=TypeProto.Tensor(elem_type=kind)))
        if dims is not None:
            info.type.tensor_type.shape.SetInParent()
        return info

    part = _part(program, primitives, [going.name, *(after.name for _, after in state)], fed=fed)
    kinds = [_kind(now) for now, _ in state]
    made = {now.name for now, _ in state} | {name for primitive in primitives for name in primitive.outputs}
    body = GraphProto(
        name="step",
        node=part.nodes,
        input=[
            typed("iteration", TensorProto.INT64, ()),
            typed("go_on", TensorProto.BOOL, ()),
            *(typed(now.name, kind) for (now, _), kind in zip(state, kinds, strict=True)),
        ],
        output=[
            typed(going.name, TensorProto.BOOL, ()),
            *(typed(after.name, kind) for (_, after), kind in zip(state, kinds, strict=True)),
        ],
    )
    ends = [f"{now.name}_after" for now, _ in state]
    starts = [f"{now.name}_before" for now, _ in state]
    loop = NodeProto(op_type="Loop", input=["steps", "", *starts], output=ends)
    loop.attribute.extend(_attributes({"body": body}))
    fixed = [program.values[name] for name in program.inputs if name in part.read and name not in made]
    graph = GraphProto(
        name="walk",
        node=[loop],
        input=[
            typed("steps", TensorProto.INT64, ()),
            *(typed(v.name, _kind(v)) for v in fixed),
            *(typed(name, kind) for name, kind in zip(starts, kinds, strict=True)),
        ],
        output=[typed(name, kind) for name, kind in zip(ends, kinds, strict=True)],
        initializer=part.initializers,
    )
    return part.model(graph)


@dataclass
class _Part:
    """Nodes of a program, what they read, and their constants."""

    nodes: list[Any]
    read: set[str]
    initializers: list[Any]
    shared: dict[str, NDArray[Any]]
    fed: dict[str, NDArray[Any]]
    opset: int

    def model(self, graph: Any) -> Graph:
        from onnx import ModelProto, helper

        for name, array in self.fed.items():
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
        model = ModelProto(ir_version=10, graph=graph)
        model.opset_import.add(domain="", version=self.opset)
        return Graph(model.SerializeToString(), self.shared, self.fed)


def _part(
    program: Program,
    primitives: Sequence[Primitive] | None,
    outputs: Sequence[str],
    *,
    as_integers: bool = False,
    fed: Collection[str] = (),
) -> _Part:
    """Those of the program's or the given primitives that lead to some outputs."""
    from onnx import NodeProto

    part = program if primitives is None else Program(program.inputs, list(primitives))
    kept, new = without_double_signs(program, needed_primitives(part, outputs))
    if new:
        kept = needed_primitives(Program(program.inputs, kept), outputs)
    read = {name for primitive in kept for name in primitive.inputs}
    nodes = []
    for primitive in kept:
        node = NodeProto(op_type=primitive.op, input=primitive.inputs, output=primitive.outputs)
        node.attribute.extend(_attributes(primitive.attributes))
        nodes.append(node)
    constants = {name: program.constants[name] for name in sorted(read & program.constants.keys())} | new
    if as_integers:
        for name in constants.keys() & program.dequantized.keys():
            origin = program.dequantized[name]
            del constants[name]
            parts = {f"{name}_integers": origin.integers, f"{name}_scale": origin.scale, f"{name}_zero": origin.zero}
            constants.update(parts)
            node = NodeProto(op_type="DequantizeLinear", input=list(parts), output=[name])
            node.attribute.extend(_attributes({"axis": origin.axis} if origin.scale.ndim else {}))
            nodes.insert(0, node)
    given = {name: np.ascontiguousarray(constants.pop(name)) for name in sorted(constants.keys() & set(fed))}
    shared: dict[str, NDArray[Any]] = {}
    initializers = []
    for name, array in constants.items():
        initializers.append(_initializer(name, array))
        if array.nbytes >= SHARED_BYTES:
            shared[name] = np.ascontiguousarray(array)
    wide = any(a.dtype.name in ("int16", "uint16") for a in constants.values())
    opset = OPSET if wide or not _quantises(kept) else _OPSET_OF_QUANTISED
    return _Part(nodes, read, initializers, shared, given, opset)


def _kind(value: Value) -> Any:
    from onnx import helper

    return helper.np_dtype_to_tensor_dtype(value.dtype)


def _quantises(primitives: Sequence[Primitive]) -> bool:
    return any(p.op in ("QuantizeLinear", "DequantizeLinear") for p in primitives)


def _info(value: Value) -> Any:
    from onnx import helper

    lanes = "b" if value.lead == 1 else f"b{value.lead}"
    return helper.make_tensor_value_info(value.name, _kind(value), [lanes, *value.stored])


def _initializer(name: str, array: NDArray[Any]) -> Any:
    from onnx import TensorProto, helper, numpy_helper

    if array.nbytes < SHARED_BYTES:
        return numpy_helper.from_array(array, name)
    proto = TensorProto(name=name, data_type=helper.np_dtype_to_tensor_dtype(array.dtype), dims=array.shape)
    proto.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "memory"), ("offset", "0"), ("length", str(array.nbytes))):
        proto.external_data.add(key=key, value=value)
    return proto


def _attributes(attributes: dict[str, Any]) -> Iterable[Any]:
    from onnx import helper, numpy_helper

    for name, value in attributes.items():
        if isinstance(value, np.dtype):
            value = helper.np_dtype_to_tensor_dtype(value)
        elif isinstance(value, np.ndarray):
            value = numpy_helper.from_array(value)
        elif isinstance(value, (tuple, list)):
            value = list(value)
        yield helper.make_attribute(name, value)
