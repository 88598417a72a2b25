"""The derivative of GridSample, by image and by grid.

Each output is a sum over the corners around its place: the image's value there, times how near it is along each axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Gradients
from falsifier.network.operators.elementwise import clip, compare, elementwise, sole_gradient, where
from falsifier.network.program import Builder, Primitive, Value


@dataclass(frozen=True)
class _Corner:
    """Per output, along one axis: the index of a corner, its weight, and how the weight grows with the place."""

    index: Value
    weight: Value
    slope: Value | None


def grid_sample_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """Raises UnsupportedError for cubic interpolation."""
    attributes = primitive.attributes
    mode = attributes["mode"]
    if mode not in ("linear", "nearest"):
        raise UnsupportedError(f"the gradient of GridSample in mode {mode!r}")
    g = sole_gradient(build, gradients)
    x, grid = (build.program.values[name] for name in primitive.inputs)
    lead, channels, lengths = x.lead, x.stored[0], x.stored[1:]
    count, size = math.prod(g.stored[1:]), math.prod(lengths)

    def flat(value: Value, *stored: int) -> Value:
        return build.shaped(build.view(value, stored, lead), stored)

    def emit(op: str, operands: Sequence[Any], *stored: int, **more: Any) -> Value:
        return build.emit(op, operands, stored, x.dtype, lead=lead, **more)

    flow, source, places = flat(g, channels, count), flat(x, channels, size), flat(grid, count, len(lengths))
    axes, scales = [], []
    for i, n in enumerate(lengths):
        # the grid names the innermost axis first
        bounds = [np.array([v]) for v in (len(lengths) - 1 - i, len(lengths) - i, 2, 1)]
        coordinate = flat(emit("Slice", [places, *bounds], count, 1), count)
        place, scale = _place(build, coordinate, n, attributes)
        axes.append(_corners(build, place, n, mode))
        scales.append(scale)
    to_x = flat(build.spread(np.zeros((lead, channels, size), x.dtype)), channels, size)
    slopes: list[Value | None] = [None] * len(lengths)
    for corner in product(*axes):
        index = corner[0].index
        for c, n in zip(corner[1:], lengths[1:], strict=True):
            index = elementwise(build, "Add", elementwise(build, "Mul", index, n), c.index)
        target = np.array([1, channels, count])
        at = build.emit("Expand", [flat(index, 1, count), target], (channels, count), np.int64, lead=lead)
        weight = _product(build, [c.weight for c in corner])
        part = emit("Mul", [flow, flat(weight, 1, count)], channels, count)
        to_x = emit("ScatterElements", [to_x, at, part], channels, size, axis=2, reduction="add")
        seen = emit("Mul", [flow, emit("GatherElements", [source, at], channels, count, axis=2)], channels, count)
        total = emit("ReduceSum", [seen, np.array([1])], count, keepdims=0)
        for i, c in enumerate(corner):
            if c.slope is not None:
                others = [o.weight for j, o in enumerate(corner) if j != i]
                step = _product(build, [total, c.slope, *others])
                known = slopes[i]
                slopes[i] = step if known is None else elementwise(build, "Add", known, step)
    back = build.view(to_x, x.stored, lead)
    columns = [
        flat(elementwise(build, "Mul", s, scale), count, 1)
        for s, scale in zip(slopes[::-1], scales[::-1], strict=True)
        if s is not None
    ]
    if not columns:
        return [back, None]
    return [back, build.view(emit("Concat", columns, count, len(lengths), axis=2), grid.stored, lead)]


def _product(build: Builder, factors: Sequence[Value]) -> Value:
    result = factors[0]
    for factor in factors[1:]:
        result = elementwise(build, "Mul", result, factor)
    return result


def _place(build: Builder, coordinate: Value, n: int, attributes: dict[str, Any]) -> tuple[Value, Value]:
    """A grid coordinate in [-1, 1] as a place on an axis of n entries, and its derivative."""
    aligned, padding = bool(attributes["align_corners"]), attributes["padding_mode"]
    half = (n - 1) / 2 if aligned else n / 2
    place = elementwise(build, "Add", elementwise(build, "Mul", coordinate, half), (n - 1) / 2)
    scale = elementwise(build, "Add", elementwise(build, "Mul", coordinate, 0.0), half)
    if padding == "zeros":
        return place, scale
    if padding == "reflection":
        low, span = (0.0, n - 1.0) if aligned else (-0.5, float(n))
        beyond = elementwise(build, "Sub", place, low)
        distance = elementwise(build, "Abs", beyond)
        turns = elementwise(build, "Floor", elementwise(build, "Div", distance, max(span, 1.0)))
        extra = elementwise(build, "Sub", distance, elementwise(build, "Mul", turns, span))
        odd = elementwise(build, "Sub", turns, elementwise(build, "Mul", _halved(build, turns), 2.0))
        away = compare(build, "Greater", odd, 0.5)
        returning = elementwise(build, "Sub", span, extra)
        place = elementwise(build, "Add", where(build, away, returning, extra, place.dtype), low)
        direction = elementwise(
            build, "Mul", elementwise(build, "Sign", beyond), where(build, away, -1, 1, place.dtype)
        )
        scale = elementwise(build, "Mul", scale, direction)
    held = clip(build, place, 0.0, n - 1.0)
    inside = build.cast(compare(build, "Equal", held, place), place.dtype)
    return held, elementwise(build, "Mul", scale, inside)


def _halved(build: Builder, whole: Value) -> Value:
    return elementwise(build, "Floor", elementwise(build, "Mul", whole, 0.5))


def _corners(build: Builder, place: Value, n: int, mode: str) -> list[_Corner]:
    """The entries that a place lies between; those outside the axis weigh nothing."""
    if mode == "nearest":
        nearest = elementwise(build, "Round", place)
        return [_Corner(*_on_axis(build, nearest, n), None)]
    below = elementwise(build, "Floor", place)
    past = elementwise(build, "Sub", place, below)
    found = []
    for index, weight, sign in (
        (below, elementwise(build, "Sub", 1.0, past), -1.0),
        (elementwise(build, "Add", below, 1.0), past, 1.0),
    ):
        at, inside = _on_axis(build, index, n)
        found.append(_Corner(at, elementwise(build, "Mul", weight, inside), elementwise(build, "Mul", inside, sign)))
    return found


def _on_axis(build: Builder, index: Value, n: int) -> tuple[Value, Value]:
    """An index within the axis as an integer, and 1 where that is what it was, else 0."""
    held = clip(build, index, 0.0, n - 1.0)
    return build.cast(held, np.int64), build.cast(compare(build, "Equal", held, index), index.dtype)
