"""Which engine serves a network: the first that passes the self-check, and why the others do not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from falsifier.errors import EngineError, InputError, UnsupportedError
from falsifier.network import accelerator
from falsifier.network.engine import Engine
from falsifier.network.reference import Sampled
from falsifier.network.selfcheck import Box, GradientState, SelfCheck, self_check
from falsifier.network.single import SingleSampleEngine

if TYPE_CHECKING:
    from falsifier.network.lowering import Lowered

DISCRETE = frozenset(("Sign", "Round", "Floor", "Ceil", "ArgMax", "ArgMin", "TopK", "QuantizeLinear"))


class Served(Protocol):
    """What an engine is chosen for: a network, or several as one. `engines`: made so far, by name and device."""

    engines: dict[tuple[str, str], Engine]

    @property
    def reference(self) -> Sampled:
        """The original, one sample at a time."""
        ...

    @property
    def lowered(self) -> Lowered:
        """The batched program. Raises UnsupportedError where there is none."""
        ...


@dataclass(frozen=True)
class Attempt:
    """How one engine fared. `check` is None where it was not made or not needed."""

    engine: str
    accepted: bool
    reason: str
    check: SelfCheck | None = None


def choose(
    network: Served, device: str, box: Box | None, *, check: bool = True, gradient: bool = False
) -> tuple[Engine, tuple[Attempt, ...]]:
    """The engine, and the attempts that led to it. onnxruntime, torch, then the original one sample at a time.

    `device` cpu or auto begins with onnxruntime on the CPU; cuda asks for torch on that device.
    An engine without gradients is taken only where the next has none either. `gradient`: look at gradients as well. An
    engine whose gradients are wrong serves without them: the next follows the same adjoint.
    Raises InputError for a device that cannot be had, or that this network cannot be run on.
    """
    attempts: list[Attempt] = []
    try:
        lowered = network.lowered
    except UnsupportedError as error:
        attempts += [Attempt(name, False, f"the network is not lowered: {error}") for name in ("onnxruntime", "torch")]
        return _fall_back(network, device, attempts)
    except MemoryError as error:
        reason = f"the network does not fit into memory once more: {error}".removesuffix(": ")
        attempts += [Attempt(name, False, reason) for name in ("onnxruntime", "torch")]
        return _fall_back(network, device, attempts)
    makers = {"onnxruntime": _onnxruntime, "torch": _torch}
    order = ["torch"] if device.startswith("cuda") else ["onnxruntime", "torch"]
    spare: tuple[Engine, Attempt] | None = None
    for name in order:
        try:
            if (name, device) not in network.engines:
                network.engines[name, device] = makers[name](lowered, device)
            engine = network.engines[name, device]
            outcome = _checked(engine, network, box, lowered, gradient) if check else None
        except (EngineError, UnsupportedError, MemoryError) as error:
            attempts.append(Attempt(name, False, str(error) or type(error).__name__))
            if isinstance(error, MemoryError) and not device.startswith("cuda"):
                break  # to bring up torch takes more memory still
            continue
        if outcome is not None and not outcome.passed:
            attempts.append(Attempt(name, False, outcome.reason, outcome))
            if not outcome.points:  # the original takes no point: no other engine can be compared with it
                break
            continue
        reason = "not checked" if outcome is None else outcome.reason
        lacking = _why_no_gradient(engine)
        if lacking is None:
            attempts.append(Attempt(name, True, reason, outcome))
            return engine, tuple(attempts)
        attempt = Attempt(name, True, f"{reason}; no gradients: {lacking}", outcome)
        spare = spare or (engine, attempt)
        if spare[1] is not attempt:
            attempts.append(Attempt(name, False, attempt.reason, outcome))
    if spare is not None:
        return spare[0], (spare[1], *attempts)
    return _fall_back(network, device, attempts)


def accelerated(network: Served, box: Box | None, *, check: bool = True) -> Engine | None:
    """torch's engine on the accelerator that `auto` may use. None where there is none, or it does not do.

    Raises nothing: where a device is free to choose, what is wrong with one is no reason to stop.
    """
    device = accelerator.find()
    if device is None:
        return None
    try:
        key = ("torch", device)
        if key not in network.engines:
            network.engines[key] = _torch(network.lowered, device)
        engine = network.engines[key]
        passed = not check or _checked(engine, network, box, network.lowered, False).passed
        return engine if passed and engine.differentiable else None
    except (EngineError, InputError, UnsupportedError, MemoryError, RuntimeError, OSError):
        return None


def _fall_back(network: Served, device: str, attempts: list[Attempt]) -> tuple[Engine, tuple[Attempt, ...]]:
    del device  # the original always runs on the CPU: a network that no engine takes is searched there
    engine = SingleSampleEngine(network.reference)
    return engine, (*attempts, Attempt(engine.name, True, "the original, one sample at a time"))


def _onnxruntime(lowered: Lowered, device: str) -> Engine:
    from falsifier.network.onnxruntime_engine import OnnxruntimeEngine

    return OnnxruntimeEngine(lowered)


def _torch(lowered: Lowered, device: str) -> Engine:
    try:
        from falsifier.network.torch_engine import TorchEngine

        return TorchEngine(lowered, device if device.startswith("cuda") else "cpu")
    except ImportError as error:
        raise EngineError(f"torch cannot be imported ({error}); it comes with the extra [torch]") from error


def _checked(engine: Engine, network: Served, box: Box | None, lowered: Lowered, gradient: bool) -> SelfCheck:
    discrete = any(p.op in DISCRETE or _rounds(p) for p in lowered.program.primitives)
    outcome = self_check(engine, network.reference, box, discrete=discrete, gradient=gradient, grain=lowered.grain)
    if gradient and outcome.passed and engine.differentiable:
        from falsifier.network.slope_check import speaks_against

        within = box or (np.zeros(engine.n), np.ones(engine.n))
        if speaks_against(engine, lowered, *within):
            return replace(outcome, gradient=GradientState.WRONG)
    return outcome


def _rounds(primitive: Any) -> bool:
    return primitive.op == "Cast" and primitive.attributes["to"].kind in "iu"


def _why_no_gradient(engine: Engine) -> str | None:
    """None where there is a gradient, as far as can be told without making its session."""
    adjoint_error = getattr(engine, "adjoint_error", None)
    if adjoint_error is not None:
        reason: str | None = adjoint_error()
        return reason
    return None if engine.differentiable else "torch has none"
