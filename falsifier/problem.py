"""A problem: a compiled query on an engine. The only place that evaluates a batch.

Every lane (row) has a target and a point over the free inputs. Batches of any size are cut into chunks by memory; a
chunk that runs out of it is halved, and near a deadline chunks are also cut by measured speed. Rows that budget or
deadline leave no room for come back unevaluated: margin -infinity, outputs NaN, gradient 0. Chunks never change what
a row gets.

Axes: b lane, f free input, n flat input, m flat output, t target, k atom, r form, a atom of a tree.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

from falsifier.aims import Aim
from falsifier.arrays import Array, add_columns, arange, finite, full, gather, is_numpy
from falsifier.chunks import Column
from falsifier.network.engine import pulled
from falsifier.objective import ObjectiveForm, Reduction
from falsifier.spec.margin import form_gradients, input_values, score
from falsifier.values import Evaluation, Values

if TYPE_CHECKING:
    from falsifier.walks import Walks


class Problem(Values):
    """The targets of a spec on an engine, with gradients (`Values` has the rest and says what the sizes mean)."""

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
        `Engine.ascend`. Linear atoms count b evaluations. Polynomial atoms and trees count 2 b: what to differentiate
        depends on the outputs, so that engines which do not pull (`network.engine.Pulling`) run twice.
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
        return self._evaluation(outputs, slacks, target), value, gradient

    @cached_property
    def walks(self) -> Walks:
        """Several steps of `ascend` as one run, where that is possible and pays."""
        from falsifier.walks import Walks

        return Walks(self)

    def pull(
        self, points: Array, target: Array, seed: Callable[[slice, Array], Array], window: Array | None = None
    ) -> tuple[Evaluation, Array]:
        """The evaluation of points `[b, f]`, and the gradient `[b, f]` of sum(seed * outputs), seed held fixed.

        `seed(part, outputs)` gives the weights `[c, m]` of some lanes' outputs `[c, m]`: the derivative of whatever
        score of the outputs is to rise. Counts 2 b evaluations.
        """

        def run(part: slice) -> list[Array]:
            inputs = self.embed(points[part])
            width = None if window is None else window[part]
            outputs, gradient = pulled(self.engine, inputs, partial(seed, part), width)
            return [outputs, self._slack(inputs, outputs, self._aims.made(target[part])), self._finite(gradient)]

        columns = [self._outputs, self._slacks, Column(0.0, self.f)]
        outputs, slacks, gradient = self._chunks.run("general", run, points.shape[0], columns, 2)
        return self._evaluation(outputs, slacks, target), gradient

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
        found: list[Array] = []

        def seed(outputs: Array) -> Array:
            slacks = self._atoms(lanes.inputs, outputs, lanes.aim)
            form, sign = lanes.aim.form, lanes.aim.sign
            if self.tree is not None:
                slacks, deciding = self.tree.evaluate(slacks)
                form, sign = form[0][deciding], sign[0][deciding]
            value, weight = score(slacks, self._scale(lanes), reduction)
            form = self.xp.broadcast_to(form, slacks.shape)
            by_y, by_x = form_gradients(self.targets.forms, form, weight * sign, lanes.inputs, outputs)
            found.extend((slacks, value, by_x))
            return by_y

        outputs, gradient = pulled(self.engine, lanes.inputs, seed, lanes.window)
        slacks, value, by_x = found
        return [outputs, slacks, value, self._finite(gradient + by_x)]

    def _pulled(self, lanes: _Lanes, outputs: Array, form: Array, weight: Array) -> Array:
        """The gradient `[b, f]` of sum over k of weight * form value; elements that are not finite are 0."""
        by_y, by_x = form_gradients(self.targets.forms, form, weight, lanes.inputs, outputs)
        _, gradient = self.engine.vjp(lanes.inputs, by_y, lanes.window)
        return self._finite(gradient + by_x)

    def _finite(self, gradient: Array) -> Array:
        """The gradient `[b, f]` by the free inputs of one `[b, n]`, 0 where it is not finite."""
        return finite(self.domain.pull(gradient))

    def row_scale(self, points: Array, target: Array) -> Array:
        """Scales `[b, k]` that make atoms comparable: 1 / (L1 norm of an atom's gradient times the box's width), 0
        for padding.

        What a first-order step across the whole box would gain is 1 in every scaled atom. Atoms without a gradient at
        the point get the mean of the lane's others, 1 where there is none. Costs b * (k + 1) evaluations.
        """
        lower, upper = self.box(target)
        _, pulled = self._by_atom(points, target)

        def run(part: slice) -> list[Array]:
            at, gradient = pulled(part)
            return [self.xp.sum(self.xp.abs(gradient) * (upper[at] - lower[at]), axis=1)]

        (reach,) = self._chunks.run("general", run, self.k * points.shape[0], [Column(0.0)])
        reach = reach.reshape(points.shape[0], self.k)
        useful = self.xp.isfinite(reach) & (reach > 0)
        zero = full((1, 1), 0.0, reach)
        scale = self.xp.where(useful, 1 / self.xp.where(useful, reach, zero + 1), zero)
        count = self.xp.sum(self.xp.astype(useful, reach.dtype), axis=1)[:, None]
        mean = self.xp.where(
            count > 0, self.xp.sum(scale, axis=1)[:, None] / self.xp.where(count > 0, count, zero + 1), zero + 1
        )
        return self._scale(_Lanes(points, self._aims.made(target), self.xp.where(useful, scale, mean), None))

    def slopes(self, points: Array, target: Array) -> tuple[Evaluation, Array]:
        """The evaluation of points `[b, f]`, and the gradient of every atom's slack `[b, k, f]`; that of padding says
        nothing. Costs b * (k + 1) evaluations.
        """
        evaluation, pulled = self._by_atom(points, target)
        rows = self.k * points.shape[0]
        (slopes,) = self._chunks.run("general", lambda part: [pulled(part)[1]], rows, [Column(0.0, self.f)])
        return evaluation, slopes.reshape(points.shape[0], self.k, self.f)

    def _by_atom(self, points: Array, target: Array) -> tuple[Evaluation, Callable[[slice], tuple[Array, Array]]]:
        """The evaluation of lanes, and what gives, for some of b * k rows, their lanes and the gradients of one atom
        each `[rows, f]`, the atoms of a lane one after the other.
        """
        evaluation = self.evaluate(points, target)
        k, every = self.k, arange(self.k * points.shape[0], self.like)
        lane, atom = every // k, every % k

        def pulled(part: slice) -> tuple[Array, Array]:
            at = lane[part]
            lanes = _Lanes(self.embed(points[at]), self._aims.made(target[at]), None, None)
            outputs = evaluation.outputs[at]
            form, sign = lanes.aim.form, lanes.aim.sign
            if self.tree is not None:
                _, deciding = self.tree.evaluate(self._atoms(lanes.inputs, outputs, lanes.aim))
                form, sign = form[0][deciding], sign[0][deciding]
            mine = atom[part][:, None]
            form, sign = (gather(self.xp.broadcast_to(a, (at.shape[0], k)), mine) for a in (form, sign))
            return at, self._pulled(lanes, outputs, form, sign)

        return evaluation, pulled


class _Lanes(NamedTuple):
    """One chunk: inputs `[b, n]`, aim, scale `[b, k]` and window `[b]` or None."""

    inputs: Array
    aim: Aim
    scale: Array | None
    window: Array | None


def _copied(x: Array) -> Array:
    return x.copy() if is_numpy(x) else x.clone()
