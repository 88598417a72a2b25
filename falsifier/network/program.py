"""The lowered program: a network rewritten so that every tensor that depends on the inputs has a leading lane axis.

A model is lowered node by node (`operators/`): each node's rule knows the static shape that one sample has, and emits
*primitives*: ONNX nodes of one opset whose meaning on `[b, *stored]` arrays is, lane by lane, what the node means on
one sample. Batching is thereby right by construction, whatever the model does to its leading axis. Both engines run
this same program: onnxruntime as a model, torch through one closure per primitive. The reverse-mode adjoint is more
primitives, emitted by the same builder.

`stored` may be any reshape of the sample's `shape`: Reshape, Flatten, Squeeze and Unsqueeze cost nothing, and a Reshape
primitive appears only where a rule asks for another view.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import UnsupportedError
from falsifier.records import record

OPSET = 21  # of every primitive
WINDOW = "window"  # the program input [b] that straight-through adjoints read, present only where one asked for it
Shape = tuple[int, ...]


@record
class Value:
    """A tensor that depends on the inputs. In the program it is called `name` and is an array `[lead * b, *stored]`.

    `shape` is what one sample has in the model, `stored` a shape of the same size. `lead` is 1 except where a rule
    folds sample axes into the lane axis (see `Builder.fold`): prod(stored) * lead == prod(shape).
    """

    name: str
    shape: Shape
    stored: Shape
    dtype: np.dtype[Any]
    lead: int = 1

    @property
    def size(self) -> int:
        return math.prod(self.shape)


Operand = Value | NDArray[Any] | None  # a tensor with lanes, a constant, or an omitted optional input


class Tensors(tuple[Operand, ...]):
    """What the model calls a sequence. Which tensors are in it is certain, whatever the inputs are."""


Carried = Operand | Tensors  # what a name in a model may stand for


@dataclass(frozen=True)
class Primitive:
    """One node of the program. Inputs and outputs are names of values or constants; '' is an omitted input."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)


@record
class Dequantized:
    """What a constant is made of: (integers - zero) * scale. `axis`: that of a scale with several entries."""

    integers: NDArray[Any]
    scale: NDArray[Any]
    zero: NDArray[Any]
    axis: int


@dataclass
class Program:
    """Primitives in execution order, and what their names stand for. `inputs` are the graph inputs, in order.

    `dequantized`: constants that a quantised model has as integers.
    """

    inputs: list[str] = field(default_factory=list)
    primitives: list[Primitive] = field(default_factory=list)
    constants: dict[str, NDArray[Any]] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    dequantized: dict[str, Dequantized] = field(default_factory=dict)


def broadcast_shape(*shapes: Shape) -> Shape:
    """numpy's broadcasting of shapes. Raises UnsupportedError where they do not fit."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise UnsupportedError(f"shapes {' and '.join(str(list(s)) for s in shapes)} do not broadcast") from None


def computed_dtype(dtype: Any) -> np.dtype[Any]:
    """The type in which a tensor of the model is computed: float32 for half precision, every other type is kept."""
    dtype = np.dtype(dtype)
    return np.dtype(np.float32) if dtype.name in ("float16", "bfloat16") else dtype


def _address(array: NDArray[Any]) -> int:
    """Where an array's data lies: that of a view which only reshapes it too."""
    return int(array.__array_interface__["data"][0]) if array.flags.c_contiguous else 0


def needed_primitives(program: Program, outputs: Iterable[str]) -> list[Primitive]:
    """The primitives that lead to the named values, in execution order."""
    wanted = set(outputs)
    kept = []
    for primitive in reversed(program.primitives):
        if not wanted.isdisjoint(primitive.outputs):
            kept.append(primitive)
            wanted.update(primitive.inputs)
    return kept[::-1]


def depending(program: Program, inputs: Iterable[str]) -> set[str]:
    """The inputs that are named, and all values that depend on them."""
    moving = set(inputs)
    for primitive in program.primitives:
        if not moving.isdisjoint(primitive.inputs):
            moving.update(primitive.outputs)
    return moving


class Builder:
    """Appends primitives to a program."""

    def __init__(self) -> None:
        self.program = Program()
        self._by_content: dict[tuple[str, Shape, bytes], str] = {}
        self._same: dict[int, str] = {}
        self._views: dict[tuple[str, Shape, int], Value] = {}
        self._producers: dict[str, Primitive] = {}
        self._integers: dict[int, tuple[NDArray[Any], Dequantized]] = {}
        self._count = 0

    def fork(self) -> Builder:
        """A builder that goes on from here without changing this one's program."""
        copy = Builder()
        program = self.program
        copy.program = Program(
            list(program.inputs),
            list(program.primitives),
            dict(program.constants),
            dict(program.values),
            dict(program.dequantized),
        )
        copy._by_content, copy._views, copy._same = dict(self._by_content), dict(self._views), dict(self._same)
        copy._producers, copy._count = dict(self._producers), self._count
        return copy

    def fresh(self, hint: str) -> str:
        """A name not used before."""
        self._count += 1
        return f"{hint}_{self._count}"

    def input(self, name: str, stored: Shape, dtype: np.dtype[Any]) -> Value:
        """A graph input `[b, *stored]`."""
        value = Value(name, stored, stored, np.dtype(dtype))
        self.program.values[name] = value
        self.program.inputs.append(name)
        return value

    def window(self, dtype: Any) -> Value:
        """The width of straight-through windows, one number per lane: a program input `[b]`, made on first use.

        A lane's width w is in units of a tensor's mean magnitude (see `Engine.ascend`). The engine feeds the largest
        finite number for "pass everywhere", so that width times a mean of 0 is 0 and not NaN.
        """
        return self.program.values.get(WINDOW) or self.input(WINDOW, (), np.dtype(dtype))

    def producer(self, name: str) -> Primitive | None:
        """The primitive whose output is called `name`; None for program inputs and constants."""
        return self._producers.get(name)

    def spread(self, array: NDArray[Any]) -> Value:
        """A constant repeated in every lane, `[b, *shape]`: for primitives that do not broadcast, such as Concat."""
        array = np.asarray(array)
        if "lanes" not in self.program.values:
            # [b] as a one-element tensor: the one value of a program that has no lane axis
            first = self.program.values[self.program.inputs[0]]
            self.append(Primitive("Shape", (first.name,), ("lanes",), {"start": 0, "end": 1}))
            self.program.values["lanes"] = Value("lanes", (), (), np.dtype(np.int64))
        target = "lanes"
        if array.ndim:
            target = self.fresh("lanes")
            ones = self.constant(np.ones(array.ndim, dtype=np.int64))
            self.append(Primitive("Concat", ("lanes", ones), (target,), {"axis": 0}))
            self.program.values[target] = Value(target, (), (), np.dtype(np.int64))
        result = Value(self.fresh("spread"), array.shape, array.shape, array.dtype)
        self.append(Primitive("Expand", (self.constant(array[None]), target), (result.name,)))
        self.program.values[result.name] = result
        return result

    def cast(self, value: Value, dtype: Any) -> Value:
        """The value in another element type (Cast, whose attribute `to` is a numpy dtype in a program)."""
        dtype = np.dtype(dtype)
        if value.dtype == dtype:
            return value
        return self.shaped(self.emit("Cast", [value], value.stored, dtype, lead=value.lead, to=dtype), value.shape)

    def append(self, primitive: Primitive) -> None:
        """A primitive whose inputs and outputs are known to the program already."""
        self.program.primitives.append(primitive)
        for name in primitive.outputs:
            self._producers[name] = primitive

    def replace(self, at: int, primitive: Primitive) -> None:
        """Another primitive with the same outputs in place of number `at`."""
        self.program.primitives[at] = primitive
        for name in primitive.outputs:
            self._producers[name] = primitive

    def rename(self, value: Value, name: str) -> Value:
        """Give the result of the last primitive another name."""
        last = self.program.primitives.pop()
        del self.program.values[value.name]
        outputs = tuple(name if o == value.name else o for o in last.outputs)
        self.append(Primitive(last.op, last.inputs, outputs, last.attributes))
        renamed = Value(name, value.shape, value.stored, value.dtype, value.lead)
        self.program.values[name] = renamed
        return renamed

    def constant(self, array: NDArray[Any]) -> str:
        """The name of a constant; small equal ones are shared, and large ones that are the same array."""
        array = np.asarray(array)
        if id(array) in self._same:
            return self._same[id(array)]
        key = (array.dtype.str, array.shape, array.tobytes()) if array.size <= 64 else None
        if key is not None and key in self._by_content:
            return self._by_content[key]
        name = self.fresh("c")
        self.program.constants[name] = array
        known, origin = self._integers.get(_address(array), (None, None))
        if known is not None and origin is not None and known.shape == array.shape:
            self.program.dequantized[name] = origin
        if key is not None:
            self._by_content[key] = name
        else:
            self._same[id(array)] = name  # the program keeps the array, so that no other has its id
        return name

    def adopt(self, name: str, array: NDArray[Any]) -> None:
        """A constant of another program under this name."""
        self.program.constants[name] = array
        self._same.setdefault(id(array), name)

    def note_dequantized(self, array: NDArray[Any], origin: Dequantized) -> None:
        """Remember what an array is made of, for when it becomes a constant of the program."""
        self._integers[_address(array)] = (array, origin)

    def emit_many(
        self,
        op: str,
        inputs: Sequence[Operand],
        results: Sequence[tuple[Shape, np.dtype[Any]]],
        *,
        lead: int = 1,
        **attributes: Any,
    ) -> list[Value]:
        """Append a primitive with one output per entry of `results`: the shape it stores per lane, and its type.

        numpy arrays among `inputs` become constants *without* a lane axis: the rule makes sure that they broadcast.
        """
        names = tuple("" if v is None else v.name if isinstance(v, Value) else self.constant(v) for v in inputs)
        values = [Value(self.fresh(op), shape, shape, np.dtype(dtype), lead) for shape, dtype in results]
        self.append(Primitive(op, names, tuple(v.name for v in values), attributes))
        for v in values:
            self.program.values[v.name] = v
        return values

    def emit(
        self, op: str, inputs: Sequence[Operand], stored: Shape, dtype: Any = None, *, lead: int = 1, **attributes: Any
    ) -> Value:
        """Append a primitive with one output `[lead * b, *stored]`; `dtype` defaults to that of the first Value."""
        if dtype is None:
            dtype = next(v.dtype for v in inputs if isinstance(v, Value))
        return self.emit_many(op, inputs, [(tuple(stored), np.dtype(dtype))], lead=lead, **attributes)[0]

    def view(self, value: Value, stored: Shape, lead: int = 1) -> Value:
        """The same data as `[lead * b, *stored]`. Emits a Reshape only where the stored shape differs."""
        stored = tuple(stored)
        if value.stored == stored and value.lead == lead:
            return value
        key = (value.name, stored, lead)
        found = self._views.get(key)
        if found is None:
            target = np.array([-1, *stored], dtype=np.int64)
            found = self.emit("Reshape", [value, target], stored, value.dtype, lead=lead)
            self._views[key] = found
        return Value(found.name, value.shape, stored, value.dtype, lead)

    def sample(self, value: Value) -> Value:
        """The view whose stored shape is the sample's own shape: axis i of the sample is axis i + 1 of the array."""
        return self.view(value, value.shape)

    def fold(self, value: Value, axes: int) -> Value:
        """The view `[b * prod(shape[:axes]), *shape[axes:]]`: leading sample axes join the lanes, as Conv wants."""
        return self.view(value, value.shape[axes:], math.prod(value.shape[:axes]))

    def shaped(self, value: Value, shape: Shape) -> Value:
        """The same array under another sample shape of equal size (Reshape, Flatten, Squeeze, Unsqueeze: free)."""
        return Value(value.name, tuple(shape), value.stored, value.dtype, value.lead)

    def elementwise(
        self, op: str, operands: Sequence[Value | NDArray[Any]], dtype: Any = None, **attributes: Any
    ) -> Value:
        """Append an elementwise primitive: numpy broadcasting over the samples, whatever views they are stored in."""
        aligned, shape, stored = self.broadcast_operands(operands)
        lead = next(v.lead for v in aligned if isinstance(v, Value))
        return self.shaped(self.emit(op, aligned, stored, dtype, lead=lead, **attributes), shape)

    def broadcast_operands(
        self, operands: Sequence[Value | NDArray[Any]]
    ) -> tuple[list[Value | NDArray[Any]], Shape, Shape]:
        """Operands of an elementwise primitive, aligned so that numpy broadcasting on the arrays is the samples'.

        Returns the aligned operands, the sample shape of the result and its stored shape. Values that already share one
        stored shape are left as they are. The aligned Values all have one rank and one lead; the constants have no lane
        axis.
        """
        shape = broadcast_shape(*(v.shape for v in operands))
        rank = len(shape)
        padded = [(1,) * (rank - len(v.shape)) + tuple(v.shape) for v in operands]
        values = [v for v in operands if isinstance(v, Value)]
        first = values[0]
        if all(v.stored == first.stored and v.lead == first.lead and v.shape == shape for v in values):
            # stored as they are, if each constant is a scalar or lives in the trailing axes that are stored
            kept = rank - len(first.stored)
            trailing = kept >= 0 and shape[kept:] == first.stored
            flat: list[Value | NDArray[Any]] = []
            for operand, p in zip(operands, padded, strict=True):
                if isinstance(operand, Value):
                    flat.append(operand)
                elif operand.size == 1:
                    flat.append(operand.reshape(()))
                elif trailing and all(d == 1 for d in p[:kept]):
                    flat.append(operand.reshape(p[kept:]))
                else:
                    break
            else:
                return flat, shape, first.stored
        # every operand at full rank, minus leading axes on which all have length 1: as many as make a view unneeded
        free = next((i for i in range(rank) if shape[i] != 1), rank)
        drop = next(
            (
                rank - len(v.stored)
                for v in values
                if v.lead == 1 and v.stored == v.shape[len(v.shape) - len(v.stored) :]
            ),
            free,
        )
        drop = drop if 0 <= drop <= free else free
        aligned: list[Value | NDArray[Any]] = []
        for operand, p in zip(operands, padded, strict=True):
            aligned.append(self.view(operand, p[drop:]) if isinstance(operand, Value) else operand.reshape(p[drop:]))
        return aligned, shape, shape[drop:]

    def sum_to(self, gradient: Value, stored: Shape) -> Value:
        """The gradient of an operand that was broadcast from `[lead * b, *stored]`: summed where it was repeated.

        `stored` has the gradient's rank (as `broadcast_operands` aligns them).
        """
        axes = [i + 1 for i, (a, d) in enumerate(zip(stored, gradient.stored, strict=True)) if a == 1 and d != 1]
        if not axes:
            return gradient
        return self.emit(
            "ReduceSum", [gradient, np.array(axes, dtype=np.int64)], tuple(stored), lead=gradient.lead, keepdims=1
        )
