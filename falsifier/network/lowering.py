"""A model becomes a program: the walk over its graph that dispatches every node to its operator's rule.

Nodes whose operands are all constants are folded; an operator without a rule is expanded into the function body by
which the standard defines it; an `If` with a constant condition is replaced by its branch. Half precision is computed
in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import UnsupportedError
from falsifier.network import control_flow
from falsifier.network import model as reading
from falsifier.network.folding import fold
from falsifier.network.operators import FILES, LOWERINGS, Node
from falsifier.network.operators.linear import fuse_bias
from falsifier.network.peeling import logits_of
from falsifier.network.program import (
    Builder,
    Carried,
    Dequantized,
    Operand,
    Program,
    Shape,
    Tensors,
    Value,
    computed_dtype,
)
from falsifier.network.reference import TensorInfo

if TYPE_CHECKING:
    from falsifier.network.hidden_lengths import Hidden

INPUT = "x"  # the program's input: flat points [b, n]
_ON_SEQUENCES = frozenset(FILES["sequences"][0].split())

Array = NDArray[Any]


@dataclass(frozen=True)
class Lowered:
    """A network as a batched program from flat points `x` `[b, n]` to flat outputs `y` `[b, m]`, both of type `dtype`.

    `logits` `[b, m]` where the outputs are one softmax of them (see `peeling`).
    `builder` goes on from the program (fork it). `inputs` are the model's own, `outputs` what y holds: the hidden
    tensors that were asked for, then the model's outputs; `input_values` and `output_values` are what became of them.
    `tensors` maps the model's tensor names to Values or constants. `grain`: how coarsely the original computes where it
    has half precision, see `model.grain`.
    """

    builder: Builder
    x: Value
    y: Value
    dtype: np.dtype[Any]
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    input_values: tuple[Value, ...]
    output_values: tuple[Operand, ...]
    tensors: dict[str, Operand] = field(repr=False)
    logits: Value | None = None
    grain: float = 0.0

    @property
    def program(self) -> Program:
        return self.builder.program

    @property
    def stepped(self) -> bool:
        """Whether it holds operators whose gradient is passed straight through, so that windows make a difference."""
        return any(p.op in ("Sign", "Round", "Floor", "Ceil") for p in self.program.primitives)

    @property
    def lane_bytes(self) -> int:
        """What the tensors of one lane take together, in bytes: a bound on the memory of a forward run."""
        values = self.program.values.values()
        return sum(v.lead * math.prod(v.stored) * v.dtype.itemsize for v in values)

    @property
    def n(self) -> int:
        return self.x.size

    @property
    def m(self) -> int:
        return self.y.size


def lower(
    model: Any,
    shapes: Sequence[Shape] | None = None,
    hidden: Sequence[str] = (),
    read: Callable[[Any], Array] = reading.tensor,
) -> Lowered:
    """Lower a `ModelProto`. `shapes` are those of one sample's inputs; without them, open dimensions are 1.

    `hidden`: inner tensors, by name, that come before the outputs. `read`: gives the array of an initializer.
    Raises UnsupportedError, with a one-line reason, for a model that has no batched program.
    """
    graph = reading.without_functions(model).graph
    infos = _inputs(graph, shapes)
    if not sum(i.size for i in infos):
        raise UnsupportedError("the model has no inputs")
    dtype = np.dtype(np.float64 if any(i.dtype == np.float64 for i in infos) else np.float32)
    build = Builder()
    x = build.input(INPUT, (sum(i.size for i in infos),), dtype)
    values = split(build, x, infos)
    scope = _Scope({i.name: v for i, v in zip(infos, values, strict=True)}, graph, read=read)
    opsets = {o.domain: o.version for o in model.opset_import}
    walk = _Walk(build)
    names = [*hidden, *(o.name for o in graph.output)]
    walk.run(graph.node, names, scope, opsets)
    results = [_one(scope[name], name) for name in names]
    outputs = tuple(
        TensorInfo(name, tuple(r.shape), r.dtype) for name, r in zip(names, results, strict=True) if r is not None
    )
    y = join(build, results, dtype)
    fuse_bias(build)
    tensors = {**_tensors(scope), **walk.tensors}
    known = (tuple(values), tuple(results), tensors, logits_of(build, y), reading.grain(graph))
    return Lowered(build, x, y, dtype, infos, outputs, *known)


def _one(carried: Carried, name: str) -> Operand:
    if isinstance(carried, Tensors):
        raise UnsupportedError(f"{name!r} is a sequence")
    return carried


def _tensors(carried: Mapping[str, Carried]) -> dict[str, Operand]:
    return {name: c for name, c in carried.items() if c is not None and not isinstance(c, Tensors)}


class _Scope(dict[str, Carried]):
    """Tensors by name. Initializers are decoded when first read, names of an enclosing graph are found there."""

    def __init__(
        self,
        known: dict[str, Carried],
        graph: Any = None,
        parent: _Scope | None = None,
        read: Callable[[Any], Array] = reading.tensor,
    ) -> None:
        super().__init__(known)
        self._read = read
        self._initializers = {i.name: i for i in graph.initializer} if graph is not None else {}
        self._sparse = {i.values.name: i for i in graph.sparse_initializer} if graph is not None else {}
        self._parent = parent
        self.hidden: dict[str, Hidden] = {}

    def hidden_of(self, name: str) -> Hidden | None:
        """What is hidden of a tensor's length (see `hidden_lengths`), here or in an enclosing graph."""
        if name in self.hidden or self._parent is None:
            return self.hidden.get(name)
        return self._parent.hidden_of(name)

    def __missing__(self, name: str) -> Carried:
        if name in self._initializers:
            self[name] = self._read(self._initializers[name])
            return self[name]
        if name in self._sparse:
            self[name] = reading.filled(self._sparse[name])
            return self[name]
        if self._parent is None:
            raise UnsupportedError(f"tensor {name!r} is read but never made")
        return self._parent[name]


class _Walk:
    """Runs over nodes in execution order. `tensors` collects what branches and functions named inside themselves."""

    def __init__(self, build: Builder) -> None:
        self.build = build
        self.tensors: dict[str, Operand] = {}

    def run(
        self,
        nodes: Sequence[Any],
        outputs: Sequence[str],
        scope: _Scope,
        opsets: dict[str, int],
        bound: dict[str, Any] | None = None,
    ) -> None:
        """Lower the nodes that `outputs` need. `bound`: the attributes of the call, in a function body."""
        for written in reading.needed(nodes, outputs):
            proto = written if bound is None else reading.bound_node(written, bound)
            domain = "" if proto.domain == "ai.onnx" else proto.domain
            if domain not in opsets:
                raise UnsupportedError(
                    f"operator {proto.op_type} of domain {domain!r}, which the model does not import"
                )
            node = Node(
                proto.op_type,
                domain,
                opsets[domain],
                reading.attributes(proto.attribute),
                tuple(proto.output),
                proto.name or next((o for o in proto.output if o), ""),
            )
            operands = [scope[name] if name else None for name in proto.input]
            results, hidden = self._seen(node, operands, proto, scope, opsets)
            for name, result in zip(node.outputs, results, strict=False):
                if name:
                    _check(node, result)
                    scope[name] = result
                    if hidden is not None:
                        scope.hidden[name] = hidden
        for name in outputs:
            if name in scope.hidden:
                if scope.hidden[name].mask is not None:
                    raise UnsupportedError(
                        f"tensor {name!r}, from NonZero: how many results there are depends on the input"
                    )
                raise UnsupportedError(f"the length of tensor {name!r} depends on the input")

    def _seen(
        self, node: Node, carried: list[Carried], proto: Any, scope: _Scope, opsets: dict[str, int]
    ) -> tuple[Sequence[Carried], Hidden | None]:
        """The results of a node, and what is hidden of them (see `hidden_lengths`)."""
        hidden = [scope.hidden_of(name) for name in proto.input]
        operands = [o for o in carried if not isinstance(o, Tensors)]
        if node.key in _ON_SEQUENCES or len(operands) < len(carried):
            return self._on_sequences(node, carried, any(hidden), scope, opsets), None
        plain = partial(self._node, node, operands, proto, scope, opsets)
        moving = node.key == "Slice" and any(isinstance(o, Value) for o in operands[1:])
        listing = node.key in ("NonZero", "Expand") and any(isinstance(o, Value) for o in operands[-1:])
        if not moving and not listing and not any(hidden):
            return plain(), None
        from falsifier.network import hidden_lengths, masked_lists

        try:
            if moving:
                part, its = hidden_lengths.lower_moving_slice(self.build, node, operands, hidden[0])
                return [part], its
            if listing:
                return masked_lists.lower_first(self.build, node, operands, hidden[0])
            return hidden_lengths.lower_with_hidden(self.build, node, operands, hidden, plain)
        except UnsupportedError as error:
            raise UnsupportedError(f"node {node.name!r} ({node.op}): {error}") from error

    def _on_sequences(
        self, node: Node, operands: list[Carried], hidden: bool, scope: _Scope, opsets: dict[str, int]
    ) -> Sequence[Carried]:
        from falsifier.network.operators import sequences

        if node.key in control_flow.CONTROL_FLOW and not hidden:
            return self._control_flow(node, operands, scope, opsets)
        try:
            if hidden:
                raise UnsupportedError("a sequence of tensors whose length depends on the input")
            return sequences.lower(self.build, node, operands)
        except UnsupportedError as error:
            raise UnsupportedError(f"node {node.name!r} ({node.op}): {error}") from error

    def _node(
        self, node: Node, operands: list[Operand], proto: Any, scope: _Scope, opsets: dict[str, int]
    ) -> Sequence[Any]:
        if node.key in control_flow.CONTROL_FLOW:
            return self._control_flow(node, operands, scope, opsets)
        if node.key in LOWERINGS and any(isinstance(o, Value) for o in operands):
            try:
                return LOWERINGS[node.key](self.build, node, operands)
            except UnsupportedError as error:
                raise UnsupportedError(f"node {node.name!r} ({node.op}): {error}") from error
        if any(isinstance(v, Value) for v in operands):
            return self._function(node, operands, proto)
        if any(hasattr(a, "node") for a in node.attributes.values()):
            raise UnsupportedError(f"node {node.name!r}: {node.op} is control flow, which is not lowered")
        constants = [o for o in operands if not isinstance(o, Value)]
        results = fold(node, constants, proto)
        if node.key == "DequantizeLinear" and not node.attributes.get("block_size"):
            self._note_integers(node, constants, results[0])
        return results

    def _note_integers(self, node: Node, operands: Sequence[Any], result: Any) -> None:
        """Weights of a quantised model: the onnxruntime engine hands them on as the integers that they are."""
        integers, scale, *zero = operands
        point = zero[0] if zero and zero[0] is not None else np.zeros(scale.shape, integers.dtype)
        axis = node.attributes.get("axis", 1) % max(integers.ndim, 1)
        if integers.dtype.name in ("int8", "uint8", "int32"):
            self.build.note_dequantized(result, Dequantized(integers, scale, point, axis))

    def _control_flow(
        self, node: Node, operands: Sequence[Carried], scope: _Scope, opsets: dict[str, int]
    ) -> Sequence[Carried]:
        def body(name: str) -> control_flow.Body:
            graph = node.attributes[name]
            constants = _Scope({}, graph, scope)  # one for all rounds, so that weights are decoded once
            names = [o.name for o in graph.output]

            def made(known: Mapping[str, Carried]) -> list[Carried]:
                inner = _Scope(dict(known), None, constants)
                self.run(graph.node, names, inner, opsets)
                self.tensors.update(_tensors({**constants, **inner}))
                return [inner[name] for name in names]

            return made

        try:
            if node.key == "If":
                return control_flow.lower_if(self.build, operands[0], body("then_branch"), body("else_branch"))
            lower_rounds = control_flow.lower_loop if node.key == "Loop" else control_flow.lower_scan
            return lower_rounds(self.build, node, operands, body("body"))
        except UnsupportedError as error:
            raise UnsupportedError(f"node {node.name!r} ({node.op}): {error}") from error

    def _function(self, node: Node, operands: list[Operand], proto: Any) -> Sequence[Carried]:
        body = reading.function_body(proto, node.domain, node.version, operands)
        if body is None:
            name = f"{node.domain}.{node.op}" if node.domain else node.op
            raise UnsupportedError(f"node {node.name!r}: operator {name} (opset {node.version}) is not supported")
        known: dict[str, Carried] = dict.fromkeys(body.input)
        known.update(zip(body.input, operands, strict=False))
        defaults = reading.default_attributes(node.op, node.domain, node.version)
        defaults.update(reading.attributes(body.attribute_proto))
        inner = _Scope(known)
        # an input that is not given is an empty name in the nodes that would read it
        absent = {name for name, value in known.items() if value is None}
        nodes = [reading.without_inputs(n, absent) for n in body.node] if absent else body.node
        opsets = {o.domain: o.version for o in body.opset_import}
        wanted = [name for name, out in zip(body.output, node.outputs, strict=False) if out]
        self.run(nodes, wanted, inner, opsets, {**defaults, **node.attributes})
        return [inner[name] if out else None for name, out in zip(body.output, node.outputs, strict=False)]


def _check(node: Node, result: Carried) -> None:
    if isinstance(result, Value) and result.size == 0:
        raise UnsupportedError(f"node {node.name!r} ({node.op}) makes an empty tensor")


def _inputs(graph: Any, shapes: Sequence[Shape] | None) -> tuple[TensorInfo, ...]:
    from onnx import helper

    constants = {i.name for i in graph.initializer} | {i.values.name for i in graph.sparse_initializer}
    declared = [i for i in graph.input if i.name not in constants]
    if shapes is not None and len(shapes) != len(declared):
        raise UnsupportedError(f"the model has {len(declared)} inputs, {len(shapes)} shapes are given")
    infos = []
    for at, info in enumerate(declared):
        kind = info.type.tensor_type
        if not info.type.HasField("tensor_type"):
            raise UnsupportedError(f"input {info.name!r} is not a tensor")
        shape = tuple(d.dim_value if d.dim_value > 0 else 1 for d in kind.shape.dim)
        shape = shape if shapes is None else tuple(shapes[at])
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(kind.elem_type))
        if dtype.kind not in "biuf":
            raise UnsupportedError(f"input {info.name!r} has element type {dtype}")
        infos.append(TensorInfo(info.name, shape, dtype))
    return tuple(infos)


def split(build: Builder, x: Value, infos: Sequence[TensorInfo]) -> list[Value]:
    """The model's inputs as views of the flat points, cast as `Reference.run_flat` casts them."""
    parts = [x]
    if len(infos) > 1:
        sizes = np.array([i.size for i in infos], dtype=np.int64)
        parts = build.emit_many("Split", [x, sizes], [((i.size,), x.dtype) for i in infos], axis=1)
    values = []
    for part, info in zip(parts, infos, strict=True):
        value = part
        if info.dtype != x.dtype:
            value = build.cast(value, info.dtype)
            value = build.cast(value, computed_dtype(info.dtype))
        values.append(build.shaped(value, info.shape))
    return values


def join(build: Builder, results: Sequence[Operand], dtype: np.dtype[Any]) -> Value:
    """The outputs side by side, flat."""
    flat = []
    for result in results:
        if result is None:
            raise UnsupportedError("an output of the model is never made")
        if not math.prod(result.shape):
            continue
        value = result if isinstance(result, Value) else build.spread(result)
        if value.dtype.kind not in "biuf":
            raise UnsupportedError(f"an output has element type {value.dtype}")
        flat.append(build.view(build.cast(value, dtype), (value.size,)))
    if not flat:
        raise UnsupportedError("the outputs of the model are empty")
    y = flat[0]
    if len(flat) > 1:
        y = build.emit("Concat", flat, (sum(v.size for v in flat),), axis=1)
    if y.name in build.program.inputs:
        y = build.emit("Identity", [y], y.stored)
    return build.shaped(y, y.stored)
