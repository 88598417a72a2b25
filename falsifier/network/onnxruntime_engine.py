"""The engine of the CPU: a program as an ONNX model in onnxruntime, its adjoint and the objective appended as nodes.

Models, each made when it is first needed and sharing the large constants: outputs; outputs and the gradient of a seed,
in one or in two halves; outputs, objective and its gradient. torch is never imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import finite
from falsifier.errors import EngineError, UnsupportedError
from falsifier.network import runtime
from falsifier.network.adjoint import add_adjoint
from falsifier.network.halves import halves
from falsifier.network.lowering import Lowered
from falsifier.network.objective_graph import HARD, ObjectiveValues, add_objective
from falsifier.network.observation import Layer, Observer, Watch, layers_of, probes
from falsifier.network.onnx_graph import Graph, write_graph, write_loop
from falsifier.network.operators.elementwise import smallest_divisor
from falsifier.network.program import WINDOW, Builder, Primitive, Value
from falsifier.network.session import Session
from falsifier.network.walk import Kind
from falsifier.network.work import division, is_large, is_small, matrices
from falsifier.objective import Ascent, ObjectiveForm, Reduction

Array = NDArray[Any]

_SEED = "seed"


class OnnxruntimeEngine:
    """A network as batches of flat points through onnxruntime on the CPU (`Engine`).

    `threads`: by default one for small networks, else one per core that this process may keep busy. `parts`: how many
    of a batch run at once, each on a thread of its own; 0 where batches stay whole. A run that does not fit into memory
    raises MemoryError: the caller tries a smaller batch.
    """

    name = "onnxruntime"
    device = "cpu"

    def __init__(self, lowered: Lowered, threads: int | None = None) -> None:
        """Makes the session for outputs. Raises EngineError where onnxruntime has no kernel for a primitive."""
        self._lowered = lowered
        self.dtype = lowered.dtype
        self.n, self.m = lowered.n, lowered.m
        self.stepped, self.lane_bytes = lowered.stepped, lowered.lane_bytes
        self._division = division(lowered, threads)
        self.threads = self._division.threads
        self.parts = self.threads if self._division.most else 0
        self.why_no_gradient: str | None = None
        self._shared: dict[int, tuple[Array, Any]] = {}
        self._fed = matrices(lowered)
        graph = write_graph(lowered.program, [lowered.x], [lowered.y], as_integers=True, fed=self._fed)
        self._forward = self._session(graph, fuse_integers=True)
        self._inner: dict[tuple[str, ...], Session] = {}
        self._ascents: dict[tuple[Reduction, ...], Session] = {}
        self._large = is_large(lowered)
        self._walks: dict[Kind, Session] = {}

    @cached_property
    def differentiable(self) -> bool:
        """Whether `vjp` and `ascend` exist. Made certain by making the session that `ascend` needs first."""
        try:
            if self._adjoint.gradient is not None:
                self._ascent(Reduction.HINGE)
        except (UnsupportedError, EngineError, MemoryError) as error:
            self.why_no_gradient = str(error) or "it does not fit into memory"
            return False
        return True

    def adjoint_error(self) -> str | None:
        """Why the program has no adjoint, None where it has one. Cheaper than `differentiable`: no session is made."""
        try:
            self._adjoint  # noqa: B018 - made here, kept for later
        except UnsupportedError as error:
            return str(error)
        return None

    def asarray(self, x: Array) -> Array:
        return np.asarray(x, dtype=self.dtype)

    def outputs(self, x: Array) -> Array:
        """`[b, n]` -> `[b, m]`."""
        return self._forward.run({self._lowered.x.name: x})[0]

    def activations(self, x: Array, tensors: Sequence[str]) -> dict[str, Array]:
        """Named tensors of the model from one run, each `[b, size]`. Raises EngineError for a name it does not know."""
        known = self._lowered.tensors
        for name in tensors:
            if name not in known:
                raise EngineError(f"the lowered network has no tensor {name!r}")
        values = {v.name: v for name in tensors if isinstance(v := known[name], Value)}
        inner = {name: v for name, v in values.items() if name not in self._lowered.program.inputs}
        key = tuple(inner)
        if inner and key not in self._inner:
            self._inner[key] = self._session(self._inner_graph(list(inner.values())))
        run = dict(zip(key, self._inner[key].run({self._lowered.x.name: x}), strict=True)) if inner else {}
        run[self._lowered.x.name] = x
        found = {}
        for name in tensors:
            operand = known[name]
            if isinstance(operand, Value):
                found[name] = run[operand.name].reshape(len(x), operand.size).astype(self.dtype, copy=False)
            elif operand is not None:
                found[name] = np.broadcast_to(np.asarray(operand, self.dtype).reshape(1, -1), (len(x), operand.size))
        return found

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """Tensors that activation functions make (`Observable`)."""
        return layers_of(self._lowered)

    def observer(self, watched: Sequence[Watch]) -> Observer:
        """Outputs and named activations from one run (`Observable`); a session of its own is made for it."""
        probed = probes(self._lowered, watched)
        distinct = {value.name: value for value in probed.outputs}
        values = [probed.build.program.values[name] for name in distinct]
        session = self._session(write_graph(probed.build.program, [self._lowered.x], values, fed=self._fed))
        names = [value.name for value in probed.outputs[1:]]
        place = {name: i for i, name in enumerate(distinct)}

        def run(x: Array) -> tuple[Array, Array]:
            results = session.run({self._lowered.x.name: x})
            parts = [results[place[name]].reshape(len(x), -1) for name in names]
            seen = [part.astype(self.dtype, copy=False) for part in parts]
            return results[0], np.concatenate(seen, axis=1) if seen else np.zeros((len(x), 0), self.dtype)

        return Observer(probed.widths, run)

    def vjp(self, x: Array, seed: Array, window: Array | None = None) -> tuple[Array, Array]:
        """Outputs `[b, m]` and the gradient `[b, n]` of sum(seed * outputs), as it comes: it may be infinite or NaN."""
        if self._adjoint.gradient is None:
            return self.outputs(x), np.zeros_like(x)
        seed, exponent = _enlarged(self.asarray(seed))
        feed = {self._lowered.x.name: x, _SEED: seed, **self._window(len(x), window)}
        y, gradient = self._vjp.run(feed)
        return y, gradient if exponent is None else np.ldexp(gradient, -exponent)

    def pull(self, x: Array, seed: Callable[[Array], Array], window: Array | None = None) -> tuple[Array, Array]:
        """`vjp` with a seed that depends on the outputs (`Pulling`); what the forward run made stays in onnxruntime."""
        if self._adjoint.gradient is None or self._whole or not len(x):
            outputs = self.outputs(x)
            return outputs, self.vjp(x, seed(outputs), window)[1]
        first, second = self._halves
        parts = self._division.parts(len(x))
        feeds: list[dict[str, Any]] = [{self._lowered.x.name: x[part]} for part in parts]
        made = [dict(zip(first.outputs, values, strict=True)) for values in first.kept(feeds, len(x))]
        y = _joined([values[self._lowered.y.name].numpy() for values in made])
        scaled, exponent = _enlarged(self.asarray(seed(y)))
        rows = {_SEED: scaled, **self._window(len(x), window)}
        for feed, values, part in zip(feeds, made, parts, strict=True):
            feed.update({**values, **{name: array[part] for name, array in rows.items()}})
        gradient = _joined([values[0].numpy() for values in second.kept(feeds, len(x))])
        return y, gradient if exponent is None else np.ldexp(gradient, -exponent)

    def ascend(self, x: Array, objective: ObjectiveForm, window: Array | None = None) -> Ascent:
        """Outputs, slacks, score and its gradient in one run; elements of the gradient that are not finite are 0."""
        session = self._ascent(objective.reduction)
        feed = {
            self._lowered.x.name: x,
            "rows": self.asarray(objective.rows),
            "offset": self.asarray(objective.offset),
            "scale": self.asarray(objective.scale),
            **self._window(len(x), window),
        }
        if self._large:
            feed[HARD] = np.full(len(x), objective.reduction is Reduction.HARD)
        y, slack, score, weight, *gradient = session.run(feed)
        return Ascent(y, slack, score, weight, finite(gradient[0]) if gradient else np.zeros_like(x))

    def walk_session(self, kind: Kind) -> Session:
        """What `walk` runs. Raises UnsupportedError where no gradient flows or a step's batch is better divided,
        EngineError where a kernel is missing.
        """
        if kind not in self._walks:
            if self._division.most:
                raise UnsupportedError("steps are divided among threads one by one")
            self._walks[kind] = self._session(self._adjoint.walk(kind))
        return self._walks[kind]

    def walk(
        self, kind: Kind, given: dict[str, Array], state: dict[str, Array], steps: int, window: Array | None = None
    ) -> dict[str, Array]:
        """Up to `steps` steps in one run: the state after them, by the names in `network.walk`."""
        here = "points" if kind.embedded else self._lowered.x.name
        names = {name: here if name == "points" else name for name in state}
        feed = {f"{names[name]}_before": value for name, value in state.items()}
        feed.update(given, steps=np.array(steps), **self._window(len(state["points"]), window))
        session = self.walk_session(kind)
        after = dict(zip(session.outputs, session.run(feed), strict=True))
        return {name: after[f"{names[name]}_after"] for name in state}

    @cached_property
    def _adjoint(self) -> _Adjoint:
        return _Adjoint(self._lowered, self._fed)

    @cached_property
    def _vjp(self) -> Session:
        lowered, adjoint = self._lowered, self._adjoint
        assert adjoint.gradient is not None
        inputs = [lowered.x, adjoint.seed, *adjoint.windows]
        return self._session(write_graph(adjoint.build.program, inputs, [lowered.y, adjoint.gradient], fed=self._fed))

    @cached_property
    def _halves(self) -> tuple[Session, Session]:
        return tuple(self._session(graph) for graph in self._adjoint.halves())  # type: ignore[return-value]

    @cached_property
    def _whole(self) -> bool:
        """Whether `pull` runs forward twice: a quantised model, whose outputs are those of integer kernels, which no
        gradient run has; and a small network, of which a run takes less than to hand over what halves share (0.1 ms).
        """
        rounded = any(p.op in ("QuantizeLinear", "DequantizeLinear") for p in self._lowered.program.primitives)
        return rounded or is_small(self._lowered)

    def _ascent(self, reduction: Reduction) -> Session:
        both = (Reduction.HINGE, Reduction.HARD)  # a large network is not held twice for them
        reductions = both if self._large and reduction in both else (reduction,)
        if reductions not in self._ascents:
            self._ascents[reductions] = self._session(self._adjoint.with_objective(*reductions))
        return self._ascents[reductions]

    def _inner_graph(self, values: list[Value]) -> Graph:
        """Values as stored; several lanes' worth of leading axes stay folded, and are unfolded outside."""
        program = self._lowered.program
        return write_graph(program, [self._lowered.x], [program.values[v.name] for v in values], fed=self._fed)

    def _window(self, lanes: int, window: Array | None) -> dict[str, Array]:
        widths = self._adjoint.windows
        if not widths:
            return {}
        dtype = widths[0].dtype
        largest = np.finfo(dtype).max
        if window is None:
            return {WINDOW: np.full(lanes, largest, dtype=dtype)}
        return {WINDOW: np.minimum(window, largest).astype(dtype)}

    def _optimisation(self) -> Any:
        """What pays, measured: convolutions run up to 2.4 times as fast in the blocked layout of the highest level.

        Nothing else gains more than a few percent, while small graphs take up to twice as long to make.
        """
        from onnxruntime import GraphOptimizationLevel

        if any(p.op in ("Conv", "QuantizeLinear") for p in self._lowered.program.primitives):
            return GraphOptimizationLevel.ORT_ENABLE_ALL
        if is_small(self._lowered):
            return GraphOptimizationLevel.ORT_DISABLE_ALL
        return GraphOptimizationLevel.ORT_ENABLE_BASIC

    def _session(self, graph: Graph, *, fuse_integers: bool = False) -> Session:
        """`fuse_integers`: let onnxruntime compute quantised layers with integers, as it does in the original."""
        import onnxruntime

        held = {}
        for name, array in graph.shared.items():
            if id(array) not in self._shared:
                self._shared[id(array)] = (array, onnxruntime.OrtValue.ortvalue_from_numpy(array))
            held[name] = self._shared[id(array)][1]
        level = self._optimisation()

        def make(threads: int) -> Any:
            session = runtime.inference_session(graph.model, threads, level, held, integers=fuse_integers)
            runtime.give_back(sum(array.nbytes for array in graph.shared.values()))
            return session

        try:
            return Session(make, self._division, graph.fed)
        except runtime.errors() as error:
            if runtime.is_out_of_memory(error):
                raise MemoryError(runtime.one_line(error)) from error
            raise EngineError(f"onnxruntime does not take the batched program: {runtime.one_line(error)}") from error


class _Adjoint:
    """A program with its adjoint behind it. `gradient` is None where no gradient flows: it is zero everywhere."""

    def __init__(self, lowered: Lowered, fed: frozenset[str]) -> None:
        """`fed`: constants that are no part of the models. Raises UnsupportedError where a primitive on the way has no
        adjoint.
        """
        self.lowered, self._fed = lowered, fed
        self.build: Builder = lowered.builder.fork()
        self.split = len(self.build.program.primitives)  # where the adjoint begins
        self.seed = self.build.input(_SEED, lowered.y.stored, lowered.y.dtype)
        self.gradient = add_adjoint(self.build, {lowered.y.name: self.seed}).get(lowered.x.name)
        if self.gradient is not None and self.gradient.name == _SEED:  # an input cannot be an output as well
            self.gradient = self.build.emit("Identity", [self.gradient], self.gradient.stored)
        program = self.build.program
        self.windows = [program.values[WINDOW]] if WINDOW in program.values else []

    def with_objective(self, *reductions: Reduction) -> Graph:
        """(x, rows, offset, scale[, window]) -> (y, slack, score, weight[, gradient]).

        Of several reductions, HINGE and HARD, `hard` `[b]` chooses for each lane.
        """
        build, values, order = self._ordered(*reductions)
        outputs = [self.lowered.y, values.slack, values.score, values.weight]
        if self.gradient is not None:
            outputs.append(self.gradient)
        inputs = [self.lowered.x, values.rows, values.offset, values.scale, *self.windows]
        inputs += [values.hard] if values.hard else []
        return write_graph(build.program, inputs, outputs, order, fed=self._fed)

    def halves(self) -> tuple[Graph, Graph]:
        """x -> (y, what the second reads of the program), and (that, seed[, window]) -> gradient."""
        program, lowered = self.build.program, self.lowered
        assert self.gradient is not None
        forward = {name for primitive in program.primitives[: self.split] for name in primitive.outputs}
        saved, reverse = halves(program, forward | {lowered.x.name}, [self.gradient.name])
        values = [program.values[name] for name in saved]
        made = [value for value in values if value.name not in (lowered.x.name, lowered.y.name)]
        first = write_graph(program, [lowered.x], [lowered.y, *made], fed=self._fed)
        second = write_graph(program, [*values, self.seed, *self.windows], [self.gradient], reverse, fed=self._fed)
        return first, second

    def walk(self, kind: Kind) -> Graph:
        """Several steps as one run (`Engine.walk`). Raises UnsupportedError where no gradient flows."""
        from falsifier.network.walk_graph import WalkSteps

        if self.gradient is None:
            raise UnsupportedError("no gradient flows: nothing to walk along")
        build, values, order = self._ordered(kind.reduction)
        steps = WalkSteps(build, kind, self.lowered.x, self.lowered.y, self.gradient, values)
        whole = [*steps.before, *order, *steps.primitives]
        return write_loop(build.program, whole, steps.state, steps.going, fed=self._fed)

    def _ordered(self, *reductions: Reduction) -> tuple[Builder, ObjectiveValues, list[Primitive]]:
        """The program with an objective, and its primitives in execution order."""
        build = self.build.fork()
        end = len(build.program.primitives)
        values = add_objective(build, self.lowered.y, reductions, _SEED)
        primitives = build.program.primitives
        return build, values, [*primitives[: self.split], *primitives[end:], *primitives[self.split : end]]


def _joined(rows: list[Array]) -> Array:
    return rows[0] if len(rows) == 1 else np.concatenate(rows)


def _enlarged(seed: Array) -> tuple[Array, Array | None]:
    """Seeds `[b, m]` times powers of two, `[b, 1]` exponents, so that no lane's are all tiny; None where none were.

    A classifier that is sure has slopes of 1e-40, and arithmetic on numbers below the smallest normal one takes a
    hundred times as long. A power of two changes no digit of the gradient.
    """
    largest = np.maximum.reduce(np.abs(seed), axis=1, keepdims=True, initial=0)
    tiny = largest < smallest_divisor(seed.dtype)
    if not np.count_nonzero(tiny):
        return seed, None
    exponent = np.where(tiny, -np.frexp(largest)[1], 0)  # 0 of a seed of zeros
    return np.ldexp(seed, exponent), exponent
