"""What `falsifier doctor` says, as data: what this installation has, and which engine serves a model and why.

Nothing here prints. Everything is found out in the open: each engine is built and checked as `Network.engine` does it.
"""

from __future__ import annotations

import math
import platform
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from falsifier.errors import UnsupportedError
from falsifier.machine import free_cores
from falsifier.network.load import Network, load
from falsifier.network.open_shapes import choose_shapes
from falsifier.network.reference import TensorInfo
from falsifier.network.selection import Attempt, choose
from falsifier.network.selfcheck import GradientState

_PACKAGES = ("numpy", "onnx", "onnxruntime", "onnxruntime-gpu", "torch", "vnnlib", "array-api-compat")
_LOOKED_AT = 64  # elements of outputs, whether they are decisions
_NEEDED = frozenset(("numpy", "onnx", "vnnlib", "array-api-compat"))


@dataclass(frozen=True)
class Installation:
    """Versions by distribution name (None: not installed), and what computes here."""

    falsifier: str | None
    python: str
    system: str
    versions: Mapping[str, str | None]
    providers: tuple[str, ...]  # of onnxruntime
    cuda_devices: tuple[str, ...]  # as torch names them
    cores: int  # that this process may keep busy

    def lines(self) -> Iterator[str]:
        """The report, a line at a time."""
        yield f"falsifier {self.falsifier or '(not installed)'}, Python {self.python}, {self.system}"
        yield "packages: " + ", ".join(f"{name} {version}" for name, version in self.versions.items() if version)
        for name in sorted(_NEEDED):
            if self.versions[name] is None:
                yield f"missing: {name}, which every run needs"
        if not self.providers:
            yield "missing: onnxruntime; install the extra [cpu] or [gpu]"
        if self.versions["onnxruntime"] and self.versions["onnxruntime-gpu"]:
            yield "warning: onnxruntime and onnxruntime-gpu overwrite each other; keep one of them"
        yield "onnxruntime providers: " + (", ".join(self.providers) or "none")
        yield f"cpu: {self.cores} cores for this process"
        if self.cuda_devices:
            yield "cuda: " + ", ".join(f"cuda:{i} {name}" for i, name in enumerate(self.cuda_devices))
        elif self.versions["torch"]:
            yield "cuda: torch sees no device"
        else:
            yield "cuda: needs torch; install the extra [gpu]"


def installation() -> Installation:
    """Look around. Imports onnxruntime and torch where they are installed."""
    versions = {name: _version(name) for name in _PACKAGES}
    return Installation(
        _version("vnn-falsifier"),
        platform.python_version(),
        f"{platform.system()} {platform.machine()}",
        versions,
        _providers(),
        _cuda_devices() if versions["torch"] else (),
        free_cores(),
    )


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _providers() -> tuple[str, ...]:
    try:
        import onnxruntime
    except ImportError:
        return ()
    return tuple(onnxruntime.get_available_providers())


def _cuda_devices() -> tuple[str, ...]:
    try:
        import torch
    except (ImportError, OSError):  # a torch whose shared libraries do not load
        return ()
    if not torch.cuda.is_available():
        return ()
    return tuple(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))


@dataclass(frozen=True)
class Diagnosis:
    """What a model is, and how each engine fares with it. `problem`: why it cannot be searched.

    `shapes` says which lengths were chosen for open dimensions. `attempts` are in the order in which they were made;
    the one that serves is accepted.
    """

    origin: str
    size: int  # bytes
    ir_version: int
    opsets: Mapping[str, int]
    producer: str
    inputs: tuple[TensorInfo, ...] = ()
    outputs: tuple[TensorInfo, ...] = ()
    operators: Mapping[str, int] | None = None
    parameters: int = 0  # numbers in initializers
    shapes: tuple[str, ...] = ()
    engine: str | None = None
    device: str | None = None
    gradient: str | None = None
    decided: str | None = None  # outputs that are decisions, which are searched by the scores behind them
    attempts: tuple[Attempt, ...] = ()
    problem: str | None = None

    def lines(self) -> Iterator[str]:
        """The report, a line at a time."""
        opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in self.opsets.items())
        maker = self.producer or "an unknown tool"
        yield f"{self.origin}: {self.size} bytes, IR {self.ir_version}, opset {opsets}, made by {maker}"
        for kind, tensors in (("input", self.inputs), ("output", self.outputs)):
            for info in tensors:
                yield f"  {kind} {info.name}: {info.dtype} {list(info.shape)}"
        for sentence in self.shapes:
            yield f"  {sentence}"
        operators = ", ".join(f"{name} {count}" for name, count in (self.operators or {}).items())
        yield f"  {self.parameters} parameters; operators: {operators}"
        for attempt in self.attempts:
            word = "serves" if attempt.engine == self.engine and attempt.accepted else "does not serve"
            worst = (
                "" if attempt.check is None else f" (worst deviation {attempt.check.worst:.2g} of what is tolerated)"
            )
            yield f"  {attempt.engine} {word}: {attempt.reason}{worst}"
        if self.engine is not None:
            yield f"  engine: {self.engine} on {self.device}; {self.gradient}"
        if self.decided is not None:
            yield f"  {self.decided}"
        if self.problem is not None:
            yield f"  problem: {self.problem}"


def examine(
    model: str | Path | bytes | Any, device: str = "auto", shapes: Mapping[str, Sequence[int]] | None = None
) -> Diagnosis:
    """Load a model, choose an engine as a search would, and say what was found.

    `shapes` by input name for open dimensions; what it does not say is chosen. The self-check runs over the unit box.
    Raises InputError for a file that is no model, and for a device or a shape that cannot be had.
    """
    network = load(model)
    network.reference  # noqa: B018 - the message about a damaged file is onnxruntime's
    proto = network.proto()
    known = Diagnosis(
        network.origin,
        len(network.data),
        proto.ir_version,
        {o.domain: o.version for o in proto.opset_import},
        " ".join(part for part in (proto.producer_name, proto.producer_version) if part),
        operators=dict(Counter(node.op_type for node in proto.graph.node).most_common()),
        parameters=sum(math.prod(tensor.dims) for tensor in proto.graph.initializer),
    )
    network, sentences = choose_shapes(network, shapes)
    return _with_engine(known, network, tuple(sentences), device)


def _with_engine(known: Diagnosis, network: Network, sentences: tuple[str, ...], device: str) -> Diagnosis:
    known = replace(known, inputs=network.reference.inputs, shapes=sentences)
    try:
        engine, attempts = choose(network, device, None, gradient=True)
        gradient = _gradient(engine, attempts)
        return replace(
            known,
            outputs=network.reference.outputs,
            engine=engine.name,
            device=engine.device,
            gradient=gradient,
            decided=_decided(network) if gradient.startswith(GradientState.ZERO.value) else None,
            attempts=attempts,
        )
    except UnsupportedError as error:
        return replace(known, problem=str(error))


def _gradient(engine: Any, attempts: Sequence[Attempt]) -> str:
    if not engine.differentiable:
        return GradientState.ABSENT.value
    states = [a.check.gradient for a in attempts if a.accepted and a.engine == engine.name and a.check is not None]
    state = states[0] if states else GradientState.UNCHECKED
    if state is GradientState.WRONG:
        return str(state.value)
    source = getattr(engine, "gradient", "adjoint")
    return f"{state.value}, by {source}"


def _decided(network: Network) -> str | None:
    """What is searched instead where outputs are flat because they are decisions."""
    from falsifier.network.class_output import decided

    m = network.lowered.m
    elements = list(range(min(m, _LOOKED_AT)))
    found = len(decided(network.lowered, elements))
    if not found:
        return None
    which = "the outputs are" if found == m else f"{found} of {len(elements)} outputs looked at are"
    return f"{which} classes or comparisons: queries are searched by the scores behind them"
