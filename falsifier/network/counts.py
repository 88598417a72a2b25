"""Counts: outputs that say of how many elements something is true, for each by a comparison of its scores.

That it is true of c of them at least is a question about the c that are nearest to it: all their gaps are to be at
least 0. What these lack on average is the gap of the count. It reaches 0 exactly where the count is reached, and its
gradient moves the elements that are missing and no others (`docs/decisions/030-counts.md`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from falsifier.network.operators.elementwise import compare, elementwise, where
from falsifier.network.operators.slicing import take_slices
from falsifier.network.program import Builder, Primitive, Value

if TYPE_CHECKING:
    from falsifier.network.decisions import Mask

Array = NDArray[Any]

_MOST = 1 << 16  # elements of a count
_DEEPEST = 64  # operators between a count and its comparisons
_NEVER = -1e30  # the gap of an element of which it cannot be true
ORDERS = {"Greater": (1, True), "GreaterOrEqual": (1, False), "Less": (-1, True), "LessOrEqual": (-1, False)}
"""Of comparisons: 1 where the first operand is to be the larger, and whether equal ones do not do."""
MAPS: dict[str, Callable[..., Array]] = {
    "Abs": np.abs,
    "Add": np.add,
    "And": np.logical_and,
    "Div": np.divide,
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Mod": np.mod,
    "Mul": np.multiply,
    "Neg": np.negative,
    "Not": np.logical_not,
    "Or": np.logical_or,
    "Sub": np.subtract,
    "Where": np.where,
    "Xor": np.logical_xor,
}
"""What elementwise operators do with answers."""


@dataclass(frozen=True)
class _Halves:
    """A tensor with two answers for each element: `high` where its gap is at least 0, else `low`; arrays of its stored
    shape. `gap` emits it. Tensors of one `origin` have the same gaps, element by element.
    """

    low: Array
    high: Array
    gap: Callable[[], Value]
    origin: str


def counted(build: Builder, primitive: Primitive, at: int) -> tuple[Array, Callable[[Mask], Value]] | None:
    """What element `at` of a ReduceSum or ReduceMean may be, `[c + 1]`, by of how many of its c elements it is true;
    and the gap of some of these. None where it is no such count.
    """
    values, constants = build.program.values, build.program.constants
    source, result = values[primitive.inputs[0]], values[primitive.outputs[0]]
    halves = _Walk(build).of(source.name, 0)
    if halves is None or len(primitive.inputs) < 2 or primitive.inputs[1] not in constants:
        return None
    rank = len(source.stored)
    axes = sorted(int(axis) % (rank + 1) - 1 for axis in constants[primitive.inputs[1]].ravel())
    kept = [axis for axis in range(rank) if axis not in axes]
    if -1 in axes or not 0 < source.size <= _MOST:
        return None
    place = np.unravel_index(at, [source.stored[axis] for axis in kept]) if kept else ()
    cut: list[slice] = [slice(0, size, 1) for size in source.stored]
    for axis, p in zip(kept, place, strict=True):
        cut[axis] = slice(int(p), int(p) + 1, 1)
    low, high = (part[tuple(cut)].ravel() for part in (halves.low, halves.high))
    steps = np.unique(np.abs(high.astype(np.float64) - low))
    whole = all(np.isfinite(part).all() and (part == np.rint(part)).all() for part in (low, high))
    if len(steps) != 1 or steps[0] == 0 or not whole:  # sums of fractions depend on their order
        return None
    total = np.minimum(low, high).astype(np.float64).sum() + steps[0] * np.arange(low.size + 1)
    if primitive.op == "ReduceMean":
        total /= low.size
    falls = high.astype(np.float64) < low
    made: list[Value] = []

    def ordered() -> Value:
        """The gaps, the largest first; emitted once for all questions."""
        if made:
            return made[0]
        part = take_slices(build, halves.gap(), tuple(cut))
        assert isinstance(part, Value)
        gaps = _stored(build.view(_stored(part), (low.size,)))
        if falls.any():
            gaps = where(build, falls, _opposite(build, gaps), gaps, gaps.dtype)
        kinds = [((low.size,), gaps.dtype), ((low.size,), np.dtype(np.int64))]
        made.append(build.emit_many("TopK", [gaps, np.array([low.size])], kinds, axis=1, largest=1, sorted=1)[0])
        return made[0]

    return total.astype(result.dtype), lambda wanted: _reached(build, ordered(), wanted)


def _reached(build: Builder, ordered: Value, wanted: Mask) -> Value:
    """By how much the number of gaps `[c]`, the largest first, that are at least 0 is one that is wanted `[c + 1]`."""
    count = ordered.size
    edges = np.flatnonzero(np.diff(np.concatenate([[False], wanted, [False]]).astype(int)))
    best: Value | None = None
    for first, beyond in edges.reshape(-1, 2).tolist():
        way: Value | None = None
        if first > 0:
            way = _all_of(build, _part(build, ordered, 0, first), first - 1)
        if beyond <= count:  # fewer than so many: of the others it is not true
            fewer = _all_of(build, _opposite(build, _part(build, ordered, beyond - 1, count)), 0)
            way = fewer if way is None else elementwise(build, "Min", way, fewer)
        assert way is not None
        best = way if best is None else elementwise(build, "Max", best, way)
    assert best is not None
    return best


def _all_of(build: Builder, gaps: Value, least: int) -> Value:
    """What gaps `[a]` lack of 0 on average; where they lack nothing the least of them, the one at `least`."""
    lacking = elementwise(build, "Min", gaps, 0.0)
    mean = build.emit("ReduceMean", [lacking, np.array([1])], (1,), keepdims=1)
    return elementwise(build, "Add", mean, elementwise(build, "Max", _part(build, gaps, least, least + 1), 0.0))


def _part(build: Builder, x: Value, first: int, beyond: int) -> Value:
    part = take_slices(build, x, (slice(first, beyond, 1),))
    assert isinstance(part, Value)
    return part


def _stored(x: Value) -> Value:
    """The array as it is stored."""
    return Value(x.name, x.stored, x.stored, x.dtype, x.lead)


def _opposite(build: Builder, gap: Value) -> Value:
    """At least 0 exactly where the gap is below 0."""
    return _above(build, elementwise(build, "Neg", gap))


def _above(build: Builder, gap: Value) -> Value:
    """At least 0 exactly where the gap is above 0: 0 becomes the next number below."""
    below = elementwise(build, "Add", gap, -float(np.finfo(gap.dtype).tiny))
    return where(build, compare(build, "Equal", gap, 0.0), below, gap, gap.dtype)


def _spread(build: Builder, gap: Value, stored: tuple[int, ...]) -> Value:
    """A gap repeated over the axes that another operand adds."""
    return gap if gap.stored == stored else _stored(elementwise(build, "Add", gap, np.zeros(stored)))


@dataclass(frozen=True)
class _Walk:
    """Back from a tensor to the comparisons that decide its elements."""

    build: Builder

    def of(self, name: str, depth: int) -> _Halves | None:
        """The two answers of a value's elements; None for one of another kind."""
        primitive, values = self.build.producer(name), self.build.program.values
        value = values[name]
        if primitive is None or depth > _DEEPEST or value.lead != 1:
            return None
        if primitive.op in ("ArgMax", "ArgMin"):
            return self._second(primitive, value)
        if primitive.op not in MAPS and primitive.op not in ("Cast", "Identity", "Reshape", "Slice", "Transpose"):
            return None
        moving = [name for name in primitive.inputs if name in values]
        inner = [self.of(name, depth + 1) for name in moving]
        known = [halves for halves in inner if halves is not None]
        if len(known) < len(moving):
            if primitive.op in ORDERS and not known:
                return self._order(primitive, value)
            if primitive.op == "Equal" and len(known) == 1:
                at = moving[0] if inner[0] is None else moving[1]
                return self._agreeing(known[0], values[at], value)
            return None
        if primitive.op in MAPS:
            return self._mapped(primitive, known, value)
        return self._moved(primitive, known[0], value)

    def _mapped(self, primitive: Primitive, known: Sequence[_Halves], value: Value) -> _Halves | None:
        """A function of constants and of what goes back to the same comparisons, or whether two things hold."""
        build, constants, stored = self.build, self.build.program.constants, value.stored
        first = known[0]
        if any(halves.origin != first.origin or halves.low.shape != first.low.shape for halves in known):
            truths = all(not halves.low.any() and halves.high.all() for halves in known)
            if primitive.op not in ("And", "Or") or not truths:
                return None
            op = "Min" if primitive.op == "And" else "Max"
            parts = [halves.gap for halves in known]
            return _truth(value, lambda: elementwise(build, op, *(_spread(build, gap(), stored) for gap in parts)))

        def apply(side: str) -> Array:
            rest = iter(known)
            given = [constants[n] if n in constants else getattr(next(rest), side) for n in primitive.inputs]
            with np.errstate(all="ignore"):
                return np.broadcast_to(np.asarray(MAPS[primitive.op](*given), dtype=value.dtype), stored)

        origin = first.origin if first.low.shape == stored else value.name
        return _Halves(apply("low"), apply("high"), lambda: _spread(build, first.gap(), stored), origin)

    def _moved(self, primitive: Primitive, inner: _Halves, value: Value) -> _Halves:
        """The same answers in another type or at other places."""
        build, constants, stored = self.build, self.build.program.constants, value.stored
        if primitive.op == "Cast":
            to = np.dtype(primitive.attributes["to"])
            return _Halves(inner.low.astype(to), inner.high.astype(to), inner.gap, inner.origin)
        if primitive.op in ("Identity", "Reshape"):
            low, high = (part.reshape(stored) for part in (inner.low, inner.high))
            return _Halves(low, high, lambda: _stored(build.view(inner.gap(), stored)), value.name)
        if primitive.op == "Transpose":
            perm = primitive.attributes["perm"]
            low, high = (part[None].transpose(perm)[0] for part in (inner.low, inner.high))
            return _Halves(low, high, lambda: build.emit("Transpose", [inner.gap()], stored, perm=perm), value.name)
        bounds = [constants[name] for name in primitive.inputs[1:]]
        cut = [slice(None)] * (len(inner.low.shape) + 1)
        for start, end, axis, step in zip(*(bound.tolist() for bound in bounds), strict=True):
            cut[axis] = slice(start, end if end >= 0 else None, step)
        low, high = (part[None][tuple(cut)][0] for part in (inner.low, inner.high))
        return _Halves(low, high, lambda: build.emit("Slice", [inner.gap(), *bounds], stored), value.name)

    def _order(self, primitive: Primitive, value: Value) -> _Halves | None:
        """Whether a score exceeds another, or a constant."""
        build, program = self.build, self.build.program
        sides: list[Value | Array] = []
        for name in primitive.inputs:
            score = program.values.get(name)
            if score is not None and (score.dtype.kind != "f" or score.lead != 1):
                return None
            sides.append(program.constants[name] if score is None else _stored(score))
        sign, strict = ORDERS[primitive.op]

        def gap() -> Value:
            one = _spread(build, _stored(elementwise(build, "Sub", *sides[::sign])), value.stored)
            return _above(build, one) if strict else one

        return _truth(value, gap)

    def _second(self, primitive: Primitive, value: Value) -> _Halves | None:
        """Which of two scores is the larger, or the smaller."""
        build, x = self.build, self.build.program.values[primitive.inputs[0]]
        axis = primitive.attributes["axis"] - 1
        if x.dtype.kind != "f" or x.lead != 1 or axis < 0 or x.stored[axis] != 2:
            return None

        def gap() -> Value:
            cuts = [
                tuple(slice(i, i + 1, 1) if a == axis else slice(0, d, 1) for a, d in enumerate(x.stored))
                for i in (0, 1)
            ]
            first, second = (take_slices(build, _stored(x), cut) for cut in cuts)
            rises = primitive.op == "ArgMax"
            one = elementwise(build, "Sub", *((second, first) if rises else (first, second)))
            one = _stored(build.view(_stored(one), value.stored))
            return one if primitive.attributes.get("select_last_index") else _above(build, one)

        return _truth(value, gap)

    def _agreeing(self, one: _Halves, other: Value, value: Value) -> _Halves | None:
        """Whether one of two answers is what another tensor says, for example a mask among the inputs."""
        build = self.build
        if (
            one.low.shape != value.stored
            or other.stored != value.stored
            or other.lead != 1
            or (one.low == one.high).any()
        ):
            return None

        def gap() -> Value:
            mine = one.gap()
            is_high, is_low = (compare(build, "Equal", _stored(other), part) for part in (one.high, one.low))
            never = np.full((), _NEVER, mine.dtype)
            return where(
                build, is_high, mine, where(build, is_low, _opposite(build, mine), never, mine.dtype), mine.dtype
            )

        return _truth(value, gap)


def _truth(value: Value, gap: Callable[[], Value]) -> _Halves:
    """0 or 1 of each element."""
    return _Halves(np.zeros(value.stored, value.dtype), np.ones(value.stored, value.dtype), gap, value.name)
