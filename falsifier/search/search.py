"""The search itself: turns of the stages, each longer than the last, until a witness or the end of the budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Rng
from falsifier.budget import Budget
from falsifier.search.groups import Confirm, Groups
from falsifier.search.portfolio import stages_of
from falsifier.search.result import SearchResult
from falsifier.search.run import Run
from falsifier.search.source import ProblemSource
from falsifier.search.stage import Stage
from falsifier.verdict import StopReason

if TYPE_CHECKING:
    from falsifier.search.company import Company

_FLOOR = 1 / 8  # of its full turn that a stage keeps however long it has not gained
_LONGEST_PASS = 0.6  # of the time left that one pass may plan to take
_LONGEST_TURN = 0.25  # of the time left that one turn of the first pass may take
_TOGETHER = 16  # open groups that a turn serves in the time that it has for one
_GAINED = 0.1  # of the open groups that must gain in a turn that is not idle


def search(
    problems: ProblemSource,
    budget: Budget,
    rng: Rng,
    confirm: Confirm | Groups,
    portfolio: str | Iterable[Stage] = "standard",
    invite: Callable[[Run], Company] | None = None,
) -> SearchResult:
    """Search the targets of `problems` for a point that `confirm` accepts.

    `confirm` gets full inputs `[n]` on the host. With `Groups` in its place each of those has a door of its own: a
    point closes its group alone, and the search goes on until all are closed. With `budget.max_evaluations` set and a
    deadline that does not bind, the result depends on the rng's seed, the cap and the device alone. `portfolio`: a name
    or the stages themselves. `invite` makes the search's company, once the first pass has left it open.

    Raises InputError for an unknown name.
    """
    return search_run(Run.start(problems, budget, rng, confirm), portfolio, invite)


def search_run(
    run: Run, portfolio: str | Iterable[Stage] = "standard", invite: Callable[[Run], Company] | None = None
) -> SearchResult:
    """`search` on a run that was started, for callers that look at it meanwhile."""
    with np.errstate(all="ignore"):  # boxes may be wider than the largest number; what is not finite never wins
        return _search(run, portfolio, invite)


def _search(run: Run, portfolio: str | Iterable[Stage], invite: Callable[[Run], Company] | None = None) -> SearchResult:
    budget = run.budget
    if run.problems.single.f == 0:
        return _only_point(run)
    stages = _first_pass(run, stages_of(portfolio) if isinstance(portfolio, str) else portfolio)
    run.accelerate()
    if invite is not None and not run.over():
        run.company = invite(run)
    worked = True
    while worked and not run.over():
        run.passes += 1
        before = budget.evaluations
        fitted = _fitted(run, stages)
        for stage in stages:
            if not run.over():
                _turn(run, stage, fitted * _planned(run, stage))
        worked = budget.evaluations > before
    if run.starved and not run.finds and not run.over():  # nothing is left that memory is enough for
        raise next(iter(run.starved.values()))
    return _result(run, StopReason.EXHAUSTED)


def _first_pass(run: Run, stages: Iterable[Stage]) -> list[Stage]:
    """A turn of each stage, the next one made only when it is reached; the stages for further passes."""
    made = []
    for stage in stages:
        made.append(stage)
        most = math.inf if run.pace.nominal else _LONGEST_TURN * run.budget.remaining()
        _turn(run, stage, min(stage.slice * _stretch(run), most))
        if run.over():
            break
    return made


def _planned(run: Run, stage: Stage) -> float:
    """Seconds of a stage's turn in this pass, were there time without end; 0 for one that had nothing to do.

    Stages whose turns raise nothing give way to those that gain, down to a floor.
    """
    record = run.records[stage.name]
    if not record.applies:
        return 0.0
    return stage.slice * stage.growth**run.passes * max(_FLOOR, 0.5**record.idle) * _stretch(run)


def _stretch(run: Run) -> float:
    """The factor by which turns are longer where many groups share them; not in proportion: a batch is cheaper."""
    return max(1.0, run.width / _TOGETHER)


def _fitted(run: Run, stages: list[Stage]) -> float:
    """The factor at most 1 by which the turns of a pass are cut so that the time left sees it and another."""
    if run.pace.nominal:
        return 1.0
    planned = sum(_planned(run, stage) for stage in stages)
    return min(1.0, max(_LONGEST_PASS * run.budget.remaining(), 0.05) / max(planned, 1e-9))


def _turn(run: Run, stage: Stage, seconds: float) -> None:
    """One turn of a stage, recorded."""
    run.stage = stage.name
    record, started, evaluations = run.record, run.budget.clock(), run.budget.evaluations
    # Asked only now: the question may build the batched engine, which an easy instance never needs.
    record.applies = stage.name not in run.starved
    try:
        record.applies = record.applies and stage.applies(run)
        if record.applies and not run.over():
            run.until = run.pace.now() + seconds
            before, run.gained, run.deferred = _standing(run), False, False
            record.calls += 1
            stage.turn(run)
            if run.gained or _gained(run, before):
                record.idle = 0
            elif not run.deferred:  # its turns grow, up to what it needs
                record.idle += 1
    except MemoryError as error:  # of a single lane: what others do may take less
        record.applies, run.starved[stage.name] = False, error
    record.evaluations += run.budget.evaluations - evaluations
    record.seconds += run.budget.clock() - started


def _standing(run: Run) -> NDArray[np.float64]:
    """The best margin of every group `[g]`, +infinity where it is closed."""
    groups = run.groups
    if groups.count == 1:
        return np.array([run.best()])
    return np.where(groups.open, np.maximum.reduceat(run.ledger.margin, groups.first[:-1]), np.inf)


def _gained(run: Run, before: NDArray[np.float64]) -> bool:
    """Whether a turn raised the standing of enough of the groups that were open."""
    risen = int(np.sum(_standing(run) > before))
    return risen > 0 and risen >= _GAINED * int(np.sum(np.isfinite(before) | (before < 0)))


def _only_point(run: Run) -> SearchResult:
    """Every input is fixed: one evaluation decides."""
    problem = run.problems.single
    run.stage = "point"
    if run.over():
        return _result(run, StopReason.SINGLE_POINT)
    run.screen(problem, np.zeros((1, 0), dtype=problem.dtype))
    return _result(run, StopReason.SINGLE_POINT, decided=True)


def _result(run: Run, reason: StopReason, *, decided: bool = False) -> SearchResult:
    """The result; `reason` counts where neither a witness nor the end of the budget is the reason."""
    found = run.finds[0] if run.finds else None
    if run.finds and run.width == 0:
        reason = StopReason.CONFIRMED
    elif run.settled:
        reason = StopReason.SETTLED
    elif run.over() and not decided:
        reason = StopReason.DEADLINE if run.budget.remaining() <= 0 else StopReason.EVALUATIONS
    run.ledger.open[:] = True  # the points of closed groups are worth as much as others
    run.ledger.open[[find.target for find in run.finds]] = False
    kept = [int(aim) for aim in run.ledger.ranked()[:1000]]
    points = {aim: point for aim in kept if (point := run.ledger.point(aim)) is not None}
    return SearchResult(
        found=found is not None,
        reason=reason,
        stage=None if found is None else found.stage,
        target=None if found is None else found.target,
        point=None if found is None else found.point,
        margin=run.ledger.margin,
        points=points,
        evaluations=run.budget.evaluations,
        rounds=run.rounds,
        rejections=run.candidates.rejections,
        stages=run.records,
    )
