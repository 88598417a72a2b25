"""auto_LiRPA: linear bounds of the network on the same clock as the search, which goes on beside it.

    [quick_proof]
    adapter = "auto_lirpa"
    share = 0.05        # of the time limit: what the search has alone

Boxes of the open targets are bounded in one batch (IBP, then CROWN, then optimised CROWN where the time allows) and
split while time is left; rounds of bounding and of search take turns. Runs in this process, on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from falsifier.falsify import Prepared
from falsifier.handoff.adapter import Availability, Outcome
from falsifier.handoff.handoff import Handoff
from falsifier.problems import Problems
from falsifier.search.portfolio import stages_of
from falsifier.search.stage import Stage
from falsifier.search.stages.given import Given
from falsifier.verdict import StopReason, Verdict
from falsifier_adapters.lirpa_library import REMEDY, library, place
from falsifier_adapters.lirpa_stage import Bounding
from falsifier_adapters.settings import Table

_BEFORE = "hopping"  # the stage before which bounding has its turn
_METHOD = "linear bounds with input splitting"


class AutoLirpa:
    """Bounding and search in turns until the deadline."""

    name = "auto_lirpa"

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Raises InputError for settings other than those above."""
        table = Table(self.name, settings)
        self.share = table.share(0.05)
        table.close()

    def availability(self) -> Availability:
        """Whether the library and torch are installed."""
        from importlib.util import find_spec

        if find_spec("torch") is None:
            return Availability(
                False, remedy="pip install 'vnn-falsifier[torch]'" + (f", then {REMEDY}" if place() is None else "")
            )
        found = place()
        if found is None:
            return Availability(False, remedy=REMEDY)
        return Availability(True, _version(found))

    def take(self, handoff: Handoff, deadline: float) -> Outcome:
        """`unsat` only where every target is refuted by more than what is allowed for rounding."""
        loaded = library()
        engine = f"auto_LiRPA {loaded.version}, {_METHOD}"
        prepared = handoff.prepared
        if prepared is None:
            pairs = [(network.name, network.path) for network in handoff.instance.networks]
            query = handoff.instance.query
            prepared = Prepared(pairs, query, device=handoff.device, require=handoff.require)
        problems = prepared.problems
        if problems.spec.empty:
            return Outcome(Verdict.UNSAT, f"{problems.spec.reason}", engine, "exact decimals")
        bounding = Bounding(problems, loaded, rng_seed=handoff.rng_seed)
        result = prepared.search(deadline, rng_seed=handoff.rng_seed + 1, stages=_stages(bounding, problems, handoff))
        details = bounding.report()
        if result.witness is not None:
            reason = f"found by the search beside it (stage {result.stage})"
            return Outcome(Verdict.SAT, reason, engine, inputs=result.witness.inputs, details=details)
        if bounding.proved:
            allowance, gap = details["allowance"], details["gap"]
            arithmetic = (
                f"floating point: float64 bounds at least {gap:.3g} beyond, allowance for rounding {allowance:.3g}"
            )
            reason = f"all {details['boxes']} boxes of {len(problems.targets.disjunct)} targets are refuted or split"
            return Outcome(Verdict.UNSAT, reason, engine, arithmetic, details=details)
        if bounding.fault:
            return Outcome(Verdict.UNKNOWN, bounding.fault, engine, details=details)
        reason = f"{details.get('open', 'all')} boxes are left of {details['boxes']}"
        verdict = Verdict.TIMEOUT if result.reason is StopReason.DEADLINE else Verdict.UNKNOWN
        return Outcome(verdict, reason, engine, details=details)


def _stages(bounding: Bounding, problems: Problems, handoff: Handoff) -> Iterator[Stage]:
    """What takes turns: near-misses, and the stages of the standard portfolio with bounding among them.

    Its first turn imports torch, which takes seconds on a busy machine: after the stages that find the easy ones.
    """
    place_of = {int(disjunct): target for target, disjunct in enumerate(problems.targets.disjunct)}
    near = [miss for miss in handoff.near if miss.disjunct in place_of and miss.point.shape == (problems.spec.n,)]
    if near:
        points = problems.domain.restrict(np.stack([miss.point for miss in near]))
        yield Given(points, np.array([place_of[miss.disjunct] for miss in near]))
    for stage in stages_of("standard"):
        if stage.name == _BEFORE:
            yield bounding
        if stage.name != "probe":
            yield stage


def _version(module: str) -> str:
    """The version of what an import would bring, without importing it."""
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec

    try:
        return (
            f"auto_LiRPA {version('auto_LiRPA')}" if module == "auto_LiRPA" else f"in neuralsat {version('neuralsat')}"
        )
    except PackageNotFoundError:
        spec = find_spec(module)
        return f"from {spec.origin}" if spec is not None and spec.origin else ""
