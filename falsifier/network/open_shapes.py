"""Concrete input shapes for models that leave dimensions open, where no query says them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from falsifier.errors import InputError, UnsupportedError
from falsifier.network import runtime
from falsifier.network.load import Network

_LENGTHS = (32, 64, 16, 128, 8, 256, 4, 512, 2, 1024, 1)  # in the order in which they are tried
_MOST_TRIALS = 200
_MOST_LOWERINGS = 5

Dimension = int | str | None  # a length, a symbol, or open without a name


@dataclass(frozen=True)
class DeclaredInput:
    """A graph input as the model declares it; `shape` None where not even the rank is known."""

    name: str
    shape: tuple[Dimension, ...] | None

    @property
    def is_open(self) -> bool:
        return self.shape is None or any(not isinstance(d, int) for d in self.shape)


def declared_inputs(network: Network) -> list[DeclaredInput]:
    """The model's inputs in order, without initializers that are listed as inputs."""
    graph = network.proto().graph
    constants = {tensor.name for tensor in graph.initializer}
    found = []
    for info in graph.input:
        if info.name in constants:
            continue
        kind = info.type.tensor_type
        shape = tuple(_dimension(d) for d in kind.shape.dim) if kind.HasField("shape") else None
        found.append(DeclaredInput(info.name, shape))
    return found


def _dimension(dimension: object) -> Dimension:
    kind = getattr(dimension, "WhichOneof")("value")  # noqa: B009 - a protobuf message has no typed interface
    if kind == "dim_value":
        length: int = getattr(dimension, "dim_value")  # noqa: B009
        return length if length > 0 else None
    return str(getattr(dimension, "dim_param")) or None if kind == "dim_param" else None  # noqa: B009


def choose_shapes(network: Network, given: Mapping[str, Sequence[int]] | None = None) -> tuple[Network, list[str]]:
    """The network with concrete shapes, and a sentence about each choice that was made here.

    `given` holds shapes by input name. In the other inputs a leading open dimension is taken for a batch, and is 1
    wherever its symbol stands; the other open dimensions get lengths around 32 with which the model runs on zeros and
    gives outputs. Raises InputError for a name or a shape that the model does not have, and where no choice works.
    """
    fixed = {name: tuple(shape) for name, shape in (given or {}).items()}
    declared = declared_inputs(network)
    unknown = sorted(set(fixed) - {d.name for d in declared})
    if unknown:
        names = ", ".join(d.name for d in declared)
        raise InputError(f"{network.origin}: there is no input {unknown[0]!r}; the inputs are {names}")
    chosen = [d for d in declared if d.is_open and d.name not in fixed]
    if not chosen:
        return (
            network.shaped([fixed[d.name] if d.name in fixed else _filled(d, {}) for d in declared])
            if fixed
            else network
        ), []
    runs = _trial(network)
    spare: tuple[Network, list[str]] | None = None
    lowerings = 0
    for lengths in _assignments(chosen):
        shapes = [fixed[d.name] if d.name in fixed else _filled(d, lengths) for d in declared]
        if not runs(shapes):
            continue
        found = network.shaped(shapes), [_sentence(d, _filled(d, lengths)) for d in chosen]
        # too small a length can leave a layer empty and onnxruntime content: such a network is not lowered
        if _is_lowered(found[0]):
            return found
        spare = spare or found
        lowerings += 1
        if lowerings == _MOST_LOWERINGS:
            break
    if spare is not None:
        return spare
    names = ", ".join(d.name for d in chosen)
    raise InputError(f"{network.origin}: no lengths were found for the open dimensions of {names}: give their shapes")


def _is_lowered(network: Network) -> bool:
    try:
        network.lowered  # noqa: B018 - kept by the network for the engine that comes next
    except UnsupportedError:
        return False
    return True


def _assignments(inputs: Sequence[DeclaredInput]) -> Iterator[dict[str, int]]:
    """Lengths for every open dimension by its key, the likely ones first."""
    leading = {_key(d, 0) for d in inputs if d.shape and not isinstance(d.shape[0], int)}
    keys = {_key(d, axis) for d in inputs for axis, length in enumerate(d.shape or ()) if not isinstance(length, int)}
    free = sorted(keys - leading)
    ranks = sorted(product(range(len(_LENGTHS)), repeat=min(len(free), 3)), key=lambda r: (sum(r), r))
    for rank in ranks[:_MOST_TRIALS]:
        # beyond three symbols the rest share the last one's length
        lengths = {key: _LENGTHS[rank[min(i, 2)]] for i, key in enumerate(free)}
        yield dict.fromkeys(leading, 1) | lengths


def _key(declared: DeclaredInput, axis: int) -> str:
    """What identifies an open dimension: its symbol, or its place."""
    dimension = (declared.shape or ())[axis]
    return dimension if isinstance(dimension, str) and dimension != "?" else f"{declared.name} axis {axis}"


def _filled(declared: DeclaredInput, lengths: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(d if isinstance(d, int) else lengths[_key(declared, i)] for i, d in enumerate(declared.shape or ()))


def _trial(network: Network) -> Callable[[Sequence[tuple[int, ...]]], bool]:
    """Whether the model runs on zeros of given shapes and gives finite numbers. One session for all trials."""
    import onnxruntime

    dtypes = [i.dtype for i in network.reference.inputs]
    names = [i.name for i in network.reference.inputs]
    session = onnxruntime.InferenceSession(
        network.proto().SerializeToString(), runtime.session_options(threads=1), providers=["CPUExecutionProvider"]
    )

    def runs(shapes: Sequence[tuple[int, ...]]) -> bool:
        feed = {n: np.zeros(s, dtype=t) for n, s, t in zip(names, shapes, dtypes, strict=True)}
        try:
            return all(y.size and np.isfinite(y).all() for y in session.run(None, feed))
        except runtime.errors():
            return False

    return runs


def _sentence(declared: DeclaredInput, shape: tuple[int, ...]) -> str:
    if declared.shape is None:
        return f"input {declared.name!r}: its rank is not declared; a scalar was chosen"
    written = ", ".join("?" if d is None else str(d) for d in declared.shape)
    return f"input {declared.name!r}: [{written}] has open dimensions; {list(shape)} was chosen"
