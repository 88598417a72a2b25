"""What a run returns: the verdict, why it stopped, and what it took. Plain data that turns into JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from falsifier.verdict import StopReason, Verdict

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from falsifier.query.tree import Query
    from falsifier.witness.outcome import Appraised, Witness


@dataclass(frozen=True)
class Result:
    """The outcome of one instance.

    reason: why the run stopped, reason_text: the same with particulars, for the user. query: as parsed, which the text
    of a witness needs. class_: `exact` or `correct` on sat. stage: what found the witness. margins: best margin per
    disjunct in the query's order (None: never evaluated); >= 0 iff the disjunct was satisfied on an engine. open: the
    disjuncts that were searched and are not satisfied; near: for the nearest of them the best point `[n]`, flat over
    all inputs. seconds: per phase. stages: calls, evaluations, seconds and improvements of each stage. handoff: what
    the verifier said that the instance was handed to, None where it was handed to none. companions: what there was of
    processes that searched beside this one, None where none were asked for or the first pass decided. witnesses: with a
    refinement, all that were confirmed for it, the first one first; `witness` is the best of them.
    """

    verdict: Verdict
    reason: StopReason | None
    reason_text: str
    witness: Witness | None = None
    stage: str | None = None
    query: Query | None = None
    class_: str | None = None
    engine: str | None = None
    margins: Sequence[float | None] = ()
    open: Sequence[int] = ()
    near: Sequence[tuple[int, NDArray[Any]]] = ()
    evaluations: int = 0
    rounds: int = 0
    rejections: int = 0
    rng_seed: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    stages: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    handoff: Mapping[str, Any] | None = None
    companions: Mapping[str, Any] | None = None
    witnesses: Sequence[Appraised] = ()

    def to_json(self) -> dict[str, Any]:
        """The result as JSON types: no NaN, no infinity, the witness as lists of numbers."""
        return {
            "verdict": self.verdict.value,
            "reason": self.reason.name.lower() if self.reason else None,
            "reason_text": self.reason_text,
            "class": self.class_,
            "stage": self.stage,
            "engine": self.engine,
            "margins": [_finite(margin) for margin in self.margins],
            "evaluations": self.evaluations,
            "rounds": self.rounds,
            "rejections": self.rejections,
            "rng_seed": self.rng_seed,
            "seconds": {name: round(value, 6) for name, value in self.seconds.items()},
            "stages": {name: dict(record) for name, record in self.stages.items()},
            "handoff": None if self.handoff is None else dict(self.handoff),
            "companions": None if self.companions is None else dict(self.companions),
            "witnesses": [found.to_json() for found in self.witnesses],
            "witness": None
            if self.witness is None
            else {
                "inputs": [_numbers(values.tolist()) for values in self.witness.inputs],
                "hidden": [_numbers(values.tolist()) for values in self.witness.hidden],
                "outputs": [_numbers(values.tolist()) for values in self.witness.outputs],
            },
        }


def _finite(value: float | None) -> float | None:
    """JSON has no numeral for infinity."""
    return value if value is not None and math.isfinite(value) else None


def _numbers(values: list[Any]) -> list[Any]:
    """JSON has no numeral for NaN and infinity: they become their names."""
    return [value if not isinstance(value, float) or math.isfinite(value) else str(value) for value in values]
