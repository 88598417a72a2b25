"""The original model with its inner tensors as outputs, one sample at a time: which tensor breaks first, in which node.

Nothing is optimised away: each node computes what the file says. The model's own outputs come from the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import InputError, UnsupportedError
from falsifier.network import Network, runtime
from falsifier.network import model as reading

Array = NDArray[Any]


@dataclass(frozen=True)
class Broken:
    """Where a run first went wrong. `kind`: nan, inf, or error, where onnxruntime gave up with `message`.

    `tensors`: every broken tensor that depends on the inputs, in topological order, with its kinds.
    """

    kind: str
    tensor: str
    node: str
    op: str
    tensors: tuple[tuple[str, str], ...] = ()
    message: str = ""


class Exposed:
    """A session on a copy of the model whose node outputs are all outputs. Raises InputError where it does not load."""

    def __init__(self, network: Network, only: Sequence[str] | None = None) -> None:
        """`only`: the tensors to expose; by default all that depend on the inputs."""
        import onnxruntime

        self._origin = network.origin
        self._reference = network.reference
        proto = exposed_model(network, only)
        self.nodes = {name: node for node in proto.graph.node for name in node.output if name}
        self._own = [o.name for o in network.proto().graph.output]
        options = runtime.session_options(threads=1)
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        try:
            self._session = onnxruntime.InferenceSession(
                proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except runtime.errors() as error:
            raise UnsupportedError(
                f"{self._origin}: inner tensors cannot be shown: {runtime.one_line(error)}"
            ) from error
        order = {name: i for i, name in enumerate(self.nodes)}
        names = [o.name for o in self._session.get_outputs()]
        self._names = sorted((n for n in names if n in order), key=lambda n: order[n])

    def run(self, x: Array) -> dict[str, Array]:
        """Tensors of one point `[n]` by name, in topological order. Raises InputError where onnxruntime fails."""
        try:
            results = self._session.run(self._names, self._reference.feed(x))
        except runtime.errors() as error:
            if runtime.is_out_of_memory(error):
                raise MemoryError(runtime.one_line(error)) from error
            raise InputError(f"{self._origin}: onnxruntime fails on this input: {runtime.one_line(error)}") from error
        return {n: np.asarray(r) for n, r in zip(self._names, results, strict=True) if isinstance(r, np.ndarray)}

    def broken(self, x: Array) -> list[Broken]:
        """What is not finite at a point `[n]`: the first NaN and the first infinity, in topological order of the two.

        Empty where all is finite.
        """
        try:
            tensors = self.run(x)
        except InputError as error:
            message = str(error).split("onnxruntime fails on this input: ", 1)[-1]
            op = message.split("while running ", 1)[-1].split(" ", 1)[0] if "while running " in message else ""
            node = message.split("Name:'", 1)[-1].split("'", 1)[0] if "Name:'" in message else ""
            return [Broken("error", "", node or op, op, (), message.split("Status Message: ", 1)[-1])]
        found: list[tuple[str, str]] = []
        for name, array in tensors.items():
            if array.dtype.kind != "f":
                continue
            finite = np.isfinite(array)
            if finite.all():
                continue
            nan = np.isnan(array)
            found.append((name, "nan" if nan.any() else "inf"))
            if nan.any() and (~finite & ~nan).any():
                found.append((name, "inf"))
        first: dict[str, str] = {}
        for name, kind in found:
            first.setdefault(kind, name)
        return [
            Broken(kind, name, self.nodes[name].name or name, self.nodes[name].op_type, tuple(found))
            for kind, name in first.items()
        ]


def exposed_model(network: Network, only: Sequence[str] | None = None) -> Any:
    """A ModelProto with inner tensors as outputs beside its own."""
    import onnx

    proto = reading.without_functions(network.proto())
    graph = proto.graph
    moving = {i.name for i in graph.input} - {i.name for i in graph.initializer}
    ordered = reading.needed(graph.node, [name for node in graph.node for name in node.output if name])
    for node in ordered:
        if not moving.isdisjoint(reading.read_names(node)):
            moving.update(name for name in node.output if name)
    del graph.node[:]
    graph.node.extend(ordered)
    known = {o.name for o in graph.output}
    for node in ordered:
        for name in node.output:
            if name and name in moving and name not in known and (only is None or name in only):
                graph.output.append(onnx.ValueInfoProto(name=name))
                known.add(name)
    return proto
