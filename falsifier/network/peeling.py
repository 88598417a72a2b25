"""Peeling: a network without the softmax that ends it.

Where a query only compares outputs with each other, the softmax changes no answer, but it flattens every gradient once one
class wins clearly, and its differences vanish by rounding. Search runs on what goes into it; the door replays the original.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from falsifier.errors import EngineError, UnsupportedError
from falsifier.network.engine import Engine

if TYPE_CHECKING:
    from falsifier.network.load import Network
    from falsifier.network.lowering import Lowered
    from falsifier.network.program import Primitive

_TRANSPARENT = ("Identity", "Reshape")


def peel(lowered: Lowered) -> Lowered | None:
    """The same program up to the input of its last softmax; None unless that runs over all outputs of one sample."""
    program = lowered.program
    makers = {name: primitive for primitive in program.primitives for name in primitive.outputs}
    name = lowered.y.name
    last: Primitive | None = makers.get(name)
    while last is not None and last.op in _TRANSPARENT:
        name = last.inputs[0]
        last = makers.get(name)
    if last is None or last.op not in ("Softmax", "LogSoftmax"):
        return None
    value = program.values[last.outputs[0]]
    axis = last.attributes["axis"] % (len(value.stored) + 1)
    if value.lead != 1 or axis == 0 or value.stored[axis - 1] != lowered.m or value.size != lowered.m:
        return None
    builder = lowered.builder.fork()
    inner = program.values[last.inputs[0]]
    return replace(lowered, builder=builder, y=builder.shaped(builder.view(inner, (lowered.m,)), (lowered.m,)))


def without_softmax(engine: Engine, network: Network) -> Engine:
    """A network's engine for the peeled program, or the same engine where there is nothing to peel."""
    peeled = peel(network.lowered) if engine.name in ("onnxruntime", "torch") else None
    if peeled is None:
        return engine
    try:
        if engine.name == "onnxruntime":
            from falsifier.network.onnxruntime_engine import OnnxruntimeEngine

            return OnnxruntimeEngine(peeled)
        if engine.name == "torch":
            from falsifier.network.torch_engine import TorchEngine

            return TorchEngine(peeled, engine.device)
    except (EngineError, UnsupportedError):
        pass
    return engine
