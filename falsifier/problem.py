"""A problem: a compiled query on an engine. The only place that evaluates a batch.

Every lane (row) has a target and a point over the free inputs. Batches of any size are cut into chunks by memory; a
chunk that runs out of it is halved, and near a deadline chunks are also cut by measured speed. Rows that budget or
deadline leave no room for come back unevaluated: margin -infinity, outputs NaN, gradient 0. Chunks never change what
a row gets.

Axes: b lane, f free input, n flat input, m flat output, t target, k atom, r form, a atom of a tree.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from falsifier.aims import Aim, Aims
from falsifier.arrays import (
    Array,
    add_columns,
    arange,
    as_like,
    device_bytes,
    full,
    gather,
    is_numpy,
    namespace,
    take_columns,
)
from falsifier.budget import Budget
from falsifier.chunks import Chunks, Column
from falsifier.network.engine import Engine
from falsifier.objective import ObjectiveForm, Reduction
from falsifier.spec.compile import Spec
from falsifier.spec.margin import (
    form_gradients,
    form_values,
    input_values,
    lane_form_values,
    margin,
    score,
    slack,
)
from falsifier.spec.region import region_atoms
from falsifier.spec.targets import Targets

if TYPE_CHECKING:
    from falsifier.network.observation import Observer

_CHUNK_BYTES = 1 << 28  # arrays of one chunk, together; on a CPU larger ones are no faster


class Evaluation(NamedTuple):
    """outputs `[b, m]`; slack `[b, k]`, +infinity for padding, -infinity for NaN; margin `[b]`, >= 0 iff satisfied."""

    outputs: Array
    slack: Array
    margin: Array


class Problem:
    """The targets of a spec on an engine.

    t targets of at most k atoms, f free inputs; dtype: numpy's name of the element type; like: an empty array of the
    engine's kind, type and device; serial: one sample at a time; stepped: straight-through windows make a difference.
    Points, targets and results are arrays of the engine's kind.

    Raises ValueError for an empty spec, or where the engine's sizes differ from the query's.
    """

    def __init__(self, spec: Spec, engine: Engine, budget: Budget | None = None) -> None:
        if spec.targets is None or spec.domain is None:
            raise ValueError(f"nothing to search: {spec.reason}")
        if engine.n != spec.n or spec.m not in (0, engine.m):  # a query may leave outputs undeclared
            raise ValueError(
                f"the query has {spec.n} inputs and {spec.m} outputs, the network {engine.n} and {engine.m}"
            )
        self.spec, self.engine, self.budget = spec, engine, budget
        self.like = engine.asarray(np.empty(0))
        self.xp = namespace(self.like)
        self.dtype = engine.dtype
        self.differentiable = engine.differentiable
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
        return Targets(forms=type(forms)(**moved), **columns)

    # --- what a lane is ---

    def box(self, target: Array) -> tuple[Array, Array]:
        """Lower and upper bounds of lanes: `[b]` to `[b, f]` twice (read-only views of a shared box)."""
        shape = (target.shape[0], self.f)
        if self.shared_box:
            return tuple(self.xp.broadcast_to(side, shape) for side in (self.targets.lower, self.targets.upper))
        return self.targets.lower[target], self.targets.upper[target]

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
        self._look(slacks, target)
        return Evaluation(outputs, slacks, margin(slacks))

    def observe(self, points: Array, target: Array, observer: Observer) -> tuple[Evaluation, Array]:
        """`evaluate`, and from the same forward run the activations `[b, w]` that an observer of the engine watches."""

        def run(part: slice) -> list[Array]:
            inputs = self.embed(points[part])
            outputs, seen = observer.run(inputs)
            return [outputs, self._slack(inputs, outputs, self._aims.made(target[part])), seen]

        columns = [self._outputs, self._slacks, Column(0.0, sum(observer.widths))]
        outputs, slacks, seen = self._chunks.run("forward", run, points.shape[0], columns)
        return Evaluation(outputs, slacks, margin(slacks)), seen

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

    def _inside(self, points: Array, part: slice) -> Array:
        """Whether points lie in the boxes of some targets: `[b, part]`, or `[b, 1]` where all share one box."""
        lower, upper = (side if self.shared_box else side[part] for side in (self.targets.lower, self.targets.upper))
        return self.xp.all((points[:, None, :] >= lower) & (points[:, None, :] <= upper), axis=2)

    # --- gradients ---

    def ascend(
        self,
        points: Array,
        target: Array,
        reduction: Reduction = Reduction.HINGE,
        scale: Array | None = None,
        window: Array | None = None,
    ) -> tuple[Evaluation, Array, Array]:
        """The evaluation of points `[b, f]`, the score `[b]` of their lanes and its gradient `[b, f]`, towards
        satisfaction.

        scale `[b, k]` weighs the slacks before they are reduced (ones by default); window `[b]` as in
        `Engine.ascend`. Linear atoms take one run of the engine and count b evaluations. Polynomial atoms and trees
        take two, since what to differentiate depends on the outputs: they count 2 b.
        """
        linear, lanes = self.tree is None and self.targets.forms.linear, points.shape[0]

        def run(part: slice) -> list[Array]:
            if part.stop - part.start == lanes:
                some = _Lanes(self.embed(points), self._aims.kept(target), scale, window)
            else:
                cut_scale, cut_window = (None if each is None else each[part] for each in (scale, window))
                some = _Lanes(self.embed(points[part]), self._aims.made(target[part]), cut_scale, cut_window)
            return self._ascend_linear(some, reduction) if linear else self._ascend_general(some, reduction)

        kind, cost = ("gradient", 1) if linear else ("general", 2)
        outputs, slacks, value, gradient = self._chunks.run(kind, run, lanes, self._ascended, cost)
        self._look(slacks, target)
        return Evaluation(outputs, slacks, margin(slacks)), value, gradient

    def pull(
        self, points: Array, target: Array, seed: Callable[[slice, Array], Array], window: Array | None = None
    ) -> tuple[Evaluation, Array]:
        """The evaluation of points `[b, f]`, and the gradient `[b, f]` of sum(seed * outputs), seed held fixed.

        `seed(part, outputs)` gives the weights `[c, m]` of some lanes' outputs `[c, m]`: the derivative of whatever
        score of the outputs is to rise. Counts 2 b evaluations.
        """

        def run(part: slice) -> list[Array]:
            inputs = self.embed(points[part])
            outputs = self.engine.outputs(inputs)
            width = None if window is None else window[part]
            _, gradient = self.engine.vjp(inputs, seed(part, outputs), width)
            gradient = self.domain.pull(gradient)
            finite = self.xp.where(self.xp.isfinite(gradient), gradient, full((1, 1), 0.0, gradient))
            return [outputs, self._slack(inputs, outputs, self._aims.made(target[part])), finite]

        columns = [self._outputs, self._slacks, Column(0.0, self.f)]
        outputs, slacks, gradient = self._chunks.run("general", run, points.shape[0], columns, 2)
        return Evaluation(outputs, slacks, margin(slacks)), gradient

    def _scale(self, lanes: _Lanes) -> Array:
        """Scales `[b, k]`, 0 for padding."""
        if self.tree is not None:  # one scale for each root, and roots are never padded
            count = lanes.inputs.shape[0]
            return full((count, self.k), 1.0, self.like) if lanes.scale is None else lanes.scale
        return lanes.aim.ones if lanes.scale is None else lanes.aim.unpadded(lanes.scale)

    def _ascend_linear(self, lanes: _Lanes, reduction: Reduction) -> list[Array]:
        forms, aim = self.targets.forms, lanes.aim
        offset = aim.offset
        if forms.inputs is not None:
            offset = aim.of_lanes(aim.sign * input_values(forms, aim.form, lanes.inputs) - aim.bound)
        rows = aim.rows if self._rows is None else self._rows
        ascent = self.engine.ascend(
            lanes.inputs, ObjectiveForm(rows, offset, self._scale(lanes), reduction), lanes.window
        )
        gradient = ascent.gradient
        if forms.inputs is not None:
            by_used = ((ascent.weight * aim.sign)[:, None, :] @ forms.inputs[aim.form])[:, 0, :]
            gradient = add_columns(_copied(gradient), forms.columns, by_used)
        # from the outputs, so that a margin never depends on how it was asked for: the engine's differ in the last bit
        slacks = self._atoms(lanes.inputs, ascent.outputs, aim)
        return [ascent.outputs, slacks, ascent.score, self.domain.pull(gradient)]

    def _ascend_general(self, lanes: _Lanes, reduction: Reduction) -> list[Array]:
        outputs = self.engine.outputs(lanes.inputs)
        slacks = self._atoms(lanes.inputs, outputs, lanes.aim)
        form, sign = lanes.aim.form, lanes.aim.sign
        if self.tree is not None:
            slacks, deciding = self.tree.evaluate(slacks)
            form, sign = form[0][deciding], sign[0][deciding]
        value, weight = score(slacks, self._scale(lanes), reduction)
        gradient = self._pulled(lanes, outputs, self.xp.broadcast_to(form, slacks.shape), weight * sign)
        return [outputs, slacks, value, gradient]

    def _pulled(self, lanes: _Lanes, outputs: Array, form: Array, weight: Array) -> Array:
        """The gradient `[b, f]` of sum over k of weight * form value; elements that are not finite are 0."""
        by_y, by_x = form_gradients(self.targets.forms, form, weight, lanes.inputs, outputs)
        _, gradient = self.engine.vjp(lanes.inputs, by_y, lanes.window)
        gradient = self.domain.pull(gradient + by_x)
        return self.xp.where(self.xp.isfinite(gradient), gradient, full((1, 1), 0.0, gradient))

    def row_scale(self, points: Array, target: Array) -> Array:
        """Scales `[b, k]` that make atoms comparable: 1 / (L1 norm of an atom's gradient times the box's width), 0
        for padding.

        What a first-order step across the whole box would gain is 1 in every scaled atom. Atoms without a gradient at
        the point get the mean of the lane's others, 1 where there is none. Costs b * (k + 1) evaluations.
        """
        lower, upper = self.box(target)
        evaluation = self.evaluate(points, target)
        k, every = self.k, arange(self.k * points.shape[0], self.like)
        lane, atom = every // k, every % k

        def run(part: slice) -> list[Array]:
            at = lane[part]
            lanes = _Lanes(self.embed(points[at]), self._aims.made(target[at]), None, None)
            outputs = evaluation.outputs[at]
            form, sign = lanes.aim.form, lanes.aim.sign
            if self.tree is not None:
                _, deciding = self.tree.evaluate(self._atoms(lanes.inputs, outputs, lanes.aim))
                form, sign = form[0][deciding], sign[0][deciding]
            shape = (at.shape[0], k)
            mine = atom[part][:, None]
            form, sign = (gather(self.xp.broadcast_to(a, shape), mine) for a in (form, sign))
            gradient = self._pulled(lanes, outputs, form, sign)
            return [self.xp.sum(self.xp.abs(gradient) * (upper[at] - lower[at]), axis=1)]

        (reach,) = self._chunks.run("general", run, every.shape[0], [Column(0.0)])
        reach = reach.reshape(points.shape[0], k)
        useful = self.xp.isfinite(reach) & (reach > 0)
        zero = full((1, 1), 0.0, reach)
        scale = self.xp.where(useful, 1 / self.xp.where(useful, reach, zero + 1), zero)
        count = self.xp.sum(self.xp.astype(useful, reach.dtype), axis=1)[:, None]
        mean = self.xp.where(
            count > 0, self.xp.sum(scale, axis=1)[:, None] / self.xp.where(count > 0, count, zero + 1), zero + 1
        )
        return self._scale(_Lanes(points, self._aims.made(target), self.xp.where(useful, scale, mean), None))

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
        room = max(_CHUNK_BYTES, (device_bytes(self.like) or 0) // 8)
        return max(1, room // (inner + self.dtype.itemsize * numbers))


class _Lanes(NamedTuple):
    """One chunk: inputs `[b, n]`, aim, scale `[b, k]` and window `[b]` or None."""

    inputs: Array
    aim: Aim
    scale: Array | None
    window: Array | None


def _copied(x: Array) -> Array:
    return x.copy() if is_numpy(x) else x.clone()
