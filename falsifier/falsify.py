"""An instance in, a result out: the whole pipeline on one page.

Two evaluators look at every point: the search proposes by compiled targets on an engine, the door decides by the syntax
tree on the original network. What the door refuses goes back to the search.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Rng
from falsifier.budget import Budget
from falsifier.errors import InputError, UnsupportedError
from falsifier.network import Network, load
from falsifier.network.peeling import without_softmax
from falsifier.network.single import SingleSampleEngine
from falsifier.problem import Problem
from falsifier.query import parse, read
from falsifier.query.tree import NetworkDeclaration, Query
from falsifier.result import Result
from falsifier.search import search
from falsifier.search.portfolio import stages_of
from falsifier.spec import Rounding, Spec, compile_query
from falsifier.spec.ordinal import compares_outputs
from falsifier.verdict import StopReason, Verdict
from falsifier.witness.binding import assign
from falsifier.witness.confirm import Door
from falsifier.witness.outcome import Rejection, Witness, WitnessClass

if TYPE_CHECKING:
    from falsifier.network.engine import Engine
    from falsifier.search import SearchResult

HELD_EVALUATIONS = 1000  # spent at least on the search for an `exact` witness once a `correct` one is in hand

Models = Any  # a model (path, bytes, ModelProto, torch module), a mapping name -> model, or (name, model) pairs
Report = Callable[[Result], None]


def falsify(
    networks: Models,
    query: Any,
    *,
    timeout: float = 60.0,
    device: str = "auto",
    rng_seed: int = 0,
    max_evaluations: int | None = None,
    require: str = "correct",
    portfolio: str = "standard",
    report: Report | None = None,
) -> Result:
    """Search for inputs that satisfy a query.

    networks: one model, or one per declared network as a mapping or as (name, model) pairs; a model is a path (plain or
    gzip), bytes, an `onnx.ModelProto` or a `torch.nn.Module`. query: a path, the text of a VNN-LIB file, or a `Query`.
    timeout in seconds from this call. With `max_evaluations` and a timeout that does not bind, the result depends on
    nothing but the arguments. require: `exact` refuses witnesses that hold under the published rule alone.
    report: called with a preliminary result once there is one worth keeping should the run be cut short.

    Raises InputError for files and a device that cannot be used. What is not supported gives `unknown` with a reason.
    """
    budget = Budget.of_seconds(timeout, max_evaluations)
    stages = stages_of(portfolio)
    if require not in ("correct", "exact"):
        raise InputError(f"require {require!r}: choose correct or exact")
    if device not in ("auto", "cpu"):
        _demand(device)
    seconds: dict[str, float] = {}
    draft = Result(Verdict.UNKNOWN, None, "", rng_seed=rng_seed, seconds=seconds)
    try:
        with _timed(seconds, "read"):
            tree = query if isinstance(query, Query) else _read(query)
            draft = replace(draft, query=tree)
            models = assign(tree, _pairs(networks))
        with _timed(seconds, "load"):
            loaded = [_load(model, declaration, tree) for model, declaration in zip(models, tree.networks, strict=True)]
            door = Door(tree, [network.reference for network in loaded], WitnessClass(require))
        if len(loaded) != 1:
            raise UnsupportedError(
                f"{tree.origin}: declares {len(loaded)} networks: queries over several are not supported"
            )
        with _timed(seconds, "compile"):
            problems = Problems(door.query, loaded[0], budget, device)
        if problems.spec.empty:
            return replace(
                draft, verdict=Verdict.UNSAT, reason=StopReason.EMPTY_INPUT_SET, reason_text=problems.spec.reason
            )
        patient = bool(np.any(problems.spec.targets.exact))  # whether an exact witness is possible at all
        judge = Judge(door, budget, patient, lambda witness: report(_sat(draft, witness)) if report else None)
        with _timed(seconds, "search"):
            source = problems
            if problems.spec.domain.f == 0:  # one point is left: the door decides
                done = judge(problems.spec.domain.embed(np.zeros((1, 0), problems.spec.dtype))[0])
                if done or problems.nearest is None:
                    return _only_point(draft, judge)
                source = problems.nearest
            found = search(source, budget, Rng(rng_seed), judge, stages)
    except UnsupportedError as error:
        return replace(draft, reason=StopReason.UNSUPPORTED, reason_text=str(error))
    return _conclude(draft, found, problems, judge)


class Problems:
    """The `ProblemSource` of one network: the targets on the reference, and on an engine once it is asked for."""

    def __init__(
        self, query: Query, network: Network, budget: Budget, device: str, rounding: Rounding = Rounding.INWARD
    ) -> None:
        self._query, self._network, self._budget, self._device = query, network, budget, device
        self.rounding = rounding
        types = [tensor.dtype for tensor in network.reference.inputs]
        self.spec = compile_query(query, network.reference.dtype, rounding, types=types)
        self.engine: Engine | None = None  # what `batched` runs on, once it is built

    @cached_property
    def single(self) -> Problem:
        return Problem(self.spec, SingleSampleEngine(self._network.reference), self._budget)

    @cached_property
    def batched(self) -> Problem:
        self.engine = self._network.engine(self._device, self._hull())
        if compares_outputs(self.spec):
            self.engine = without_softmax(self.engine, self._network)
        return Problem(self.spec, self.engine, self._budget)

    @cached_property
    def nearest(self) -> Problems | None:
        """The boxes rounded to the nearest values of the network's type; None where those are the boxes already."""
        if self.rounding is Rounding.NEAREST:
            return None
        other = Problems(self._query, self._network, self._budget, self._device, Rounding.NEAREST)
        mine, its = self.spec.targets, other.spec.targets
        same = np.array_equal(mine.lower, its.lower) and np.array_equal(mine.upper, its.upper)
        return None if same else other

    def _hull(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The least box `[n]` around the boxes of all targets."""
        ends = [side(axis=0, keepdims=True) for side in (self.spec.targets.lower.min, self.spec.targets.upper.max)]
        a, b = (self.spec.domain.embed(end)[0] for end in ends)
        return np.minimum(a, b), np.maximum(a, b)  # a tied input may fall where its source rises


class Judge:
    """What the search asks about a candidate: whether it ends the search. Keeps the best witness and the nearest miss.

    A `patient` judge does not settle for a witness of class `correct`: it holds it while the search goes on for as many
    evaluations again as it took so far.
    """

    def __init__(self, door: Door, budget: Budget, patient: bool, held: Callable[[Witness], None]) -> None:
        self._door, self._budget, self._patient, self._held = door, budget, patient, held
        self.witness: Witness | None = None
        self.miss: Rejection | None = None

    def __call__(self, point: NDArray[Any]) -> bool:
        verdict = self._door.confirm(point)
        if isinstance(verdict, Rejection):
            if self.miss is None or verdict.shortfall < self.miss.shortfall:
                self.miss = verdict
            return False
        if verdict.class_ is WitnessClass.EXACT or not self._patient:
            self.witness = verdict
            return True
        if self.witness is None:
            self.witness = verdict
            self._held(verdict)
            allowance = 2 * self._budget.evaluations + HELD_EVALUATIONS
            cap = self._budget.max_evaluations
            self._budget.max_evaluations = allowance if cap is None else min(cap, allowance)
        return False


def _demand(device: str) -> None:
    """Raise InputError for a device that cannot be had, before an easy instance is answered without it."""
    try:
        from falsifier.network.torch_device import resolve_device

        resolve_device(device)
    except ImportError as error:
        raise InputError(f"device {device!r} needs torch, which comes with the extra [torch]: {error}") from None


def _read(query: Any) -> Query:
    """A query from a path or from text: what holds a bracket is text."""
    text = isinstance(query, bytes) or (isinstance(query, str) and "(" in query and not os.path.exists(query))
    return parse(query) if text else read(query)


def _pairs(networks: Models) -> list[tuple[str | None, Any]]:
    """Models with their names, None for one that stands alone."""
    if isinstance(networks, Mapping):
        return list(networks.items())
    if isinstance(networks, Sequence) and not isinstance(networks, str | bytes):
        return [(name, model) for name, model in networks]
    return [(None, networks)]


def _load(model: Any, declaration: NetworkDeclaration, query: Query) -> Network:
    """The network of a declaration, with the shapes that a 2.0 query declares."""
    shapes = [variable.shape for variable in declaration.inputs]
    if hasattr(model, "state_dict"):
        from falsifier.network.from_torch import exported

        model = exported(model, shapes)
    network = load(model)
    return network if query.version[0] == 1 else network.shaped(shapes)


def _sat(draft: Result, witness: Witness) -> Result:
    return replace(
        draft,
        verdict=Verdict.SAT,
        reason=StopReason.CONFIRMED,
        reason_text=witness.reason,
        witness=witness,
        class_=witness.class_.value,
    )


def _only_point(draft: Result, judge: Judge) -> Result:
    """The result where every input is fixed, after the only point was judged."""
    draft = replace(draft, evaluations=1, stage="point", engine="single-sample")
    if judge.witness:
        return _sat(draft, judge.witness)
    reason, miss = StopReason.SINGLE_POINT, judge.miss
    open_ = miss is None or miss.published or not np.isfinite(miss.shortfall)
    text = f"{reason.value}: {miss.reason}" if miss else reason.value
    return replace(draft, verdict=Verdict.UNKNOWN if open_ else Verdict.UNSAT, reason=reason, reason_text=text)


def _conclude(draft: Result, found: SearchResult, problems: Problems, judge: Judge) -> Result:
    """The result after a search that ended."""
    draft = replace(
        draft,
        stage=found.stage if judge.witness else None,
        engine=problems.engine.name if problems.engine else "single-sample",
        margins=_per_disjunct(problems.spec, found.margin),
        evaluations=found.evaluations,
        rounds=found.rounds,
        rejections=found.rejections,
        stages={name: asdict(record) for name, record in found.stages.items()},
    )
    if judge.witness:
        return _sat(draft, judge.witness)
    verdict = Verdict.TIMEOUT if found.reason is StopReason.DEADLINE else Verdict.UNKNOWN
    text = found.reason.value + (f"; nearest candidate: {judge.miss.reason}" if judge.miss else "")
    return replace(draft, verdict=verdict, reason=found.reason, reason_text=text)


def _per_disjunct(spec: Spec, margin: NDArray[np.float64]) -> list[float | None]:
    """Best margin of each disjunct of the query from the margins `[t]` of its targets; None: nothing was evaluated."""
    disjunct = np.asarray(spec.targets.disjunct)
    best = np.full(int(disjunct.max(initial=-1)) + 1, -np.inf)
    np.maximum.at(best, disjunct, margin)
    return [value if np.isfinite(value) else None for value in best.tolist()]


@contextmanager
def _timed(seconds: dict[str, float], phase: str) -> Iterator[None]:
    """Note how long a phase took, also where it fails."""
    start = time.monotonic()
    try:
        yield
    finally:
        seconds[phase] = time.monotonic() - start
