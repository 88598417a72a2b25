"""Hand an open instance over and make a result of the outcome. Nothing that a verifier claims is believed unchecked.

Its `sat` passes the door; its `unsat` is reported as its own; whatever else happens, the attack's result stands.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import FalsifierError
from falsifier.handoff.adapter import Adapter, Outcome
from falsifier.handoff.discovery import one_line, shortened
from falsifier.handoff.handoff import Handoff
from falsifier.verdict import StopReason, Verdict
from falsifier.witness.outcome import Rejection, Witness

if TYPE_CHECKING:
    from falsifier.falsify import Prepared
    from falsifier.instance import Instance
    from falsifier.result import Result

Tell = Callable[[str], None]
_LEAST = 0.2  # seconds below which nothing is worth starting


def is_open(result: Result) -> bool:
    """Whether a verifier could still decide what a search left."""
    return result.verdict in (Verdict.UNKNOWN, Verdict.TIMEOUT) and result.reason is not StopReason.INTERRUPTED


def hand_over(
    result: Result,
    instance: Instance,
    adapter: Adapter,
    deadline: float,
    *,
    tell: Tell,
    prepared: Prepared | None = None,
    device: str = "auto",
    require: str = "correct",
) -> Result:
    """The result after the hand-off: that of the attack, unless the verifier decided. Of an attack that used up its
    share of the time, `timeout` becomes `unknown` where the verifier leaves the rest unused.

    deadline: a reading of `time.monotonic` by which this returns. tell: gets one line on each thing that went wrong.
    prepared: the instance as the search holds it. An instance that is not open comes back as it is.
    """
    if not is_open(result):
        return result
    start = time.monotonic()
    handoff = Handoff.of(
        instance, result, max(0.0, deadline - start), prepared=prepared, device=device, require=require
    )
    available, answer = _outcome(handoff, adapter, deadline)
    outcome, witness = _checked(handoff, adapter, answer, tell)
    seconds = {**result.seconds, "handoff": time.monotonic() - start}
    record = {
        "adapter": adapter.name,
        "available": available,
        "engine": outcome.engine,
        "verdict": outcome.verdict.value,
        "reason": outcome.reason,
        "arithmetic": outcome.arithmetic,
        "details": dict(outcome.details),
    }
    result = replace(result, seconds=seconds, handoff=record)
    by = f"{adapter.name} ({outcome.engine})" if outcome.engine else adapter.name
    if witness is not None:
        reason = f"{by}: {outcome.reason}; {witness.reason}"
        return replace(
            result,
            verdict=Verdict.SAT,
            reason=StopReason.CONFIRMED,
            reason_text=reason,
            witness=witness,
            class_=witness.class_.value,
            stage=adapter.name,
        )
    if outcome.verdict is Verdict.UNSAT:
        arithmetic = f" [arithmetic: {outcome.arithmetic}]" if outcome.arithmetic else ""
        text = f"{by} claims that no input satisfies the query: {outcome.reason}{arithmetic}"
        return replace(result, verdict=Verdict.UNSAT, reason=StopReason.VERIFIER, reason_text=text)
    early = outcome.verdict is Verdict.UNKNOWN and deadline - time.monotonic() >= _LEAST
    if early and result.reason is StopReason.DEADLINE:  # what passed was a part of the time limit
        attack = result.reason_text.replace(StopReason.DEADLINE.value, StopReason.SHARE.value)
        result = replace(result, verdict=Verdict.UNKNOWN, reason=StopReason.SHARE, reason_text=attack)
    return replace(result, reason_text=f"{result.reason_text}; {by}: {outcome.reason}")


def _outcome(handoff: Handoff, adapter: Adapter, deadline: float) -> tuple[bool, Outcome]:
    """Whether the adapter is there, as far as it was asked, and what it answers, whatever it raises."""
    if handoff.seconds_left < _LEAST:
        return True, Outcome(Verdict.TIMEOUT, "no time was left for it")
    try:
        availability = adapter.availability()
        if not availability.available:
            remedy = shortened(availability.remedy) or "no remedy is known"
            return False, Outcome(Verdict.UNKNOWN, f"is not available here: {remedy}")
        return True, _orderly(adapter.take(handoff, deadline))
    except MemoryError:
        return True, Outcome(Verdict.UNKNOWN, "ran out of memory")
    except FalsifierError as error:
        return True, Outcome(Verdict.UNKNOWN, str(error))
    except Exception as error:  # noqa: BLE001 - a verifier's failure must not cost the attack's answer
        return True, Outcome(Verdict.UNKNOWN, f"failed: {one_line(error)}")


def _orderly(outcome: Outcome) -> Outcome:
    """The outcome with each text in one line, cut, since it goes into one of the user's, and details that JSON takes.

    Raises AttributeError, TypeError, ValueError for what is no outcome.
    """
    texts: dict[str, Any] = {name: shortened(getattr(outcome, name)) for name in ("reason", "engine", "arithmetic")}
    details = {str(name): _as_json(value) for name, value in outcome.details.items()}
    return replace(outcome, verdict=Verdict(outcome.verdict), **texts, details=details)


def _as_json(value: Any) -> Any:
    """A value that JSON has a form for, or its text."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return shortened(str(value))
    return value


def _checked(handoff: Handoff, adapter: Adapter, outcome: Outcome, tell: Tell) -> tuple[Outcome, Witness | None]:
    """The outcome, a claim of sat judged by the door, and the witness that came of it."""
    if outcome.verdict is Verdict.ERROR:
        outcome = replace(outcome, verdict=Verdict.UNKNOWN)
    if outcome.verdict is not Verdict.SAT:
        if outcome.verdict is Verdict.UNKNOWN:
            tell(f"{adapter.name}: {outcome.reason}")
        return outcome, None
    refusal = "it gave no inputs"
    if outcome.inputs is not None:
        try:
            verdict = _replayed(_door(handoff), outcome.inputs)
        except (FalsifierError, ValueError) as error:
            verdict = Rejection(one_line(error))
        if isinstance(verdict, Witness):
            return outcome, verdict
        refusal = verdict.reason
    reason = f"claims sat, which the replay refuses: {refusal}"
    tell(f"{adapter.name}: {reason}")
    return replace(outcome, verdict=Verdict.UNKNOWN, reason=reason, inputs=None), None


def _replayed(door: Any, inputs: Sequence[NDArray[Any]]) -> Witness | Rejection:
    sizes = [variable.size for network in door.query.networks for variable in network.inputs]
    given = [np.asarray(values).size for values in inputs]
    if given != sizes:
        return Rejection(f"it gives {given} values for inputs of {sizes}")
    verdict: Witness | Rejection = door.replay(inputs)
    return verdict


def _door(handoff: Handoff) -> Any:
    """The door of the instance, the search's where it has one."""
    door = None if handoff.prepared is None else handoff.prepared.door
    if door is not None:
        return door
    from falsifier.arguments import as_networks
    from falsifier.query import read
    from falsifier.witness.binding import assign
    from falsifier.witness.confirm import Door
    from falsifier.witness.outcome import WitnessClass

    query = read(handoff.instance.query)
    models = assign(query, [(network.name, network.path) for network in handoff.instance.networks])
    references = [network.reference for network in as_networks(models, query)]
    return Door(query, references, WitnessClass(handoff.require))
