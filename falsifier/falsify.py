"""An instance in, a result out: the whole pipeline on one page.

Two evaluators look at every point: the search proposes by compiled targets on an engine, the door decides by the syntax
tree on the original network. What the door refuses goes back to the search.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arguments import (
    as_budgets,
    as_networks,
    as_pairs,
    as_query,
    demand_count,
    demand_device,
    demand_seconds,
    demand_workers,
)
from falsifier.arrays import Rng
from falsifier.budget import Budget
from falsifier.errors import EngineError, InputError, UnsupportedError
from falsifier.network import joined
from falsifier.problems import Problems, compiled
from falsifier.result import Result
from falsifier.search import search
from falsifier.search.portfolio import stages_of
from falsifier.verdict import StopReason, Verdict
from falsifier.witness.binding import assign
from falsifier.witness.confirm import Door
from falsifier.witness.judge import Judge
from falsifier.witness.outcome import Witness, WitnessClass

if TYPE_CHECKING:
    from falsifier.companions.company import Company
    from falsifier.query.tree import Query
    from falsifier.refinement import Refinement
    from falsifier.search import SearchResult
    from falsifier.search.run import Run
    from falsifier.search.stage import Stage

Report = Callable[[Result], None]

_NEAR = 64  # near-misses that a result holds
_NEAR_VALUES = 1 << 20  # numbers that they may hold together


def falsify(
    networks: Any,
    query: Any,
    *,
    timeout: float = 60.0,
    device: str = "auto",
    rng_seed: int = 0,
    max_evaluations: int | None = None,
    require: str = "correct",
    portfolio: str = "standard",
    budgets: Any = None,
    refinement: Refinement | None = None,
    report: Report | None = None,
    workers: int | str = 1,
) -> Result:
    """Search for inputs that satisfy a query.

    networks: one model, or one per declared network as a mapping or as (name, model) pairs; a model is a path (plain or
    gzip), bytes, an `onnx.ModelProto` or a `torch.nn.Module`. query: a path, the text of a VNN-LIB file, or a `Query`.
    timeout in seconds from this call. With `max_evaluations` and a timeout that does not bind, the result depends on
    nothing but the arguments. require: `exact` refuses witnesses that hold under the published rule alone.
    portfolio: `standard`, `restarts`, `fuzzing`, `paper`, the last two perhaps with settings
    (`docs/batch-fuzzing.md`), or `module:function` of your own. budgets: how far each input may move
    from the centre of its box, `[n]` or the path of a numpy file. refinement: what is wanted beyond a first witness.
    report: called with a preliminary result once there is one worth keeping should the run be cut short, and with
    each one that a refinement adds or betters. workers: processes that search what the first pass leaves open, this one
    included, or `auto`: one for each free core. Those beside this one read the files again: where the instance is not
    given as files there are none. Which of them finds a witness is a matter of chance.

    Raises InputError for files, numbers and a device that cannot be used. What is not supported gives `unknown`, with a
    reason.
    """
    demand_seconds(timeout)
    _demand_numbers(rng_seed, max_evaluations)  # before anything is loaded
    deadline = time.monotonic() + timeout
    prepared = Prepared(networks, query, device=device, require=require, portfolio=portfolio, budgets=budgets)
    return prepared.search(
        deadline,
        rng_seed=rng_seed,
        max_evaluations=max_evaluations,
        refinement=refinement,
        report=report,
        workers=workers,
    )


class Prepared:
    """An instance that was read, loaded and compiled, to be searched. No point of its boxes has been evaluated."""

    def __init__(
        self,
        networks: Any,
        query: Any,
        *,
        device: str = "auto",
        require: str = "correct",
        portfolio: str = "standard",
        budgets: Any = None,
    ) -> None:
        """The arguments of `falsify`. Raises InputError as it does; what else is in the way is told by `search`."""
        self._portfolio, self._stages = portfolio, stages_of(portfolio)
        if require not in ("correct", "exact"):
            raise InputError(f"require {require!r}: choose correct or exact")
        demand_device(device)
        self._given = (networks, query, require, portfolio, budgets)
        self._company: Company | None = None
        limits = as_budgets(budgets)
        self.whole = limits is None
        """Whether all of the query is searched: budgets leave a part of it."""
        self._budget = Budget()
        self._seconds: dict[str, float] = {}
        self._draft = Result(Verdict.UNKNOWN, None, "", seconds=self._seconds)
        self._obstacle: UnsupportedError | EngineError | MemoryError | None = None
        try:
            with _timed(self._seconds, "read"):
                tree = as_query(query)
                self._draft = replace(self._draft, query=tree)
                models = assign(tree, as_pairs(networks))
            with _timed(self._seconds, "load"):
                loaded = as_networks(models, tree)
                self._door = Door(tree, [network.reference for network in loaded], WitnessClass(require))
            with _timed(self._seconds, "compile"):
                network = joined(loaded)
                make = partial(compiled, self._door.query, network, limits)
                self._problems = Problems(make, network, self._budget, device)
        except (UnsupportedError, EngineError, MemoryError) as error:
            self._obstacle = error

    @property
    def door(self) -> Door | None:
        """The door of the instance; None where something was in the way before it was made."""
        return getattr(self, "_door", None)

    @property
    def stages(self) -> Iterator[Stage]:
        """Those of the portfolio, to be used up once."""
        return self._stages

    @property
    def budget(self) -> Budget:
        """What the problems charge with their evaluations."""
        return self._budget

    @property
    def problems(self) -> Problems:
        """Targets and network. Raises UnsupportedError, EngineError or MemoryError: what was in the way of them."""
        if self._obstacle is not None:
            raise self._obstacle
        return self._problems

    def warm(self) -> None:
        """Make what a search may come to need, so that it finds it ready.

        That is conversion: networks are run on points of the unit box alone, whatever the query says, and engines are
        checked in the query's box only once the search asks for one. The search does what it would have done without.
        """
        if self._obstacle is None and not self._problems.spec.empty:
            self._problems.warm()

    def search(
        self,
        deadline: float,
        *,
        rng_seed: int = 0,
        max_evaluations: int | None = None,
        report: Report | None = None,
        stages: Iterable[Stage] | None = None,
        refinement: Refinement | None = None,
        witness: Witness | None = None,
        workers: int | str = 1,
    ) -> Result:
        """The result, with the other arguments of `falsify`. `deadline` is a reading of `time.monotonic`.

        stages: instead of those of the portfolio. Another search of the same instance needs its own; engines and counts
        of evaluations go on from the one before. witness: one that the door has confirmed, which takes the place of the
        search.

        Raises InputError for numbers that are none.
        """
        if math.isnan(deadline):
            raise InputError("deadline nan: give a reading of time.monotonic, or infinity for none")
        _demand_numbers(rng_seed, max_evaluations)
        demand_workers(workers)
        self._company = None
        if refinement and self._obstacle is None:
            refinement.demand(self._problems.spec.n)
        try:
            result = self._search(deadline, rng_seed, max_evaluations, report, stages, witness, workers)
        finally:
            if self._company is not None:
                self._company.close()
        if not refinement or result.witness is None or self._obstacle is not None:
            return result
        if report:  # before anything is made of it
            report(result)
        with _timed(self._seconds, "refine"):
            return self._refined(result, refinement, deadline, max_evaluations, report)

    def _refined(
        self,
        result: Result,
        wish: Refinement,
        deadline: float,
        max_evaluations: int | None,
        report: Report | None,
    ) -> Result:
        """The result with what a refinement finds. Raises InputError for one that does not fit the inputs."""
        from falsifier.refinement import Refined, Refining

        assert result.witness is not None
        self._budget.deadline, self._budget.max_evaluations = deadline, max_evaluations
        made = [result]

        def tell(found: Refined) -> None:
            best = found.witnesses[found.best]
            made[0] = replace(
                _sat(result, best.witness), witnesses=tuple(found.witnesses), evaluations=self._budget.evaluations
            )
            if report:
                report(made[0])

        try:
            rng, again = Rng(result.rng_seed), partial(stages_of, self._portfolio)
            found = Refining(wish, self._problems, self._door, self._budget, rng, result.witness, tell, again).run()
        except (UnsupportedError, EngineError, MemoryError):
            return made[0]
        stages = {**result.stages, **found.stages}
        return replace(made[0], stages=stages, evaluations=self._budget.evaluations)

    def _search(
        self,
        deadline: float,
        rng_seed: int,
        max_evaluations: int | None,
        report: Report | None,
        stages: Iterable[Stage] | None,
        witness: Witness | None,
        workers: int | str,
    ) -> Result:
        """The result of the search for a first witness."""
        draft = replace(self._draft, rng_seed=int(rng_seed))
        budget = self._budget
        budget.deadline, budget.max_evaluations = deadline, max_evaluations
        kept: list[Result] = []  # what there is should the search be cut short
        try:
            if self._obstacle is not None:
                raise self._obstacle
            problems = self._problems
            if problems.spec.empty:
                reason = problems.spec.reason
                return replace(draft, verdict=Verdict.UNSAT, reason=StopReason.EMPTY_INPUT_SET, reason_text=reason)
            patient = bool(np.any(problems.targets.exact))  # whether an exact witness is possible at all

            def keep(witness: Witness) -> None:
                kept.append(_sat(draft, witness))
                if report:
                    report(kept[-1])

            if witness is not None:
                return _sat(draft, witness)

            judge = Judge(self._door, budget, patient, keep)
            with _timed(self._seconds, "search"):
                source = problems
                if problems.domain.f == 0:  # one point is left: the door decides
                    done = judge(problems.domain.embed(np.zeros((1, 0), problems.spec.dtype))[0])
                    if done or problems.nearest is None:
                        return _only_point(draft, judge, problems.separate, self._door.query)
                    source = problems.nearest
                portfolio = self._stages if stages is None else stages
                invite = None if workers == 1 else partial(self._invite, workers, rng_seed)
                found = search(source, budget, Rng(rng_seed), judge, portfolio, invite)
        except UnsupportedError as error:
            return replace(draft, reason=StopReason.UNSUPPORTED, reason_text=str(error))
        except (EngineError, MemoryError) as error:
            failed = replace(draft, reason=StopReason.FAILED, reason_text=f"{StopReason.FAILED.value}: {error}")
            return kept[-1] if kept else failed
        if self._company is not None:
            draft = replace(draft, companions=self._company.account())
        return _conclude(draft, found, source, judge)

    def _invite(self, workers: int | str, rng_seed: int, run: Run) -> Company:
        """The company of a search, made once the first pass is over."""
        from falsifier.companions.invite import Asked, company

        reading = sum(self._seconds.get(phase, 0.0) for phase in ("read", "load", "compile"))
        self._company = company(run, workers, Asked(*self._given, reading), rng_seed)
        return self._company

    def end_companions(self) -> None:
        """End the processes that search beside this one, at once: for a process that is about to end itself."""
        if self._company is not None:
            self._company.end()


def _demand_numbers(rng_seed: Any, max_evaluations: Any) -> None:
    """Raise InputError for what are no such numbers."""
    demand_count("rng_seed", rng_seed, 0)
    if max_evaluations is not None:
        demand_count("max_evaluations", max_evaluations)


def _sat(draft: Result, witness: Witness) -> Result:
    return replace(
        draft,
        verdict=Verdict.SAT,
        reason=StopReason.CONFIRMED,
        reason_text=witness.reason,
        witness=witness,
        class_=witness.class_.value,
    )


def _only_point(draft: Result, judge: Judge, separate: bool, query: Query) -> Result:
    """The result where every input is fixed, after the only point was judged. `separate`: `Problems.separate`."""
    draft = replace(draft, evaluations=1, engine="single-sample")
    if judge.witness:
        return _sat(replace(draft, stage="point"), judge.witness)
    from falsifier.spec.room import computes_inputs

    reason, miss = StopReason.SINGLE_POINT, judge.miss
    open_ = not separate or miss is None or miss.published or not np.isfinite(miss.shortfall)
    open_ = open_ or computes_inputs(query)  # readers that round may fix other points
    text = f"{reason.value}: {miss.reason}" if miss else reason.value
    return replace(draft, verdict=Verdict.UNKNOWN if open_ else Verdict.UNSAT, reason=reason, reason_text=text)


def _conclude(draft: Result, found: SearchResult, problems: Problems, judge: Judge) -> Result:
    """The result after a search that ended."""
    draft = replace(
        draft,
        stage=found.stage if judge.witness else None,
        engine=problems.engine_name,
        margins=_per_disjunct(problems, found.margin),
        open=tuple(np.asarray(problems.targets.disjunct).tolist()),
        near=_near(problems, found),
        evaluations=found.evaluations,
        rounds=found.rounds,
        rejections=found.rejections,
        stages={name: asdict(record) for name, record in found.stages.items()},
    )
    if judge.witness:
        return _sat(draft, judge.witness)
    verdict = Verdict.TIMEOUT if found.reason is StopReason.DEADLINE else Verdict.UNKNOWN
    text = found.reason.value + (f"; nearest candidate: {judge.miss.reason}" if judge.miss else "")
    text += "" if problems.entered else "; no point of the input region was found"
    text += f"; {problems.spec.assumed}" if problems.spec.assumed else ""
    return replace(draft, verdict=verdict, reason=found.reason, reason_text=text)


def _per_disjunct(problems: Problems, margin: NDArray[np.float64]) -> list[float | None]:
    """Best margin of each disjunct of the query from the margins `[t]` of its targets; None: nothing was evaluated."""
    best = np.full(problems.spec.disjuncts, -np.inf)
    np.maximum.at(best, np.asarray(problems.targets.disjunct), margin)
    return [value if np.isfinite(value) else None for value in best.tolist()]


def _near(problems: Problems, found: SearchResult) -> tuple[tuple[int, NDArray[Any]], ...]:
    """The disjuncts nearest to satisfaction and their best points `[n]`, the nearest first, as many as is sensible."""
    disjunct = np.asarray(problems.targets.disjunct)
    known = sorted(found.points, key=lambda aim: -found.margin[aim])[: min(_NEAR, _NEAR_VALUES // problems.spec.n + 1)]
    return tuple((int(disjunct[aim]), problems.domain.embed(found.points[aim][None])[0]) for aim in known)


@contextmanager
def _timed(seconds: dict[str, float], phase: str) -> Iterator[None]:
    """Note how long a phase took, also where it fails."""
    start = time.monotonic()
    try:
        yield
    finally:
        seconds[phase] = time.monotonic() - start
