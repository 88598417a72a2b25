"""Starts and shapes: what a user's .npz holds, how long the tables are that integers are looked up in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.counted import counted
from falsifier.errors import InputError
from falsifier.network import Network
from falsifier.network.reference import TensorInfo
from falsifier.numpy_file import numpy_file

Array = NDArray[Any]


def read_arrays(inputs: Any, infos: Sequence[TensorInfo]) -> tuple[Array, Array | None]:
    """Starts `[s, n]`, and labels `[s]` where an array is called labels.

    `inputs`: a path (.npz, or .npy for a network of one input) or arrays by name. Where the network has one input and
    there is one array beside labels, its name does not matter. The last axes of an array are those of a sample, or
    hold its values; those before them, if any, count samples. Raises InputError, naming what does not fit.
    """
    origin = str(inputs) if isinstance(inputs, (str, Path)) else "inputs"
    arrays = _load(Path(inputs)) if isinstance(inputs, (str, Path)) else dict(inputs)
    labels = None
    names = {info.name for info in infos}
    if "labels" in arrays and "labels" not in names:
        labels = np.asarray(arrays.pop("labels")).ravel()
    if len(infos) == 1 and infos[0].name not in arrays:
        if len(arrays) != 1:
            held = ", ".join(map(repr, arrays)) or "nothing"
            raise InputError(
                f"{origin}: holds {held}, and no array is called {infos[0].name!r}, as the network's input is: "
                "only a lone array may have another name"
            )
        arrays = {infos[0].name: next(iter(arrays.values()))}
    columns, lanes = [], None
    for info in infos:
        if info.name not in arrays:
            raise InputError(f"{origin}: no array is called {info.name!r}, as an input of the network is")
        array = np.asarray(arrays[info.name])
        if array.dtype.kind not in "biuf":
            raise InputError(f"{origin}: {info.name!r} holds {array.dtype}, not numbers")
        if not array.size or not _holds_samples(array.shape, info):
            raise InputError(f"{origin}: {info.name!r} has shape {list(array.shape)}; {_wanted(info)}")
        count = array.size // info.size
        if lanes is not None and count != lanes:
            raise InputError(f"{origin}: {info.name!r} has {counted(count, 'sample')}, the inputs before it {lanes}")
        lanes = count
        columns.append(array.reshape(count, info.size).astype(np.float64))
    starts = np.concatenate(columns, axis=1)
    if not np.isfinite(starts).all():
        raise InputError(f"{origin}: holds values that are not finite")
    if labels is not None and len(labels) != len(starts):
        raise InputError(f"{origin}: {counted(len(labels), 'label')} for {counted(len(starts), 'sample')}")
    return starts, labels


def _holds_samples(shape: tuple[int, ...], info: TensorInfo) -> bool:
    """Whether the last axes are a sample: with its lengths, those of 1 aside, or its values in one row on either side.

    A picture with its channels last has the values of one with channels first, and is none.
    """
    for at in reversed(range(len(shape))):
        if math.prod(shape[at:]) == info.size:
            given, wanted = ([d for d in dims if d != 1] for dims in (shape[at:], info.shape))
            return given == wanted or len(given) < 2 or len(wanted) < 2
    return info.size == 1 and len(shape) < 2


def _wanted(info: TensorInfo) -> str:
    inner = info.shape[1:] if info.shape[:1] == (1,) and len(info.shape) > 1 else info.shape
    shape = "".join(f", {d}" for d in inner)
    flat = f" or [N, {info.size}]" if len(inner) != 1 else ""
    return f"a sample has {counted(info.size, 'value')}, shape {list(info.shape)}: give N samples as [N{shape}]{flat}"


def _load(path: Path) -> dict[str, Array]:
    with numpy_file(path, "cannot be read as .npz or .npy: write it with numpy.savez") as found:
        return {"": found} if isinstance(found, np.ndarray) else {name: found[name] for name in found.files}


def table_sizes(network: Network) -> dict[str, int]:
    """By input name: how many rows the table has that a Gather looks the input up in, the least of several.

    Only inputs that reach Gather unchanged.
    """
    graph = network.proto().graph
    sizes = {i.name: i.dims[0] for i in graph.initializer if len(i.dims)}
    names = {i.name for i in graph.input}
    same = {name: name for name in names}
    found: dict[str, int] = {}
    for node in graph.node:
        if node.op_type in ("Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze") and node.input[0] in same:
            same[node.output[0]] = same[node.input[0]]
        if node.op_type == "Gather" and len(node.input) == 2 and node.input[1] in same and node.input[0] in sizes:
            if any(a.name == "axis" and a.i for a in node.attribute):
                continue
            name = same[node.input[1]]
            found[name] = min(found.get(name, sizes[node.input[0]]), sizes[node.input[0]])
    return found


def given_shapes(network: Network, shapes: Mapping[str, tuple[int, ...]]) -> Sequence[tuple[int, ...]] | None:
    """The inputs' shapes where some were given by name. Raises InputError for a name that no input has."""
    if not shapes:
        return None
    infos = network.reference.inputs
    for name in shapes:
        if name not in {i.name for i in infos}:
            raise InputError(f"{network.origin}: no input is called {name!r}")
    return [shapes.get(i.name, i.shape) for i in infos]
