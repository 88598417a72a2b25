"""What one forward run shows of a network: its outputs, and activations inside it.

Activations are tensors of the model by name. The maps of convolutions may be reduced to one number for each channel,
the largest magnitude over the map (paper A, 16): that is done inside the program, so that no map leaves the engine.

Axes: b lane, n flat input, m flat output, w activations that are watched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from falsifier.errors import EngineError
from falsifier.network.lowering import Lowered
from falsifier.network.operators.elementwise import elementwise
from falsifier.network.operators.reduction import reduced
from falsifier.network.program import Builder, Value

Array = Any

# primitives whose results are what a layer is said to activate
_ACTIVATIONS = frozenset(
    ("Relu", "LeakyRelu", "Sigmoid", "Tanh", "Sign", "Clip", "Erf", "Elu", "Softplus", "PRelu", "HardSigmoid")
)
_LINEAR = frozenset(("Conv", "ConvTranspose", "Gemm", "MatMul"))


@dataclass(frozen=True)
class Layer:
    """A tensor that activation functions make: its name in the model, its elements, and how many channels they have."""

    name: str
    size: int
    channels: int


@dataclass(frozen=True)
class Watch:
    """A tensor of the model by name; `channels`: a map counts as one number for each channel, else whole."""

    tensor: str
    channels: bool = False


@dataclass(frozen=True)
class Observer:
    """`run`: points `[b, n]` to outputs `[b, m]` and activations `[b, w]`, the watched tensors side by side.

    `widths`: how many of the w columns each has, in the order they were asked for.
    """

    widths: tuple[int, ...]
    run: Callable[[Array], tuple[Array, Array]]


@runtime_checkable
class Observable(Protocol):
    """An engine that shows what is inside. Search asks with `isinstance`; one that does not is searched all the same.

    `layers`: what activation functions make, in execution order (products and convolutions in networks without such
    functions).
    """

    @property
    def layers(self) -> tuple[Layer, ...]: ...

    def observer(self, watched: Sequence[Watch]) -> Observer:
        """An observer of named tensors of the model. Raises EngineError for unknown names."""
        ...


@dataclass(frozen=True)
class Probes:
    """A program that goes on to what is watched: `outputs` holds y first; several may be one value."""

    build: Builder
    outputs: tuple[Value, ...]
    widths: tuple[int, ...]


def layers_of(lowered: Lowered) -> tuple[Layer, ...]:
    """What a model's activation functions make; of a value with several names the first."""
    made = {name: p.op for p in lowered.program.primitives for name in p.outputs}
    layers: dict[str, Layer] = {}
    for name, operand in lowered.tensors.items():
        if isinstance(operand, Value) and operand.name in made:
            channels = math.prod(operand.shape[:2]) if _is_map(operand) else operand.size
            layers.setdefault(operand.name, Layer(name, operand.size, channels))
    for kinds in (_ACTIVATIONS, _LINEAR):
        found = tuple(layers[value] for value, op in made.items() if op in kinds and value in layers)
        if found:
            return found
    return ()


def probes(lowered: Lowered, watched: Sequence[Watch]) -> Probes:
    """The program with what is watched as further outputs. Raises EngineError for unknown names."""
    build = lowered.builder.fork()
    values = []
    for watch in watched:
        value = lowered.tensors.get(watch.tensor)
        if not isinstance(value, Value) or value.name in build.program.inputs:
            raise EngineError(f"the lowered network computes no tensor {watch.tensor!r}")
        values.append(_by_channel(build, value) if watch.channels and _is_map(value) else value)
    return Probes(build, (lowered.y, *values), tuple(value.size for value in values))


def _is_map(value: Value) -> bool:
    return len(value.shape) > 2


def _by_channel(build: Builder, value: Value) -> Value:
    """A map `[1, c, ...]` as the largest magnitude of each channel."""
    outer, inner = math.prod(value.shape[:2]), math.prod(value.shape[2:])
    flat = build.shaped(build.view(value, (outer, inner)), (outer, inner))
    return reduced(build, "ReduceMax", elementwise(build, "Abs", flat), [1])
