"""The lowered program: a network rewritten so that every tensor that depends on the inputs has a leading lane axis.

A model is lowered node by node (`operators/`): each node's rule knows the static shape that one sample has, and emits
*primitives*: ONNX nodes of one opset whose meaning on `[b, *stored]` arrays is, lane by lane, what the node means on one
sample. Batching is thereby right by construction, whatever the model does to its leading axis. Both engines run this same
program: onnxruntime as a model, torch through one closure per primitive. The reverse-mode adjoint is more primitives,
emitted by the same builder.

`stored` may be any reshape of the sample's `shape`: Reshape, Flatten, Squeeze and Unsqueeze cost nothing, and a Reshape
primitive appears only where a rule asks for another view.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

OPSET = 21  # of every primitive
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Value:
    """A tensor that depends on the inputs. In the program it is called `name` and is an array `[lead * b, *stored]`.

    `shape` is what one sample has in the model, `stored` a shape of the same size. `lead` is 1 except inside rules that fold
    a sample axis into the lane axis (see `Builder.fold`), where prod(stored) * lead == prod(shape).
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


@dataclass(frozen=True)
class Primitive:
    """One node of the program. Inputs and outputs are names of values or constants; '' is an omitted input."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass
class Program:
    """Primitives in execution order, and what their names stand for."""

    primitives: list[Primitive] = field(default_factory=list)
    constants: dict[str, NDArray[Any]] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)


class Builder:
    """Appends primitives to a program."""

    def __init__(self, program: Program | None = None) -> None:
        self.program = program or Program()
        self._by_content: dict[tuple[str, Shape, bytes], str] = {}
        self._views: dict[tuple[str, Shape, int], Value] = {}
        self._count = 0

    def fresh(self, hint: str) -> str:
        """A name not used before."""
        self._count += 1
        return f"{hint}_{self._count}"

    def input(self, name: str, stored: Shape, dtype: np.dtype[Any]) -> Value:
        """A graph input `[b, *stored]`."""
        value = Value(name, stored, stored, dtype)
        self.program.values[name] = value
        return value

    def constant(self, array: NDArray[Any]) -> str:
        """The name of a constant; small equal ones are shared."""
        array = np.asarray(array)
        key = (array.dtype.str, array.shape, array.tobytes()) if array.size <= 64 else None
        if key is not None and key in self._by_content:
            return self._by_content[key]
        name = self.fresh("c")
        self.program.constants[name] = array
        if key is not None:
            self._by_content[key] = name
        return name

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
        self.program.primitives.append(Primitive(op, names, tuple(v.name for v in values), attributes))
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
        """The view `[b * prod(shape[:axes]), *shape[axes:]]`: leading sample axes folded into the lane axis, as Conv wants."""
        return self.view(value, value.shape[axes:], math.prod(value.shape[:axes]))

    def shaped(self, value: Value, shape: Shape) -> Value:
        """The same array under another sample shape of equal size (Reshape, Flatten, Squeeze, Unsqueeze: free)."""
        return Value(value.name, tuple(shape), value.stored, value.dtype, value.lead)

    def broadcast_operands(self, operands: Sequence[Value | NDArray[Any]]) -> tuple[list[Value | NDArray[Any]], Shape, Shape]:
        """Operands of an elementwise primitive, aligned so that numpy broadcasting on the arrays is the sample's broadcasting.

        Returns the aligned operands, the sample shape of the result and its stored shape. Values that already share one stored
        shape are left as they are.
        """
        shape = np.broadcast_shapes(*(v.shape for v in operands))
        values = [v for v in operands if isinstance(v, Value)]
        arrays = [v for v in operands if not isinstance(v, Value)]
        first = values[0]
        same = all(v.stored == first.stored and v.lead == first.lead and v.shape == shape for v in values)
        if same and all(a.size == 1 for a in arrays):
            flat: list[Value | NDArray[Any]] = [v if isinstance(v, Value) else v.reshape(()) for v in operands]
            return flat, shape, first.stored
        # every operand at full rank, minus the leading axes on which all of them have length 1
        rank = len(shape)
        padded = [(1,) * (rank - v.ndim if not isinstance(v, Value) else rank - len(v.shape)) + tuple(v.shape) for v in operands]
        drop = 0
        while drop < rank and all(p[drop] == 1 for p in padded):
            drop += 1
        aligned: list[Value | NDArray[Any]] = []
        for operand, p in zip(operands, padded, strict=True):
            aligned.append(self.view(operand, p[drop:]) if isinstance(operand, Value) else operand.reshape(p[drop:]))
        return aligned, shape, shape[drop:]
