"""A network in batches, with what a fuzzer sees of its inside: broken tensors, and named tensors for coverage.

Axes: b lane, n flat input, m flat output, w watched tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import EngineError, InputError
from falsifier.fuzz.part import Part
from falsifier.fuzz.rewriting import Watchable
from falsifier.network.lowering import Lowered
from falsifier.network.operators.elementwise import elementwise
from falsifier.network.program import Builder, Value
from falsifier.network.work import division

Array = NDArray[Any]

# primitives whose results are not finite only where an operand is not, or that place and select
_HARMLESS = frozenset((
    "Relu", "LeakyRelu", "Reshape", "Transpose", "Identity", "Expand", "Tile", "Concat", "Slice", "Split", "Gather",
    "GatherElements", "GatherND", "ScatterElements", "MaxPool", "Pad", "Clip", "Max", "Min", "ReduceMax", "ReduceMin",
    "Neg", "Abs", "Sigmoid", "Tanh", "Erf", "Sign", "Floor", "Ceil", "Round", "Atan", "Sin", "Cos", "Squeeze",
    "Unsqueeze", "Softsign", "Elu", "Where", "TopK", "Hardmax",
))  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """What one batch showed.

    outputs `[b, m]`; broken `[b, w]`, where a watched tensor was not finite (w in topological order; empty where nobody
    asked); activations: by the model's tensor name, `[b, size]`.
    """

    outputs: Array
    broken: Array
    activations: dict[str, Array] = field(default_factory=dict)


class Watching(Protocol):
    """What runs batches and shows the inside: `Watch`, or `single.SingleWatch`."""

    @property
    def width(self) -> int:
        """w: how many tensors are watched for values that are not finite."""
        ...

    def run(self, x: Array) -> Seen:
        """Points `[b, n]`."""
        ...

    def kinds(self, x: Array) -> tuple[Array, Array]:
        """Where watched tensors hold NaN, and where infinities: bool `[b, w]` each."""
        ...


class Watch:
    """The lowered program of a network with outputs for what is watched.

    `finite`: whether to look for tensors that are not finite; `tensors`: the model's names of those to be seen.
    Raises InputError for a name that the network does not have.
    """

    def __init__(
        self,
        lowered: Lowered,
        *,
        finite: bool = False,
        tensors: Sequence[str] = (),
        halves: frozenset[str] = frozenset(),
        threads: int | None = None,
    ) -> None:
        from falsifier.fuzz.rewriting import watchable

        self._lowered = lowered
        self._division = division(lowered, threads)
        self._watchable: Watchable = watchable(lowered, halves)
        self._tensors: dict[str, Value] = {}
        for name in tensors:
            value = lowered.tensors.get(name)
            if not isinstance(value, Value):
                raise InputError(
                    f"no tensor {name!r} depends on the network's inputs: choose among "
                    f"{', '.join(_some(k for k, v in lowered.tensors.items() if isinstance(v, Value)))}"
                )
            self._tensors[name] = value
        self.watched: tuple[Value, ...] = ()
        if finite:
            self.watched = tuple(_watched(self._watchable.builder)) or (self._watchable.value(lowered.y),)
        self.m, self.dtype = lowered.m, lowered.dtype

    @property
    def width(self) -> int:
        """w: watched tensors, integer divisors included."""
        return len(self.watched) + (len(self._watchable.zero_divisors) if self.watched else 0)

    def run(self, x: Array) -> Seen:
        """`[b, n]`, b >= 1. Raises EngineError where the batch fails."""
        results = self._session.run({self._lowered.x.name: x})
        outputs = results[0]
        broken = np.isnan(results[1]) if self.watched else np.zeros((len(x), 0), np.bool_)
        inner = results[2:] if self.watched else results[1:]
        activations = {
            name: part.reshape(len(x), -1).astype(self.dtype, copy=False)
            for name, part in zip(self._tensors, inner, strict=True)
        }
        return Seen(outputs, broken, activations)

    def refused(self) -> Seen:
        """What stands for a sample that the network refuses."""
        nothing = {name: np.full((1, v.size), np.nan, self.dtype) for name, v in self._tensors.items()}
        return Seen(np.full((1, self.m), np.nan, self.dtype), np.ones((1, self.width), np.bool_), nothing)

    def kinds(self, x: Array) -> tuple[Array, Array]:
        """Where watched tensors hold NaN, and where infinities: `[b, w]` each. A divisor that is 0 counts as NaN."""
        nan, infinite = self._kinds.run({self._lowered.x.name: x})
        return nan > 0, infinite > 0

    @cached_property
    def _session(self) -> Part:
        build = self._watchable.builder.fork()
        outputs = [self._watchable.value(self._lowered.y)]
        if self.watched:
            outputs.append(_broken(build, self.watched, self._watchable.zero_divisors))
        outputs += [self._watchable.value(v) for v in self._tensors.values()]
        return Part(build, [self._lowered.x], outputs, self._division)

    @cached_property
    def _kinds(self) -> Part:
        build = self._watchable.builder.fork()
        zeros = self._watchable.zero_divisors
        columns = []
        for op, of_zeros in (("IsNaN", _any), ("IsInf", _none)):
            found = [elementwise(build, op, _single(build, v), dtype=np.bool_) for v in self.watched]
            columns.append(_joined(build, [*(_any(build, f) for f in found), *(of_zeros(build, z) for z in zeros)]))
        return Part(build, [self._lowered.x], columns, self._division)


def _some(names: Any) -> list[str]:
    listed = list(names)
    return [*listed[:8], "..."] if len(listed) > 8 else listed


def _watched(build: Builder) -> list[Value]:
    """Results that may be broken though their operands are not: where faults begin, in topological order."""
    found = []
    for primitive in build.program.primitives:
        if primitive.op in _HARMLESS:
            continue
        for name in primitive.outputs:
            value = build.program.values.get(name)
            if value is not None and value.dtype.kind == "f" and name != "lanes":
                found.append(value)
    return found


def _single(build: Builder, value: Value) -> Value:
    """Half precision as float32, for want of kernels."""
    return build.cast(value, np.float32) if value.dtype == np.float16 else value


def _flat(build: Builder, value: Value) -> Value:
    return build.view(value, (value.lead * int(np.prod(value.stored, dtype=np.int64)),))


_AXIS = np.array([1], np.int64)


def _sum(build: Builder, flat: Value) -> Value:
    return build.emit("ReduceSum", [flat, _AXIS], (1,), flat.dtype, keepdims=1)


def _broken(build: Builder, watched: Sequence[Value], zeros: Sequence[Value]) -> Value:
    """`[b, w]`: NaN where a tensor holds something that is not finite, else 0."""
    columns = []
    for value in watched:
        flat = _flat(build, _single(build, value))
        difference = build.emit("Sub", [flat, flat], flat.stored, flat.dtype)  # 0 for finite numbers alone
        columns.append(build.cast(_sum(build, difference), np.float32))
    nan = np.array(np.nan, np.float32)
    for zero in zeros:
        hit = build.emit("Greater", [_any(build, zero), np.zeros((), np.float32)], (1,), np.bool_)
        columns.append(build.emit("Where", [hit, nan, np.zeros((), np.float32)], (1,), np.float32))
    return _joined(build, columns)


def _any(build: Builder, mask: Value) -> Value:
    """`[b, 1]`: how many of a bool value's entries are true."""
    return _sum(build, build.cast(_flat(build, mask), np.float32))


def _none(build: Builder, mask: Value) -> Value:
    """A column of zeros."""
    return build.emit("Mul", [_any(build, mask), np.zeros((), np.float32)], (1,), np.float32)


def _joined(build: Builder, columns: Sequence[Value]) -> Value:
    if len(columns) == 1:
        return columns[0]
    return build.emit("Concat", list(columns), (len(columns),), np.float32, axis=1)


def run_in_parts(watch: Watching, x: Array, lanes: int) -> Seen:
    """`watch.run` over all rows, `lanes` at a time; a part that does not fit into memory is halved.

    A row that the network refuses has NaN for outputs, and counts as broken in every watched tensor.
    """
    parts: list[Seen] = []
    done = 0
    while done < len(x):
        try:
            parts.append(watch.run(x[done : done + lanes]))
            done += lanes
        except (EngineError, MemoryError):
            if lanes > 1:
                lanes = max(1, lanes // 2)
                continue
            parts.append(_refused(watch, x[done : done + 1]))
            done += 1
    if len(parts) == 1:
        return parts[0]
    return Seen(
        np.concatenate([p.outputs for p in parts]),
        np.concatenate([p.broken for p in parts]),
        {name: np.concatenate([p.activations[name] for p in parts]) for name in parts[0].activations},
    )


def _refused(watch: Watching, x: Array) -> Seen:
    if isinstance(watch, Watch):
        return watch.refused()
    return watch.run(x)  # raises again


def kinds_in_parts(watch: Watching, x: Array, lanes: int = 1024) -> tuple[Array, Array]:
    """`watch.kinds` over all rows; a row that the network refuses counts as NaN everywhere."""
    nan, infinite = np.zeros((2, len(x), watch.width), np.bool_)
    done = 0
    while done < len(x):
        part = slice(done, done + lanes)
        try:
            nan[part], infinite[part] = watch.kinds(x[part])
        except (EngineError, MemoryError):
            if lanes > 1:
                lanes = max(1, lanes // 2)
                continue
            nan[part] = True
        done += lanes
    return nan, infinite
