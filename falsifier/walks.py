"""Walks: many steps of narrow lanes as one run of the engine, instead of one run and a dozen calls for every step.

A step by hand costs what it costs in calls; in a graph it costs a few microseconds more than the gradient. The graph
takes some milliseconds to make, so the first steps of every kind are made by hand, and so are those of wide points,
whose passes over memory a graph does not make fewer.

Axes: b lane, f free input, m flat output, k atom.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.aims import Aim
from falsifier.arrays import full, is_numpy
from falsifier.errors import EngineError, UnsupportedError
from falsifier.network.walk import Kind, Rule
from falsifier.objective import Reduction
from falsifier.spec.margin import margin
from falsifier.values import Values

Floats = NDArray[Any]

_BY_HAND = 100  # steps of a kind: what making its graph costs, about
_NARROW = 1 << 15  # numbers in the points of all lanes
_METRICS = 1 << 20  # numbers in their metrics
_AHEAD = 0.05  # seconds of a run, at most
_SHARE = 4  # near a deadline a run takes at most 1 / _SHARE of the time left
_FIRST = 8  # steps of a run whose speed is not known yet


class Walks:
    """Makes the walks of a problem."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._affine = None if values.domain.plain else values.domain.affine()
        self._made: dict[Kind, int] = {}
        self._seconds: dict[Kind, float] = {}  # of a lane's step
        forms = values.targets.forms
        self._able = (
            hasattr(values.engine, "walk")
            and is_numpy(values.like)
            and values.tree is None
            and forms.linear
            and forms.inputs is None
            and (values.domain.plain or self._affine is not None)
            and not (values.domain.rounds or values.domain.lattice)
        )

    def begin(
        self,
        rule: Rule,
        reduction: Reduction,
        target: NDArray[np.int64],
        x: Floats,
        steps: int,
        state: Mapping[str, Floats],
        given: Mapping[str, Floats],
        window: Floats | None = None,
    ) -> Walk | None:
        """A walk of lanes from points `[b, f]` to their targets `[b]`; None where its steps are better made by hand.

        `state` and `given` as in `network.walk`, without what is derived from points and targets; a `scale` in the
        state weighs atoms from the first step on.
        """
        values, (lanes, f) = self._values, x.shape
        if not self._able or lanes * f > _NARROW or lanes > values._by_memory("gradient"):
            return None
        if rule is Rule.DILATED and lanes * f * f > _METRICS:
            return None
        kind = Kind(rule, reduction, "scale" in state, self._affine is not None)
        seen = self._made.get(kind, 0)
        self._made[kind] = seen + steps
        if seen < _BY_HAND:
            return None
        engine: Any = values.engine
        try:
            engine.walk_session(kind)
        except (UnsupportedError, EngineError, MemoryError):
            self._able = False
            return None
        return Walk(self, kind, target, x, state, given, window)


class Walk:
    """Lanes on their way. What changes is in `state`, by the names in `network.walk`, and may be changed between runs.

    Row i of everything belongs to lane i.
    """

    def __init__(
        self,
        walks: Walks,
        kind: Kind,
        target: NDArray[np.int64],
        x: Floats,
        state: Mapping[str, Floats],
        given: Mapping[str, Floats],
        window: Floats | None,
    ) -> None:
        values = walks._values
        self._walks, self._kind, self._window = walks, kind, window
        self._aim: Aim = values._aims.made(target)
        self.lanes = int(x.shape[0])
        box = values.box(target[:1] if values.shared_box else target)
        lower, upper = (np.ascontiguousarray(side) for side in box)
        aim, dtype = self._aim, x.dtype
        self._given = {
            "rows": aim.rows,
            "offset": aim.offset,
            "present": aim.ones,
            "scale": aim.ones,
            "lower": lower,
            "upper": upper,
            "width": upper - lower,
            **{name: np.asarray(value, dtype) for name, value in given.items()},
        }
        if kind.weighing:
            del self._given["scale"]
        if walks._affine is not None:
            self._given["spread"], self._given["base"] = walks._affine
        self.state: dict[str, Floats] = {
            "points": x,
            "step": np.zeros((1, 1), dtype),
            "best": x,
            "best_margin": full((self.lanes, 1), -math.inf, x),
            "best_outputs": np.zeros((self.lanes, values.engine.m), dtype),
            **{name: np.asarray(value, dtype) for name, value in state.items()},
        }
        for weights, held in (("scale", self.state), ("weights", self._given)):
            if weights in held:
                held[weights] = aim.unpadded(held[weights])

    @property
    def done(self) -> int:
        """Steps made so far."""
        return int(self.state["step"][0, 0])

    def fits(self, seconds: float) -> int:
        """How many steps a run may make with this much time until the deadline; at least one."""
        each = self._walks._seconds.get(self._kind)
        if each is None:
            return _FIRST
        return max(1, int(min(_AHEAD, seconds / _SHARE) / max(each * self.lanes, 1e-9)))

    def go(self, steps: int, bar: Floats) -> int:
        """Make up to `steps` steps, fewer where a lane finds a better point with its `bar` `[b]` or more as margin.

        Returns how many were made: each counts b evaluations. Raises EngineError or MemoryError where the engine fails
        on some lane: no other walk is begun then, since by hand the others go on without it.
        """
        walks, before = self._walks, self.done
        budget = walks._values.budget
        start = 0.0 if budget is None else budget.clock()
        given = {**self._given, "bar": np.asarray(bar, self.state["points"].dtype)[:, None]}
        engine: Any = walks._values.engine
        try:
            with np.errstate(all="ignore"):
                self.state = engine.walk(self._kind, given, self.state, steps, self._window)
        except (EngineError, MemoryError):
            walks._able = False
            raise
        made = self.done - before
        if budget is not None:
            budget.charge(made * self.lanes)
            walks._seconds[self._kind] = (budget.clock() - start) / (made * self.lanes)
        return made

    def margin(self) -> NDArray[np.float64]:
        """Margins `[b]` of the lanes' best points, computed from outputs as everywhere else."""
        values = self._walks._values
        found = margin(values._atoms(self.state["best"], self.state["best_outputs"], self._aim))
        return np.where(self.state["best_margin"][:, 0] > -math.inf, found, -math.inf).astype(np.float64)
