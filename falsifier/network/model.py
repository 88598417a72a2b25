"""Reading a ModelProto: attributes as Python values, the nodes that outputs need in order, function bodies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import UnsupportedError
from falsifier.network.program import Operand, computed_dtype


def tensor(proto: Any) -> NDArray[Any]:
    """A TensorProto as an array, half precision widened to float32."""
    from onnx import numpy_helper

    array = np.asarray(numpy_helper.to_array(proto))
    return widened(array)


def filled(proto: Any) -> NDArray[Any]:
    """A SparseTensorProto as an array, with its zeros."""
    from onnx import numpy_helper

    values, places = tensor(proto.values), np.asarray(numpy_helper.to_array(proto.indices))
    array = np.zeros(tuple(proto.dims), values.dtype)
    array[tuple(places.T) if places.ndim == 2 else np.unravel_index(places, array.shape)] = values
    return array


def widened(array: NDArray[Any]) -> NDArray[Any]:
    """Half precision as float32, anything else as it is."""
    return array.astype(computed_dtype(array.dtype), copy=False)


_GRAINS = {10: 2.0**-10, 16: 2.0**-7}  # float16 and bfloat16


def grain(graph: Any) -> float:
    """The spacing at 1 of the coarsest type below float32 that a graph names, 0 where it names none."""
    types = {i.data_type for i in graph.initializer}
    types |= {i.type.tensor_type.elem_type for i in (*graph.input, *graph.output)}
    types |= {a.i for node in graph.node if node.op_type == "Cast" for a in node.attribute if a.name == "to"}
    return max(_GRAINS.get(kind, 0.0) for kind in types)


def bound_node(node: Any, bound: dict[str, Any]) -> Any:
    """A node of a function body, the attributes that refer to those of the call given their values, or left out."""
    from onnx import NodeProto, helper, numpy_helper

    if not any(a.ref_attr_name for a in node.attribute):
        return node
    copy = NodeProto()
    copy.CopyFrom(node)
    del copy.attribute[:]
    for a in node.attribute:
        if not a.ref_attr_name:
            copy.attribute.append(a)
        elif a.ref_attr_name in bound:
            value = bound[a.ref_attr_name]
            value = numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
            copy.attribute.append(helper.make_attribute(a.name, value, attr_type=a.type))
    return copy


def without_functions(model: Any) -> Any:
    """A model with its functions written out where they are called; as it is, where it has none.

    onnx's inliner forgets the values that a function gives to attributes which a call leaves out.
    """
    if not model.functions:
        return model
    from onnx import ModelProto, inliner

    copy = ModelProto()
    copy.CopyFrom(model)
    defaults = {(f.domain, f.name, f.overload): f.attribute_proto for f in copy.functions if f.attribute_proto}
    stack = [*copy.graph.node, *(node for f in copy.functions for node in f.node)] if defaults else []
    while stack:
        node = stack.pop()
        given = {a.name for a in node.attribute}
        missing = defaults.get((node.domain, node.op_type, node.overload), ())
        node.attribute.extend(a for a in missing if a.name not in given)
        for a in node.attribute:
            for graph in (a.g,) if a.HasField("g") else a.graphs:
                stack.extend(graph.node)
    return inliner.inline_local_functions(copy)


def attributes(protos: Iterable[Any]) -> dict[str, Any]:
    """Attributes decoded: int, float, str (bytes where it is not UTF-8), lists of these, arrays, GraphProto."""
    from onnx import AttributeProto

    decoded: dict[str, Any] = {}
    for a in protos:
        if a.type == AttributeProto.INT:
            decoded[a.name] = a.i
        elif a.type == AttributeProto.FLOAT:
            decoded[a.name] = a.f
        elif a.type == AttributeProto.STRING:
            decoded[a.name] = _text(a.s)
        elif a.type == AttributeProto.INTS:
            decoded[a.name] = list(a.ints)
        elif a.type == AttributeProto.FLOATS:
            decoded[a.name] = list(a.floats)
        elif a.type == AttributeProto.STRINGS:
            decoded[a.name] = [_text(s) for s in a.strings]
        elif a.type == AttributeProto.TENSOR:
            decoded[a.name] = tensor(a.t)
        elif a.type == AttributeProto.SPARSE_TENSOR:
            decoded[a.name] = filled(a.sparse_tensor)
        elif a.type == AttributeProto.GRAPH:
            decoded[a.name] = a.g
        else:
            raise UnsupportedError(f"attribute {a.name!r} has a type that is not supported")
    return decoded


def _text(raw: bytes) -> str | bytes:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def read_names(node: Any) -> set[str]:
    """The tensors that a node reads, those that its subgraphs take from outside included."""
    names = set(node.input)
    for a in node.attribute:
        for graph in (a.g,) if a.HasField("g") else a.graphs:
            inside = {o for n in graph.node for o in n.output} | {i.name for i in graph.input}
            inside |= {i.name for i in graph.initializer}
            for n in graph.node:
                names |= read_names(n) - inside
            names |= {o.name for o in graph.output} - inside
    names.discard("")
    return names


def needed(nodes: Sequence[Any], outputs: Iterable[str]) -> list[Any]:
    """The nodes that `outputs` depend on, in an order in which each comes after what it reads."""
    producer = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    reads: dict[int, list[int]] = {}
    stack = [producer[name] for name in outputs if name in producer]
    while stack:
        i = stack.pop()
        if i not in reads:
            reads[i] = [producer[name] for name in read_names(nodes[i]) if name in producer]
            stack.extend(reads[i])
    order: list[int] = []
    done: set[int] = set()
    for i in sorted(reads):  # files are nearly always sorted, so that the inner loop has nothing to do
        stack = [i]
        while stack:
            j = stack[-1]
            missing = [] if j in done else [k for k in reads[j] if k not in done]
            if missing:
                if len(stack) > len(nodes):
                    raise UnsupportedError("the graph has a cycle")
                stack.extend(missing)
                continue
            stack.pop()
            if j not in done:
                done.add(j)
                order.append(j)
    return [nodes[i] for i in order]


def default_attributes(op: str, domain: str, version: int) -> dict[str, Any]:
    """The defaults that the standard gives to an operator's attributes."""
    import onnx

    schema = onnx.defs.get_schema(op, version, domain)
    return attributes(a.default_value for a in schema.attributes.values() if a.default_value.type)


def function_body(node: Any, domain: str, version: int, operands: Sequence[Operand]) -> Any | None:
    """The FunctionProto by which the standard defines an operator, for these operands; None where it has none."""
    import onnx

    schema: Any  # the stubs leave out what the next lines use
    try:
        schema = onnx.defs.get_schema(node.op_type, version, domain)
    except onnx.defs.SchemaError:
        return None
    if schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= version]
        if versions:
            return onnx.FunctionProto.FromString(schema.get_function_with_opset_version(max(versions)))
    if schema.has_context_dependent_function:
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= version]
        if versions:
            types = [_type(o).SerializeToString() for o in operands]
            body = schema.get_context_dependent_function_with_opset_version(
                max(versions), node.SerializeToString(), types
            )
            return onnx.FunctionProto.FromString(body) if body else None
    return None


def without_inputs(node: Any, absent: set[str]) -> Any:
    """A copy of a node that leaves out the inputs of some names."""
    import onnx

    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    names = ["" if name in absent else name for name in copy.input]
    while names and not names[-1]:
        names.pop()
    del copy.input[:]
    copy.input.extend(names)
    return copy


def _type(operand: Operand) -> Any:
    from onnx import TypeProto, helper

    if operand is None:
        return TypeProto()
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(operand.dtype), operand.shape)
