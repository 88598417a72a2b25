"""What points are worth: the targets of a compiled query on an engine, evaluated forwards. `problem` adds gradients.

Axes: b lane, f free input, n flat input, m flat output, t target, k atom, r form, a atom of a tree.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from falsifier.aims import Aim, Aims
from falsifier.arrays import Array, arange, as_like, device_bytes, full, namespace, take_columns, to_host
from falsifier.budget import Budget
from falsifier.chunks import Chunks, Column
from falsifier.network.engine import Engine
from falsifier.spec.compile import Spec
from falsifier.spec.margin import form_values, lane_form_values, margin, slack
from falsifier.spec.region import region_atoms
from falsifier.spec.targets import Targets

if TYPE_CHECKING:
    from falsifier.network.observation import Observer
    from falsifier.spec.projection import Region

_EMPHASIS = 1024.0  # of atoms about inputs alone, where the others are to be as deep as can be
_CHUNK_BYTES = 1 << 26  # arrays of one chunk, together; on a CPU larger ones are up to 1.3 times slower
_DIVIDED_BYTES, _MOST_PARTS = 1 << 27, 8  # of a chunk that an engine divides, for each part that runs at once


class Evaluation(NamedTuple):
    """outputs `[b, m]`; slack `[b, k]`, +infinity for padding, -infinity for NaN; margin `[b]`, >= 0 iff satisfied."""

    outputs: Array
    slack: Array
    margin: Array


class Values:
    """The targets of a spec on an engine: what points are worth.

    t targets of at most k atoms, f free inputs; dtype: numpy's name of the element type; like: an empty array of the
    engine's kind, type and device; serial: one sample at a time; stepped: straight-through windows make a difference.
    Points, targets and results are arrays of the engine's kind. `sound`: whether the engine's gradients are to be
    trusted, asked once there is a use for them.

    Raises ValueError for an empty spec, or where the engine's sizes differ from the query's.
    """

    def __init__(
        self, spec: Spec, engine: Engine, budget: Budget | None = None, sound: Callable[[], bool] | None = None
    ) -> None:
        if spec.targets is None or spec.domain is None:
            raise ValueError(f"nothing to search: {spec.reason}")
        if engine.n != spec.n or spec.m not in (0, engine.m):  # a query may leave outputs undeclared
            raise ValueError(
                f"the query has {spec.n} inputs and {spec.m} outputs, the network {engine.n} and {engine.m}"
            )
        self.spec, self.engine, self.budget, self._sound = spec, engine, budget, sound
        self.like = engine.asarray(np.empty(0))
        self.xp = namespace(self.like)
        self.dtype = engine.dtype
        self.serial = engine.name == "single-sample"
        self.stepped = engine.stepped
        self.t, self.f = spec.targets.t, spec.domain.f
        self.k = spec.targets.k if spec.tree is None else len(spec.tree.roots)
        self.shared_box = len(spec.targets.lower) == 1
        self.domain = spec.domain.moved(self._moved)
        self.targets = self._moved_targets(spec.targets)
        self.tree = None if spec.tree is None else spec.tree.moved(self._moved)
        self.integer = self.domain.integer
        self._outputs, self._slacks = Column(math.nan, engine.m), Column(-math.inf, self.k)
        self._ascended = [self._outputs, self._slacks, Column(-math.inf), Column(0.0, self.f)]
        self._padded = not bool(np.all(spec.targets.present))
        self._aims = Aims(self.targets, self._padded)
        region = region_atoms(spec)
        self._region = None if region is None else as_like(region, self.like)
        self.entered = region is None  # whether a point was evaluated that meets all that is asked of inputs alone
        # All forms for every lane, or gathered rows of each lane's own: on a CPU the two were measured to take the same
        # time at 16 to 64 forms per atom.
        self._all_forms = self.t == 1 or spec.targets.forms.r <= 16 * spec.targets.k
        self._in_order = self.t == 1 and np.array_equal(spec.targets.form[0], np.arange(spec.targets.forms.r))
        one = self.t == 1 and self.tree is None  # all lanes share the rows of the objective
        self._rows = self._aims.made(arange(1, self.like)).rows if one else None
        self._chunks = Chunks(self.like, budget, self._by_memory)

    @cached_property
    def differentiable(self) -> bool:
        """Whether there are gradients to search by: what answers makes their session, which forward runs do without."""
        return self.engine.differentiable and (self._sound is None or self._sound())

    def _moved(self, x: Any) -> Array:
        """Host data beside the engine's arrays; floats in the engine's type."""
        host = np.asarray(x)
        return self.engine.asarray(host) if host.dtype.kind == "f" else as_like(host, self.like)

    def _moved_targets(self, targets: Targets) -> Targets:
        forms = targets.forms
        moved = {
            name: None if getattr(forms, name) is None else self._moved(getattr(forms, name))
            for name in ("outputs", "columns", "inputs", "monomials", "coefficients")
        }
        names = ("lower", "upper", "form", "sign", "bound", "strict", "present", "disjunct", "exact")
        if self.spec.m != self.engine.m:
            moved["outputs"] = self.engine.asarray(np.zeros((forms.r, self.engine.m)))
        columns = {name: self._moved(getattr(targets, name)) for name in names}
        box = None if targets.box is None or self.shared_box else self._moved(targets.box)
        return Targets(forms=type(forms)(**moved), **columns, box=box)

    # --- what a lane is ---

    def box(self, target: Array) -> tuple[Array, Array]:
        """Lower and upper bounds of lanes: `[b]` to `[b, f]` twice (read-only views of a shared box)."""
        shape = (target.shape[0], self.f)
        if self.shared_box:
            return tuple(self.xp.broadcast_to(side, shape) for side in (self.targets.lower, self.targets.upper))
        row = target if self.targets.box is None else self.targets.box[target]
        return self.targets.lower[row], self.targets.upper[row]

    @cached_property
    def region(self) -> Region | None:
        """Where points are moved that fail what is asked of inputs alone; None where boxes are all there is."""
        if self._region is None:
            return None
        from falsifier.spec.projection import region_of

        return region_of(self.spec)

    def settled(self, points: Array, target: Array) -> Array:
        """Points `[b, f]` in the boxes of their targets `[b]`, moved to near ones that meet what these ask of inputs
        alone: as they are where they do, where nothing is asked, and where no such point was found.
        """
        if self._region is None or self.region is None:
            return points
        return as_like(self.region.settled(to_host(points), to_host(target)), self.like)

    def along(self, points: Array, gradient: Array, target: Array) -> Array:
        """Gradients `[b, f]` at such points without what leads out of the region."""
        if self._region is None or self.region is None:
            return gradient
        return as_like(self.region.along(to_host(points), to_host(gradient), to_host(target)), self.like)

    @property
    def lanes_in_memory(self) -> int:
        """How many lanes of a gradient run are held at once."""
        return self._by_memory("gradient")

    @cached_property
    def in_box(self) -> NDArray[np.int64]:
        """The targets of every box, on the host: `[u, w]`, -1 where a box has fewer than the most."""
        assert self.spec.targets is not None
        return self.spec.targets.in_box()

    def embed(self, points: Array) -> Array:
        """Points `[b, f]` as full inputs `[b, n]`: what the networks see, and what a witness would hold."""
        return self.domain.embed(points)

    # --- values ---

    def evaluate(self, points: Array, target: Array) -> Evaluation:
        """Outputs, slacks and margin of points `[b, f]`, each for its own target `[b]`. Costs b evaluations."""

        def run(part: slice) -> list[Array]:
            inputs = self.embed(points[part])
            outputs = self.engine.outputs(inputs)
            return [outputs, self._slack(inputs, outputs, self._aims.made(target[part]))]

        columns = [self._outputs, self._slacks]
        outputs, slacks = self._chunks.run("forward", run, points.shape[0], columns)
        return self._evaluation(outputs, slacks, target)

    def depth(self, slack: Array, target: Array) -> Array:
        """The margin `[b]` by the atoms that mention something computed, from slacks `[b, k]` of targets `[b]`.

        -infinity where one about inputs alone does not hold: those are met or not, and by how much is no merit.
        """
        if self._region is None:
            return margin(slack)
        region = self._region if self.t == 1 else self._region[target]
        met = self.xp.all((slack >= 0) | ~region, axis=1)
        least = self.xp.min(self.xp.where(region, full((1, 1), math.inf, slack), slack), axis=1)
        return self.xp.where(met, least, full((1,), -math.inf, slack))

    def emphasis(self, target: Array) -> Array | None:
        """Scales `[b, k]` that make atoms about inputs alone outweigh the others; None where there are none."""
        if self._region is None:
            return None
        region = self._region if self.t == 1 else self._region[target]
        scale = self.xp.where(region, full((1, 1), _EMPHASIS, self.like), full((1, 1), 1.0, self.like))
        return scale + full((target.shape[0], 1), 0.0, self.like)

    def observe(self, points: Array, target: Array, observer: Observer) -> tuple[Evaluation, Array]:
        """`evaluate`, and from the same forward run the activations `[b, w]` that an observer of the engine watches."""

        def run(part: slice) -> list[Array]:
            inputs = self.embed(points[part])
            outputs, seen = observer.run(inputs)
            return [outputs, self._slack(inputs, outputs, self._aims.made(target[part])), seen]

        columns = [self._outputs, self._slacks, Column(0.0, sum(observer.widths))]
        outputs, slacks, seen = self._chunks.run("forward", run, points.shape[0], columns)
        return self._evaluation(outputs, slacks, target), seen

    def screen(self, points: Array) -> Array:
        """The margin of every point `[b, f]` for every target: `[b, t]`, -infinity where a point is outside a
        target's box.

        Costs b evaluations; `[b, t]` must fit in memory, what lies between is cut over points and targets.
        """

        def run(part: slice) -> list[Array]:
            inputs = self.embed(points[part])
            outputs = self.engine.outputs(inputs)
            return [self._all_margins(points[part], inputs, outputs)]

        (margins,) = self._chunks.run("forward", run, points.shape[0], [Column(-math.inf, self.t)])
        return margins

    def screen_boxes(self, points: Array, box: NDArray[np.int64]) -> Array:
        """The margin of points `[b, f]`, each in a box `[b]` (host), for all targets of that box: `[b, w]` as `in_box`.

        Costs b evaluations; -infinity where a box has fewer targets. There must be no tree.
        """
        aims = self.in_box[box]

        def run(part: slice) -> list[Array]:
            inputs = self.embed(points[part])
            return [self._box_margins(inputs, self.engine.outputs(inputs), aims[part])]

        (margins,) = self._chunks.run("forward", run, points.shape[0], [Column(-math.inf, aims.shape[1])])
        return margins

    def _evaluation(self, outputs: Array, slacks: Array, target: Array) -> Evaluation:
        """What lanes with targets `[b]` got."""
        self._look(slacks, target)
        return Evaluation(outputs, slacks, margin(slacks))

    def _slack(self, inputs: Array, outputs: Array, aim: Aim) -> Array:
        slacks = self._atoms(inputs, outputs, aim)
        return slacks if self.tree is None else self.tree.evaluate(slacks)[0]

    def _atoms(self, inputs: Array, outputs: Array, aim: Aim) -> Array:
        """Slacks of the lanes' atoms, `[b, k]`, or of all atoms of a tree, `[b, a]`."""
        forms = self.targets.forms
        if self.t == 1:
            values = form_values(forms, inputs, outputs)
            if not self._in_order:
                values = take_columns(values, aim.form[0])
        elif self._all_forms:
            values = aim.values(form_values(forms, inputs, outputs))
        else:
            values = lane_form_values(forms, aim.form, inputs, outputs)
        return slack(values, aim.sign, aim.bound, aim.present)

    def _all_margins(self, points: Array, inputs: Array, outputs: Array) -> Array:
        lanes = points.shape[0]
        if self.tree is not None:
            inside = self._inside(points, slice(0, 1))
            slacks = self._slack(inputs, outputs, self._aims.made(inputs[:, 0]))
            self._look(slacks, None, inside[:, 0])
            return self.xp.where(inside, margin(slacks)[:, None], full((1, 1), -math.inf, slacks))
        rows, values = self.targets, form_values(self.targets.forms, inputs, outputs)
        size = max(1, _CHUNK_BYTES // (8 * lanes * (3 * self.k + self.f)))
        out = []
        for first in range(0, self.t, size):
            part = slice(first, min(first + size, self.t))
            form = rows.form[part]
            picked = take_columns(values, form.reshape(-1)).reshape(lanes, form.shape[0], self.k)
            present = rows.present[part] if self._padded else None
            slacks, inside = slack(picked, rows.sign[part], rows.bound[part], present), self._inside(points, part)
            margins = self.xp.min(slacks, axis=2)
            self._look(slacks, part, inside)
            out.append(self.xp.where(inside, margins, full((1, 1), -math.inf, margins)))
        return self.xp.concat(out, axis=1)

    def _look(self, slacks: Array, target: Array | slice | None, inside: Array | None = None) -> None:
        """Note whether some lane meets its target's atoms of inputs alone: slacks `[.., k]`, of the given targets."""
        if self._region is None or self.entered:
            return
        region = self._region if target is None or self.t == 1 else self._region[target]
        met = self.xp.all((slacks >= 0) | ~region, axis=-1)
        self.entered = bool(self.xp.any(met if inside is None else met & inside))

    def _box_margins(self, inputs: Array, outputs: Array, aims: NDArray[np.int64]) -> Array:
        """The margin of lanes for some targets each: `[b, w]` like `aims`, -infinity where that is -1."""
        only_outputs = self.targets.forms.inputs is None and self.targets.forms.monomials is None
        numbers = aims.shape[1] * (4 * self.k + self.engine.m + (0 if only_outputs else self.spec.n))
        size = max(1, _CHUNK_BYTES // (8 * numbers))
        margins = full(aims.shape, -math.inf, outputs)
        for first in range(0, len(aims), size):
            lane, place = np.nonzero(aims[first : first + size] >= 0)
            lane += first
            row = as_like(lane, self.like)
            seen = inputs[:1] if only_outputs else inputs[row]
            slacks = self._slack(seen, outputs[row], self._aims.made(as_like(aims[lane, place], self.like)))
            margins[row, as_like(place, self.like)] = margin(slacks)
        return margins

    def _inside(self, points: Array, part: slice) -> Array:
        """Whether points lie in the boxes of some targets: `[b, part]`, or `[b, 1]` where all share one box."""
        rows = part if self.targets.box is None else self.targets.box[part]
        lower, upper = (side if self.shared_box else side[rows] for side in (self.targets.lower, self.targets.upper))
        return self.xp.all((points[:, None, :] >= lower) & (points[:, None, :] <= upper), axis=2)

    def _by_memory(self, kind: str) -> int:
        """How many lanes of a kind of run fit in a chunk: a forward run, a gradient run or one of any other kind."""
        n, m, k = self.spec.n, self.engine.m, int(self.targets.form.shape[1])
        r, c = self.targets.forms.r, int(self.targets.forms.columns.shape[0])
        forms = (r if self._all_forms else k * (m + c)) + 4 * k
        if self.tree is not None:
            forms += 4 * self.tree.values
        numbers, inner = n + m + forms, self.engine.lane_bytes
        if kind != "forward":
            rows = k * (m + c) if self.t > 1 or kind != "gradient" else 0
            numbers, inner = numbers + n + 2 * rows, 3 * inner
        parts: int = getattr(self.engine, "parts", 0)
        room = max(_CHUNK_BYTES, (device_bytes(self.like) or 0) // 8)
        if parts:  # the engine cuts for caches itself: of a chunk it holds what a reverse run reads of the forward one
            room, inner = _DIVIDED_BYTES * min(parts, _MOST_PARTS), self.engine.lane_bytes
        return max(1, room // (inner + self.dtype.itemsize * numbers))
