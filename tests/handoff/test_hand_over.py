"""Handing over: what an adapter claims is checked, what it does wrong costs one line and nothing else."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from falsifier.errors import UnsupportedError
from falsifier.handoff.adapter import Availability, Outcome
from falsifier.handoff.hand_over import hand_over
from falsifier.handoff.handoff import Handoff
from falsifier.result import Result
from falsifier.testing.adapters import small_instance
from falsifier.verdict import StopReason, Verdict

ATTACK = Result(Verdict.TIMEOUT, StopReason.DEADLINE, "the time limit was reached; it came near")
ATTACK = replace(ATTACK, margins=(-0.5,), evaluations=7)
OTHER = Result(Verdict.UNKNOWN, StopReason.EXHAUSTED, "nothing was left to do")


@dataclass
class Fake:
    """An adapter that answers as it is told."""

    answer: Outcome | BaseException
    available: bool = True
    name: str = "fake"
    share: float = 0.5
    seen: list[Handoff] = field(default_factory=list)

    def availability(self) -> Availability:
        return Availability(self.available, "1.0", "" if self.available else "pip install fake")

    def take(self, handoff: Handoff, deadline: float) -> Outcome:
        self.seen.append(handoff)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def handed(folder: Path, adapter: Fake, result: Result = ATTACK, seconds: float = 60) -> tuple[Result, list[str]]:
    told: list[str] = []
    instance = small_instance(folder, "violated")
    return hand_over(result, instance, adapter, time.monotonic() + seconds, tell=told.append), told


def sat(inputs: Sequence[NDArray[Any]] | None) -> Outcome:
    return Outcome(Verdict.SAT, "found it", "fake 1.0", inputs=inputs)


def test_a_sat_passes_the_door(tmp_path: Path) -> None:
    result, told = handed(tmp_path, Fake(sat([np.array([1.75])])))
    assert (result.verdict, result.class_, result.stage) == (Verdict.SAT, "exact", "fake")
    assert result.witness is not None
    assert result.witness.inputs[0].tolist() == [1.75]
    assert result.margins == (-0.5,)
    assert not told


@pytest.mark.parametrize(
    ("inputs", "why"),
    [
        ([np.array([0.25])], "(>= Y_0 1.5) fails by 1.25"),
        ([np.array([5.0])], "(<= X_0 2.0) fails by 3"),
        ([np.array([np.nan])], "not finite"),
        ([np.array([1.0, 2.0, 3.0])], "it gives [3] values for inputs of [1]"),
        ([], "it gives [] values for inputs of [1]"),
        (None, "it gave no inputs"),
    ],
)
def test_a_wrong_sat_is_unknown_in_one_line(tmp_path: Path, inputs: Sequence[NDArray[Any]] | None, why: str) -> None:
    result, told = handed(tmp_path, Fake(sat(inputs)))
    assert result.verdict is Verdict.UNKNOWN
    assert result.witness is None
    (line,) = told
    assert line.startswith("fake: claims sat, which the replay refuses: ")
    assert why in line


def test_an_unsat_is_reported_as_its_own(tmp_path: Path) -> None:
    outcome = Outcome(Verdict.UNSAT, "all 3 boxes", "fake 1.0", "float64", details={"boxes": 3})
    result, _ = handed(tmp_path, Fake(outcome))
    assert (result.verdict, result.reason) == (Verdict.UNSAT, StopReason.VERIFIER)
    assert "fake (fake 1.0) claims that no input satisfies the query: all 3 boxes" in result.reason_text
    assert "[arithmetic: float64]" in result.reason_text
    record = result.to_json()["handoff"]
    assert record == {
        "adapter": "fake",
        "available": True,
        "engine": "fake 1.0",
        "verdict": "unsat",
        "reason": "all 3 boxes",
        "arithmetic": "float64",
        "details": {"boxes": 3},
    }


def test_details_are_its_own_affair(tmp_path: Path) -> None:
    """Whatever their names and values: the record stays JSON, and says itself whether the adapter was there."""
    details: dict[Any, Any] = {
        "available": False,
        "verdict": "sat",
        "bound": np.float64(np.nan),
        "box": np.zeros(2),
        3: "three",
    }
    result, _ = handed(tmp_path, Fake(Outcome(Verdict.UNSAT, "all boxes", "fake 1.0", details=details)))
    record = json.loads(json.dumps(result.to_json(), allow_nan=False))["handoff"]
    assert (record["available"], record["verdict"]) == (True, "unsat")
    told = {"available": False, "verdict": "sat", "bound": "nan", "box": "[0. 0.]", "3": "three"}
    assert record["details"] == told


def test_its_texts_stay_short(tmp_path: Path) -> None:
    """They go into one line of the user's, which they do not fill."""
    answer = Outcome(Verdict.UNKNOWN, "no\nluck " * 1000, "engine\n" * 1000)
    result, (line,) = handed(tmp_path, Fake(answer))
    assert line.startswith("fake: no luck no luck")
    assert len(line) < 320
    assert "\n" not in result.reason_text
    assert len(result.reason_text) < 700


@pytest.mark.parametrize("answer", [None, "unsat", Outcome("proved", "by magic")])  # type: ignore[arg-type]
def test_what_is_no_outcome_is_a_failure(tmp_path: Path, answer: Any) -> None:
    result, (line,) = handed(tmp_path, Fake(answer))
    assert line.startswith("fake: failed: ")
    assert result.verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (RuntimeError("it\nbroke"), "fake: failed: RuntimeError: it broke"),
        (MemoryError(), "fake: ran out of memory"),
        (UnsupportedError("no such operator"), "fake: no such operator"),
        (Outcome(Verdict.UNKNOWN, "gave up"), "fake: gave up"),
        (Outcome(Verdict.ERROR, "licence"), "fake: licence"),
    ],
)
def test_what_goes_wrong_costs_one_line(tmp_path: Path, answer: Outcome | BaseException, line: str) -> None:
    result, told = handed(tmp_path, Fake(answer))
    assert told == [line]
    assert (result.verdict, result.reason) == (Verdict.UNKNOWN, StopReason.SHARE)
    assert result.reason_text.startswith("the search used up its share of the time limit; it came near; fake")
    assert (result.margins, result.evaluations) == (ATTACK.margins, ATTACK.evaluations)


def test_an_adapter_that_is_not_available_is_not_run(tmp_path: Path) -> None:
    adapter = Fake(sat([np.array([1.75])]), available=False)
    result, told = handed(tmp_path, adapter)
    assert told == ["fake: is not available here: pip install fake"]
    assert result.verdict is Verdict.UNKNOWN
    assert not adapter.seen
    assert result.handoff is not None
    assert not result.handoff["available"]


@pytest.mark.parametrize(
    ("answer", "seconds", "attack", "verdict", "reason"),
    [
        (Verdict.UNKNOWN, 60.0, ATTACK, Verdict.UNKNOWN, StopReason.SHARE),
        (Verdict.UNKNOWN, 0.3, ATTACK, Verdict.TIMEOUT, StopReason.DEADLINE),  # it took all there was
        (Verdict.TIMEOUT, 60.0, ATTACK, Verdict.TIMEOUT, StopReason.DEADLINE),  # it kept a clock of its own
        (Verdict.UNKNOWN, 60.0, OTHER, Verdict.UNKNOWN, StopReason.EXHAUSTED),
    ],
)
def test_a_verifier_that_leaves_time_unused_is_no_timeout(
    tmp_path: Path, answer: Verdict, seconds: float, attack: Result, verdict: Verdict, reason: StopReason
) -> None:
    class Slow(Fake):
        def take(self, handoff: Handoff, deadline: float) -> Outcome:
            if seconds < 1:
                time.sleep(max(0.0, deadline - time.monotonic()))
            return super().take(handoff, deadline)

    result, _ = handed(tmp_path, Slow(Outcome(answer, "gave up")), attack, seconds)
    assert (result.verdict, result.reason) == (verdict, reason)
    assert result.reason_text.endswith("; fake: gave up")


def test_without_time_nothing_is_started(tmp_path: Path) -> None:
    adapter = Fake(sat([np.array([1.75])]))
    result, _ = handed(tmp_path, adapter, seconds=0.0)
    assert result.verdict is Verdict.TIMEOUT
    assert not adapter.seen


@pytest.mark.parametrize(
    "result",
    [
        Result(Verdict.SAT, StopReason.CONFIRMED, ""),
        Result(Verdict.UNSAT, StopReason.EMPTY_INPUT_SET, ""),
        Result(Verdict.UNKNOWN, StopReason.INTERRUPTED, ""),
    ],
)
def test_what_is_decided_stays(tmp_path: Path, result: Result) -> None:
    adapter = Fake(Outcome(Verdict.UNSAT, "no"))
    assert handed(tmp_path, adapter, result)[0] is result
    assert not adapter.seen
