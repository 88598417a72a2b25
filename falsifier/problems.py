"""The problems of an instance: its targets on the reference, and on an engine once a search asks for one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arguments import Limits
from falsifier.budget import Budget
from falsifier.network import Network
from falsifier.network.single import SingleSampleEngine
from falsifier.problem import Problem
from falsifier.query.tree import Query
from falsifier.spec import Domain, Rounding, Spec, Targets, compile_query
from falsifier.spec.ordinal import compares_outputs

if TYPE_CHECKING:
    from falsifier.network.engine import Engine
    from falsifier.network.joint import JointNetwork
    from falsifier.network.lowering import Lowered


class Problems:
    """The `ProblemSource` of a network, or of several as one: the targets on the reference, and on an engine once it is
    asked for.
    """

    def __init__(
        self,
        make: Callable[[Rounding], Spec],
        network: Network | JointNetwork,
        budget: Budget,
        device: str,
        inner: Problems | None = None,
    ) -> None:
        """`make`: the targets in boxes rounded as asked. `inner`: the same in boxes rounded inwards. These are rounded
        to the nearest then, on the same engine.
        """
        self._make, self._network, self._budget, self._device, self._inner = make, network, budget, device, inner
        self.spec = make(Rounding.NEAREST if inner else Rounding.INWARD)
        self._problems: dict[tuple[str, str], Problem] = {}  # by name and device of their engine
        self._chosen: Engine | None = None
        self._accelerated = False
        self.engine_name = "single-sample"  # of the engine that was used last

    @property
    def targets(self) -> Targets:
        assert self.spec.targets is not None, "the spec is empty"
        return self.spec.targets

    @property
    def domain(self) -> Domain:
        assert self.spec.domain is not None, "the spec is empty"
        return self.spec.domain

    @property
    def separate(self) -> bool:
        """Whether the only point stands for no other: integers this large are not all values of the search's type."""
        point = self.domain.embed(np.zeros((1, 0), self.spec.dtype))[0]
        kinds = np.concatenate([np.full(i.size, i.dtype.kind) for i in self._network.reference.inputs])
        return bool(np.all((kinds == "f") | (np.abs(point) < 2 / np.finfo(point.dtype).eps)))

    @property
    def entered(self) -> bool:
        """Whether a point was looked at that meets all that the query asks of inputs alone."""
        made = [*self._problems.values(), *([self.single] if "single" in self.__dict__ else [])]
        return any(problem.entered for problem in made)

    @property
    def lowered(self) -> Lowered:
        """The network as a program. Raises UnsupportedError where it has none."""
        return self._network.lowered

    @cached_property
    def single(self) -> Problem:
        return Problem(self.spec, SingleSampleEngine(self._network.reference), self._budget)

    @property
    def batched(self) -> Problem:
        return self._on(self._engine)

    def accelerate(self) -> bool:
        """Only for the device `auto`: whether the engine is one on an accelerator now and was not before."""
        if self._inner:
            return self._inner.accelerate()
        if self._device != "auto" or self._accelerated:
            return False
        self._accelerated = True  # or tried in vain: once is enough
        from falsifier.network.selection import accelerated

        engine = accelerated(self._network, self.hull())
        if engine is None:
            return False
        with suppress(MemoryError, RuntimeError):
            self._on(engine)
            self._chosen = engine
        return self._chosen is engine

    def warm(self) -> None:
        """Make engines and the problems on them (`Prepared.warm`)."""
        from falsifier.network.rehearsal import rehearse

        engines = [self._network.engine(self._device)]
        if self._device == "auto":
            from falsifier.network.selection import accelerated

            fast = accelerated(self._network, None, check=False)  # the search checks it
            engines += [fast] if fast else []
        for problems in filter(None, (self, self.nearest)):
            rehearse(problems.single.engine)
            for engine in engines:
                rehearse(problems._on(engine).engine)

    @cached_property
    def nearest(self) -> Problems | None:
        """The boxes rounded to the nearest values of the network's type, and points that may follow others inexactly;
        None where neither makes a difference.
        """
        if self._inner:
            return None
        other = type(self)(self._make, self._network, self._budget, self._device, self)
        if other.spec.empty or not np.array_equal(other.targets.disjunct, self.targets.disjunct):
            return None
        mine, its = self.targets, other.targets
        same = np.array_equal(mine.lower, its.lower) and np.array_equal(mine.upper, its.upper)
        same &= self.domain.lattice is None
        return None if same else other

    @property
    def _engine(self) -> Engine:
        if self._inner:
            engine = self._inner._engine
        else:
            engine = self._chosen = self._chosen or self._network.engine(self._device, self.hull())
        self.engine_name = engine.name
        return engine

    def _on(self, engine: Engine) -> Problem:
        """The problem on an engine, on its logits or on the scores behind its decisions where those decide as well."""
        key = (engine.name, engine.device)
        if key not in self._problems:
            spec, seen = self.spec, engine
            if engine.name != "single-sample":
                spec, seen = behind_decisions(spec, engine, self._network.lowered)
            if seen is engine and self._inner:
                seen = self._inner._on(engine).engine
            elif seen is engine and engine.name != "single-sample" and compares_outputs(spec):
                from falsifier.network.peeling import on_logits

                seen = on_logits(engine, self._network.lowered)
            self._problems[key] = Problem(spec, seen, self._budget, partial(self._sound, seen))
        return self._problems[key]

    def _sound(self, engine: Engine) -> bool:
        """Whether nothing speaks against the gradients of an engine of the network."""
        from falsifier.network.slope_check import speaks_against

        return not speaks_against(engine, self._network.lowered, *self.hull())

    def hull(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The least box `[n]` around the boxes of all targets."""
        ends = [side(axis=0, keepdims=True) for side in (self.targets.lower.min, self.targets.upper.max)]
        a, b = (self.domain.embed(end)[0] for end in ends)
        return np.minimum(a, b), np.maximum(a, b)  # a tied input may fall where its source rises


def behind_decisions(spec: Spec, engine: Engine, lowered: Lowered) -> tuple[Spec, Engine]:
    """A spec whose atoms ask of the scores behind an output what they asked of the output, and the engine that has
    them; both as they are where outputs decide nothing.
    """
    from falsifier.network.peeling import engine_like, may_decide

    if not spec.m or not may_decide(lowered):
        return spec, engine
    from falsifier.network.decisions import Decisions
    from falsifier.spec.decided import asked_about, asked_of, with_outputs

    decisions = Decisions(lowered, asked_about(spec))
    asked = asked_of(spec, decisions.outputs)
    further, places, strict = decisions.with_gaps(asked.questions)
    made = engine_like(engine, further) if strict else None
    if made is None:
        return spec, engine
    return with_outputs(spec, asked, places, strict), made


def compiled(query: Query, network: Network | JointNetwork, limits: Limits | None, rounding: Rounding) -> Spec:
    """The targets of a query. `limits`: budgets of the inputs."""
    types = [tensor.dtype for tensor in network.reference.inputs]
    spec = compile_query(query, network.reference.dtype, rounding, types=types)
    if limits is None:
        return spec
    from falsifier.spec.budgets import shrunk

    return shrunk(spec, limits.radius, limits.origin)
