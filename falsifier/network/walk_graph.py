"""Walks as primitives behind a program's gradient: what `search` does step by step, as the body of one ONNX Loop.

Narrow points are little work for a step, and most of it goes into calls from Python: here one run makes many steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from falsifier.network.objective_graph import ObjectiveValues
from falsifier.network.program import Builder, Primitive, Value
from falsifier.network.walk import (
    CAP_DECAY,
    FIRST_CAP,
    FIRST_LENGTH,
    LARGEST_LACK,
    OVER,
    SAME,
    SHRINK,
    SMALLEST,
    TINY,
    Kind,
    Rule,
)

_BOOL = np.dtype(np.bool_)
_ATOMS, _ALL = np.array([1]), np.array([0, 1])
_ANY = (-1,)  # no primitive here needs to know sizes


class WalkSteps:
    """Appends a step to a program with its objective and gradient.

    before: primitives that come before the network's. state: pairs of a state's value before and after the step.
    going: whether the walk goes on.
    """

    def __init__(
        self, build: Builder, kind: Kind, x: Value, y: Value, gradient: Value, objective: ObjectiveValues
    ) -> None:
        self._build, self._kind, self._dtype = build, kind, x.dtype
        self._objective = objective
        self.before: list[Primitive] = []
        self.state: list[tuple[Value, Value]] = []
        start = len(build.program.primitives)
        self._zero, self._one, self._infinity = self._number(0), self._number(1), self._number(np.inf)
        self._step = self._input("step")
        self._here = x
        if kind.embedded:
            self._here = self._input("points")
            inside = Primitive("Gemm", ("points", self._input("spread").name, self._input("base").name), (x.name,))
            self.before.append(inside)
            gradient = self._do("MatMul", gradient, self._do("Transpose", self._given("spread"), perm=[1, 0]))
        self._lower, self._upper, self._width = (self._input(name) for name in ("lower", "upper", "width"))
        present = self._do("Greater", self._input("present"), self._zero, dtype=_BOOL)
        self._slack = self._where(present, objective.slack, self._infinity)
        self.going = self._record(y)
        step = {Rule.SIGNED: self._signed, Rule.POLYAK: self._polyak, Rule.DILATED: self._dilated}[kind.rule]
        moved = self._do("Add", self._here, step(gradient))
        self._keep(self._here, self._do("Min", self._do("Max", moved, self._lower), self._upper))
        if kind.weighing:
            self._keep(objective.scale, self._weighed())
        self._keep(self._step, self._do("Add", self._step, self._one))
        self.primitives = build.program.primitives[start:]

    # --- emitting ---

    def _number(self, value: float) -> np.ndarray[Any, Any]:
        return np.array(value, self._dtype)

    def _input(self, name: str) -> Value:
        return self._build.input(name, _ANY, self._dtype)

    def _given(self, name: str) -> Value:
        return self._build.program.values.get(name) or self._input(name)

    def _do(self, op: str, *operands: Any, dtype: Any = None, **attributes: Any) -> Value:
        return self._build.emit(op, operands, _ANY, dtype or self._dtype, **attributes)

    def _where(self, mask: Value, yes: Any, no: Any) -> Value:
        return self._do("Where", mask, yes, no)

    def _true(self, op: str, *operands: Any) -> Value:
        return self._do(op, *operands, dtype=_BOOL)

    def _total(self, x: Value) -> Value:
        """Sums over the last axis of `[b, j]`, as `[b, 1]`."""
        return self._do("ReduceSum", x, _ATOMS, keepdims=1)

    def _keep(self, now: Value, after: Value) -> None:
        self.state.append((now, after))

    # --- what all walks share ---

    def _record(self, y: Value) -> Value:
        """Keep the best points, margins and outputs; whether no lane has a better point at its bar."""
        margin = self._do("ReduceMin", self._slack, _ATOMS, keepdims=1)
        best, best_margin, outputs = self._input("best"), self._input("best_margin"), self._input("best_outputs")
        better = self._true("Greater", margin, best_margin)
        self._keep(best, self._where(better, self._here, best))
        self._keep(best_margin, self._where(better, margin, best_margin))
        self._keep(outputs, self._where(better, y, outputs))
        if self._kind.rule is Rule.SIGNED:
            wins = self._input("wins")
            self._keep(wins, self._do("Add", wins, self._do("Cast", better, to=self._dtype)))
        over = self._do("Sub", self._where(better, margin, -self._infinity), self._input("bar"))
        return self._true("Less", self._do("ReduceMax", over, _ALL, keepdims=0), self._zero)

    def _lack(self) -> Value:
        """What the score lacks to be where it should be, `[b, 1]`."""
        score = self._do("Unsqueeze", self._objective.score, _ATOMS)
        return self._do("Max", self._do("Sub", self._input("level"), score), self._input("floor"))

    def _faded(self, first: float, rate: Any) -> Value:
        """first * rate ** step, `[1, 1]`."""
        return self._do("Mul", self._do("Pow", rate, self._step), self._number(first))

    # --- the rules ---

    def _signed(self, gradient: Value) -> Value:
        momentum, alpha = self._input("momentum"), self._input("alpha")
        length = self._do("ReduceL2", gradient, _ATOMS, keepdims=1)
        usable = self._within(length)
        unit = self._where(usable, self._do("Div", gradient, length), self._zero)
        after = self._do("Add", self._do("Mul", momentum, self._input("beta")), unit)
        self._keep(momentum, after)
        self._keep(alpha, self._do("Mul", alpha, self._input("decay")))
        return self._do("Mul", self._do("Mul", self._do("Sign", after), self._width), alpha)

    def _within(self, length: Value) -> Value:
        """Whether a length is above 0, finite and not NaN."""
        above, below = self._true("Greater", length, self._zero), self._true("Less", length, self._infinity)
        return self._true("And", above, below)

    def _polyak(self, gradient: Value) -> Value:
        slope = self._do("Mul", gradient, self._width)
        longest = self._do("ReduceMax", self._do("Abs", slope), _ATOMS, keepdims=1)
        square = self._do("ReduceSumSquare", slope, _ATOMS, keepdims=1)
        lack = self._lack()
        usable = self._true("Greater", longest, self._number(SMALLEST))
        usable = self._true("And", usable, self._true("Less", longest, self._number(1 / SMALLEST)))
        usable = self._true("And", usable, self._true("GreaterOrEqual", lack, self._zero))
        reach = self._do("Div", self._do("Mul", lack, self._number(1 + OVER)), square)
        cap = self._do("Mul", self._input("caps"), self._faded(1.0, self._number(CAP_DECAY)))
        length = self._do("Min", reach, self._do("Div", cap, longest))
        distance = self._do("Mul", self._faded(FIRST_LENGTH, self._input("shortening")), self._input("far"))
        fixed = self._do("Div", distance, self._do("Sqrt", square))
        length = self._where(self._true("Greater", self._input("decaying"), self._zero), fixed, length)
        return self._where(usable, self._do("Mul", self._do("Mul", slope, length), self._width), self._zero)

    def _dilated(self, gradient: Value) -> Value:
        zero, tiny = self._zero, self._number(TINY)
        slope = self._do("Mul", gradient, self._width)
        low, high = (
            self._true(op, self._here, side)
            for op, side in (("LessOrEqual", self._lower), ("GreaterOrEqual", self._upper))
        )
        slope = self._where(low, self._do("Max", slope, zero), slope)
        slope = self._where(high, self._do("Min", slope, zero), slope)
        length = self._do("ReduceL2", slope, _ATOMS, keepdims=1)
        unit = self._where(self._within(length), self._do("Div", slope, length), zero)
        along = self._metric(unit)
        size = self._do("Sqrt", self._do("Clip", self._total(self._do("Mul", unit, along)), zero, self._one))
        inverse = self._do("Div", self._one, self._do("Add", size, tiny))
        longest = self._do("Mul", self._do("ReduceMax", self._do("Abs", along), _ATOMS, keepdims=1), inverse)
        lack = self._do("Clip", self._lack(), zero, self._number(LARGEST_LACK))
        wanted = self._do("Mul", lack, self._number(1 + OVER))
        wanted = self._do("Div", wanted, self._do("Add", self._do("Mul", size, length), tiny))
        cap = self._faded(FIRST_CAP, self._input("shortening"))
        reach = self._do("Min", wanted, self._do("Div", cap, self._do("Add", longest, tiny)))
        fair = self._true("And", self._true("Greater", size, zero), self._true("Less", reach, self._infinity))
        factor = self._where(fair, self._do("Mul", reach, inverse), zero)
        return self._do("Mul", self._do("Mul", along, factor), self._width)

    def _metric(self, unit: Value) -> Value:
        """H applied to `unit` `[b, f]`, after it has shrunk along the difference to the last one."""
        metric, before, along_before = self._input("metric"), self._input("unit"), self._input("along")
        last = np.array([2])
        along = self._do("Squeeze", self._do("MatMul", metric, self._do("Unsqueeze", unit, last)), last)
        normal = self._do("Sub", along, along_before)
        square = self._total(self._do("Mul", self._do("Sub", unit, before), normal))
        first = self._true("Less", self._step, self._one)
        usable = self._true("Greater", square, self._where(first, self._infinity, self._number(SAME)))
        scale = self._where(usable, self._do("Sqrt", self._do("Div", self._number(SHRINK), square)), self._zero)
        row = self._do("Mul", normal, scale)
        product = self._do("MatMul", self._do("Unsqueeze", row, last), self._do("Unsqueeze", row, _ATOMS))
        self._keep(metric, self._do("Sub", metric, product))
        after = self._do("Sub", along, self._do("Mul", self._total(self._do("Mul", row, unit)), row))
        self._keep(before, unit)
        self._keep(along_before, after)
        return after

    def _weighed(self) -> Value:
        """Scales `[b, k]` of the next step's slacks."""
        present = self._given("present")
        if self._kind.rule is Rule.DILATED:
            early = self._true("Less", self._do("Add", self._step, self._one), self._input("until"))
            return self._where(early, self._input("weights"), present)
        largest = self._number(LARGEST_LACK)
        lack = self._do("Clip", self._do("Neg", self._slack), self._zero, largest)
        total = self._do("Add", self._total(lack), self._number(1 / LARGEST_LACK))
        count = self._do("Cast", self._build.emit("Shape", [lack], (), np.int64, start=1, end=2), to=self._dtype)
        scale = self._do("Mul", lack, self._do("Div", count, total))
        weighted = self._true("Greater", self._input("weighted"), self._zero)
        scale = self._where(weighted, self._do("Add", scale, self._number(0.01)), self._one)
        return self._do("Mul", scale, present)
