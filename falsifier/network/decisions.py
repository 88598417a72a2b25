"""Decisions: outputs that take few values, by which of some scores is largest or whether one exceeds another.

Such an output is constant almost everywhere: neither a gradient nor a margin says how far a point is from another
value. What a query asks of it is a question about the scores behind it, and their *gap* answers that: it rises
towards the answer, and is at least its floor where the output is what was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from falsifier.network.counts import MAPS, ORDERS, counted
from falsifier.network.operators.elementwise import elementwise
from falsifier.network.operators.slicing import take_slices
from falsifier.network.program import Builder, Primitive, Value
from falsifier.network.written_out import as_written_out

if TYPE_CHECKING:
    from falsifier.network.lowering import Lowered

Mask = NDArray[np.bool_]

_MOST = 32  # answers of the smaller of two decisions that are combined
_DEEPEST = 64  # operators between an output and its decision
_KEEPS_ORDER = ("Identity", "Reshape", "Sigmoid", "Tanh")


@dataclass(frozen=True)
class Gap:
    """A number of each lane, stored `[1]`. At least 0 where the answer is one that was asked for; `strict`: above 0."""

    value: Value
    strict: bool


@dataclass(frozen=True)
class Decision:
    """One element of an output: its `values` `[c]`, one for each answer, and the gap of some of the answers.

    `between(wanted)`: of answers `[c]`, at least one of which is wanted and one is not.
    """

    values: NDArray[Any]
    between: Callable[[Mask], Gap]

    def gap(self, wanted: Mask) -> Gap | bool:
        """Of answers `[c]`; a truth value where all are wanted, or none."""
        return self.between(wanted) if wanted.any() and not wanted.all() else bool(wanted.all())

    def mapped(self, function: Callable[[NDArray[Any]], NDArray[Any]]) -> Decision:
        """A function of the output; answers that it makes equal become one."""
        with np.errstate(all="ignore"):
            values, answer = np.unique(np.asarray(function(self.values)), return_inverse=True)
        return Decision(values, lambda wanted: self.between(wanted[answer.ravel()]))


def decision(build: Builder, y: Value, at: int) -> Decision | None:
    """What decides element `at` of flat outputs y; None for an output of another kind. Gaps are emitted into
    `build`."""
    return _Finder(build).of(y.name, at, 0)


def combined(build: Builder, a: Decision, b: Decision, function: Callable[[Any, Any], NDArray[Any]]) -> Decision | None:
    """A function of two decisions. None where both have many answers."""
    if len(a.values) > len(b.values):
        return combined(build, b, a, lambda x, y: function(y, x))
    if len(a.values) > _MOST:
        return None

    def between(wanted: Mask) -> Gap:
        rows = wanted.reshape(len(a.values), len(b.values))
        ways = [_both(build, a.gap(np.arange(len(rows)) == i), b.gap(row)) for i, row in enumerate(rows)]
        gap = _either(build, ways)
        assert isinstance(gap, Gap)
        return gap

    one, other = (part.ravel() for part in np.meshgrid(a.values, b.values, indexing="ij"))
    return Decision(np.arange(one.size), between).mapped(lambda _: function(one, other))


def _both(build: Builder, a: Gap | bool, b: Gap | bool) -> Gap | bool:
    if isinstance(a, bool):
        return b if a else False
    if isinstance(b, bool):
        return a if b else False
    return Gap(elementwise(build, "Min", a.value, b.value), a.strict or b.strict)


def _either(build: Builder, ways: Sequence[Gap | bool]) -> Gap | bool:
    left = [way for way in ways if isinstance(way, Gap)]
    if any(way is True for way in ways) or not left:
        return any(way is True for way in ways)
    value = left[0].value
    for way in left[1:]:
        value = elementwise(build, "Max", value, way.value)
    return Gap(value, any(way.strict for way in left))


@dataclass(frozen=True)
class _Finder:
    """Walks from an output back to what decides it."""

    build: Builder

    def of(self, name: str, at: int, depth: int) -> Decision | None:
        """The decision behind element `at`, in row-major order, of the value called `name`."""
        primitive, values = self.build.producer(name), self.build.program.values
        if primitive is None or depth > _DEEPEST or values[name].lead != 1:
            return None
        op = primitive.op
        if op in ("Reshape", "Identity", "Cast"):
            inner = self.of(primitive.inputs[0], at, depth + 1)
            if inner is None or op != "Cast":
                return inner
            to = np.dtype(primitive.attributes["to"])
            return inner.mapped(lambda v: v.astype(to))
        if op in ("Slice", "Split", "Transpose"):
            return self.of(primitive.inputs[0], self._origin(primitive, name, at), depth + 1)
        if op == "Concat":
            return self._part(primitive, at, depth)
        if op in ("ArgMax", "ArgMin"):
            return self._largest(primitive, values[name], at)
        if op == "TopK" and name == primitive.outputs[1] and primitive.attributes["sorted"]:
            axis = primitive.attributes["axis"] - 1
            first = np.unravel_index(at, values[name].stored)[axis] == 0
            return self._largest(primitive, values[name], at) if first else None
        if op in ("ReduceSum", "ReduceMean"):
            count = counted(self.build, primitive, at)
            return None if count is None else Decision(count[0], lambda wanted: Gap(count[1](wanted), False))
        if op == "Gather":
            return self._looked_up(primitive, values[name], at, depth)
        return self._elementwise(primitive, values[name], at, depth) if op in MAPS else None

    def _origin(self, primitive: Primitive, name: str, at: int) -> int:
        """Which element of its first input a primitive that only places elements puts at `at`."""
        constants, values = self.build.program.constants, self.build.program.values
        whole = (1, *values[primitive.inputs[0]].stored)
        place = [int(p) for p in np.unravel_index(at, (1, *values[name].stored))]
        if primitive.op == "Transpose":
            place = [place[axis] for axis in np.argsort(primitive.attributes["perm"])]
        elif primitive.op == "Split":
            before = constants[primitive.inputs[1]][: primitive.outputs.index(name)]
            place[primitive.attributes["axis"]] += int(before.sum())
        else:
            starts, ends, axes, steps = (constants[name].tolist() for name in primitive.inputs[1:])
            for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
                kept = range(whole[axis])[slice(start, end if end >= 0 else None, step)]
                place[axis] = kept[place[axis]]
        return int(np.ravel_multi_index(place, whole))

    def _part(self, primitive: Primitive, at: int, depth: int) -> Decision | None:
        """An element of flat parts side by side."""
        for name in primitive.inputs:
            part = self.build.program.values.get(name)
            if part is None or len(part.stored) != 1:
                return None
            if at < part.size:
                return self.of(name, at, depth + 1)
            at -= part.size
        return None

    def _elementwise(self, primitive: Primitive, result: Value, at: int, depth: int) -> Decision | None:
        """A function of constants and of one or two decisions, or an order of two scores."""
        constants, values = self.build.program.constants, self.build.program.values
        operands: list[Any] = []
        for name in primitive.inputs:
            if name in constants:
                operands.append(_entry(constants[name], result, at))
                continue
            place = _place(values[name], result, at)
            operands.append(None if place is None else self.of(name, place, depth + 1))
        moving = [i for i, name in enumerate(primitive.inputs) if name in values]
        if primitive.op in ORDERS and any(operands[i] is None for i in moving):
            return self._order(primitive, result, at)
        found = [operands[i] for i in moving]
        if None in found or not 0 < len(found) <= 2:
            return None

        def apply(*given: Any) -> NDArray[Any]:
            full = list(operands)
            for i, value in zip(moving, given, strict=True):
                full[i] = value
            return np.asarray(MAPS[primitive.op](*full), dtype=result.dtype)

        return found[0].mapped(apply) if len(found) == 1 else combined(self.build, found[0], found[1], apply)

    def _order(self, primitive: Primitive, result: Value, at: int) -> Decision | None:
        """Whether a score exceeds another, or a constant."""
        constants, values = self.build.program.constants, self.build.program.values
        moving = [name for name in primitive.inputs if name in values]
        places = {name: _place(values[name], result, at) for name in moving}
        if None in places.values() or any(values[name].dtype.kind != "f" for name in moving):
            return None
        sign, strict = ORDERS[primitive.op]

        def side(name: str) -> Value | NDArray[Any]:
            if name in constants:
                return _entry(constants[name], result, at).reshape(1)
            place = places[name]
            assert place is not None
            return self._element(values[name], place)

        def between(wanted: Mask) -> Gap:
            a, b = (side(name) for name in primitive.inputs[:: 1 if (sign > 0) == bool(wanted[1]) else -1])
            return Gap(elementwise(self.build, "Sub", a, b), strict == bool(wanted[1]))

        return Decision(np.array([False, True]), between)

    def _looked_up(self, primitive: Primitive, result: Value, at: int, depth: int) -> Decision | None:
        """An entry of a constant list: labels of classes."""
        table = self.build.program.constants.get(primitive.inputs[0])
        index = self.build.program.values.get(primitive.inputs[1])
        if table is None or index is None or primitive.attributes.get("axis", 0) != 0:
            return None
        entries = table.reshape(len(table), -1)
        row, column = divmod(at, entries.shape[1])
        inner = self.of(index.name, row, depth + 1)
        return None if inner is None else inner.mapped(lambda v: entries[v % len(entries), column])

    def _largest(self, primitive: Primitive, result: Value, at: int) -> Decision:
        """Which of the scores along an axis is the largest, or the least."""
        axis = primitive.attributes["axis"] - 1
        largest = primitive.op == "ArgMax" or bool(primitive.attributes.get("largest"))
        last = bool(primitive.attributes.get("select_last_index"))
        place = np.unravel_index(at, result.stored)
        x, its = _ordered_alike(self.build, self.build.program.values[primitive.inputs[0]], axis)
        count = x.stored[its]
        kept = [int(p) for p in place[:axis]][max(axis - its, 0) :]
        kept = [0] * (its - len(kept)) + kept  # leading axes of length 1 come and go
        cut = (*(slice(p, p + 1, 1) for p in kept), slice(0, count, 1))
        cut += tuple(slice(int(p), int(p) + 1, 1) for p in place[axis + 1 :])

        def best(row: Value, chosen: Mask) -> Value:
            far = np.where(chosen, 0, -np.inf).astype(row.dtype)
            some = elementwise(self.build, "Add", row, far)
            return self.build.emit("ReduceMax", [some, np.array([1])], (1,), keepdims=1)

        def between(wanted: Mask) -> Gap:
            row = take_slices(self.build, self.build.shaped(x, x.stored), cut)
            assert isinstance(row, Value)
            row = self.build.shaped(self.build.view(row, (count,)), (count,))
            if not largest:
                row = elementwise(self.build, "Neg", row)
            gap = elementwise(self.build, "Sub", best(row, wanted), best(row, ~wanted))
            first, other = np.flatnonzero(wanted), np.flatnonzero(~wanted)
            wins_ties = first[-1] > other[-1] if last else first[0] < other[0]
            return Gap(gap, not wins_ties)

        return Decision(np.arange(count), between)

    def _element(self, value: Value, at: int) -> Value:
        flat = self.build.view(self.build.shaped(value, (value.size,)), (value.size,))
        one = take_slices(self.build, self.build.shaped(flat, (value.size,)), (slice(at, at + 1, 1),))
        assert isinstance(one, Value)
        return self.build.shaped(one, (1,))


def _place(operand: Value, result: Value, at: int) -> int | None:
    """Which element of an operand goes into element `at` of what is elementwise in it."""
    if operand.lead != 1 or len(operand.stored) > len(result.stored):
        return None
    place = np.unravel_index(at, result.stored)[len(result.stored) - len(operand.stored) :]
    return int(
        np.ravel_multi_index([p if d > 1 else 0 for p, d in zip(place, operand.stored, strict=True)], operand.stored)
    )


def _entry(constant: NDArray[Any], result: Value, at: int) -> NDArray[Any]:
    """What of a constant goes into element `at`, without axes."""
    return np.asarray(np.broadcast_to(constant, result.stored)[np.unravel_index(at, result.stored)])


def _ordered_alike(build: Builder, x: Value, axis: int) -> tuple[Value, int]:
    """Scores in the same order along an axis of what is stored, from before what saturates: those of a softmax; and
    that axis of theirs."""
    while (primitive := build.producer(x.name)) is not None:
        before = _before(build, primitive, axis + 1)
        inner = None if before is None else build.program.values[before]
        if inner is None or inner.lead != 1 or _shape(inner) != _shape(x):
            break
        longer = len(inner.stored) - len(x.stored)
        if axis + longer < 0:
            break
        x, axis = inner, axis + longer
    return x, axis


def _shape(x: Value) -> tuple[int, ...]:
    """What is stored, without leading axes of length 1."""
    first = next((i for i, d in enumerate(x.stored) if d != 1), len(x.stored))
    return x.stored[first:]


def _before(build: Builder, primitive: Primitive, axis: int) -> str | None:
    """What has the order, along an axis of the array, of the primitive's result; None where none is known to."""
    if primitive.op in ("Softmax", "LogSoftmax"):
        rank = len(build.program.values[primitive.outputs[0]].stored) + 1
        return primitive.inputs[0] if primitive.attributes["axis"] % rank == axis else None
    if primitive.op in _KEEPS_ORDER:
        return primitive.inputs[0]
    written = as_written_out(build, primitive)
    return written.argument if written is not None and written.keeps in (0, axis) else None


class Asked(Protocol):
    """sign * (weights @ y[at]) >= bound for outputs y, for all of some (sign, bound)."""

    @property
    def at(self) -> tuple[int, ...]: ...

    @property
    def weights(self) -> tuple[float, ...]: ...

    @property
    def floors(self) -> tuple[tuple[float, float], ...]: ...


class Decisions:
    """The outputs of a program that are decisions. asked: those of the flat outputs that matter, bool `[m]`."""

    def __init__(self, lowered: Lowered, asked: Mask) -> None:
        self._lowered = lowered
        self._build = lowered.builder.fork()
        self._found = {at: decision(self._build, lowered.y, at) for at in np.flatnonzero(asked).tolist()}

    @property
    def outputs(self) -> Mask:
        """Which of the flat outputs are, as far as they matter: `[m]`."""
        found = np.zeros(self._lowered.m, bool)
        found[[at for at, one in self._found.items() if one is not None]] = True
        return found

    def with_gaps(self, asked: Sequence[Asked]) -> tuple[Lowered, list[int | bool | None], list[bool]]:
        """The program with one more output for each question about decisions: the gap of the answers that were asked
        for.

        Returns it; for each question the place of its gap among the outputs, a truth value where every answer will do
        or none, or None where there is no gap; and for each gap whether it must exceed 0.
        """
        build, lowered = self._build, self._lowered
        places: list[int | bool | None] = []
        gaps: list[Gap] = []
        for question in asked:
            gap = self._gap(question)
            places.append(lowered.m + len(gaps) if isinstance(gap, Gap) else gap)
            if isinstance(gap, Gap):
                gaps.append(gap)
        if not gaps:
            return lowered, places, []
        return with_further(lowered, build, gaps), places, [g.strict for g in gaps]

    def _gap(self, question: Asked) -> Gap | bool | None:
        dtype = self._lowered.dtype
        parts = []
        for at, weight in zip(question.at, question.weights, strict=True):
            one = self._found.get(at)
            if one is None:
                return None
            parts.append(one.mapped(partial(_weighed, weight=np.asarray(weight, dtype))))
        if not 0 < len(parts) <= 2:
            return None
        whole = parts[0] if len(parts) == 1 else combined(self._build, parts[0], parts[1], np.add)
        if whole is None:
            return None
        floors = np.asarray(question.floors, dtype)
        return whole.gap(np.all(floors[:, :1] * whole.values - floors[:, 1:] >= 0, axis=0))


def with_further(lowered: Lowered, build: Builder, gaps: Sequence[Gap]) -> Lowered:
    """The program with one more output for each gap, all of them emitted into `build`, a fork of its own builder."""
    columns = [build.cast(build.view(build.shaped(g.value, (1,)), (1,)), lowered.dtype) for g in gaps]
    y = build.emit("Concat", [lowered.y, *columns], (lowered.m + len(gaps),), lowered.dtype, axis=1)
    return replace(lowered, builder=build, y=y, logits=None)


def _weighed(values: NDArray[Any], weight: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(values.astype(weight.dtype) * weight)
