"""The softmax that ends a network, seen from its logits.

A trained classifier's softmax saturates: its slope is 0 in float32 almost everywhere. Where an atom compares two
outputs, y_i - y_j >= 0, the logits decide just as well: softmax keeps their order, z_i - z_j >= 0 at the same points.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from falsifier.network.program import Builder, Value

if TYPE_CHECKING:
    from falsifier.network.engine import Engine
    from falsifier.network.lowering import Lowered


_DECIDING = frozenset(("ArgMax", "ArgMin", "TopK", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"))


def may_decide(lowered: Lowered) -> bool:
    """Whether outputs may be decisions: without one of these primitives none is, and `decisions` need not be read."""
    return any(primitive.op in _DECIDING for primitive in lowered.program.primitives)


def logits_of(build: Builder, y: Value) -> Value | None:
    """The logits `[b, m]` where all of the flat outputs y are one softmax, else None."""
    name = y.name
    while (primitive := build.producer(name)) is not None and primitive.op in ("Reshape", "Identity"):
        name = primitive.inputs[0]
    if primitive is None or primitive.op not in ("Softmax", "Div"):
        return None
    if primitive.op == "Softmax":
        argument, axis = primitive.inputs[0], primitive.attributes["axis"]
    else:  # exp(z) / sum(exp(z))
        from falsifier.network.written_out import as_written_out

        written = as_written_out(build, primitive)
        if written is None or not written.keeps:
            return None
        argument, axis = written.argument, written.keeps
    z = build.program.values[argument]
    axis = axis % (len(z.stored) + 1)
    if axis < 1 or z.stored[axis - 1] != y.size or z.lead * int(np.prod(z.stored)) != y.size or z.dtype != y.dtype:
        return None
    logits = build.shaped(build.view(build.shaped(z, y.shape), (y.size,)), (y.size,))
    if build.producer(logits.name) is None:  # the input itself: an output has a node that makes it
        logits = build.shaped(build.emit("Identity", [logits], logits.stored), (y.size,))
    return logits


def on_logits(engine: Engine, lowered: Lowered) -> Engine:
    """An engine like the given one whose outputs are the logits; the same engine where there are none.

    For queries that compare outputs alone: there the margins of forward runs, by which search ranks points, saturate as
    badly as gradients do.
    """
    if lowered.logits is None:
        return engine
    return engine_like(engine, replace(lowered, y=lowered.logits, logits=None)) or engine


def engine_like(engine: Engine, lowered: Lowered) -> Engine | None:
    """An engine of the same kind for another program; None where the kind has no program."""
    if engine.name == "onnxruntime":
        from falsifier.network.onnxruntime_engine import OnnxruntimeEngine

        return OnnxruntimeEngine(lowered)
    if engine.name == "torch":
        from falsifier.network.torch_engine import TorchEngine

        return TorchEngine(lowered, engine.device)
    return None
