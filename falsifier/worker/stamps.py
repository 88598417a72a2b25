"""Whether files are still those that were read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

Stamp = tuple[int, ...] | None


def stamps(files: Iterable[Path]) -> dict[Path, Stamp]:
    """What changes when a file is written or replaced; None where there is no file."""
    return {file: _stamp(file) for file in files}


def unchanged(before: dict[Path, Stamp]) -> bool:
    """Whether all files still have their stamps."""
    return all(_stamp(file) == stamp for file, stamp in before.items())


def with_external_data(model: Path) -> Iterator[Path]:
    """The file of a model, and those that its tensors lie in."""
    import onnx
    from google.protobuf.message import DecodeError

    yield model
    try:
        graph = onnx.load_model(str(model), load_external_data=False).graph
    except (OSError, DecodeError):  # packed, or no model: then it names no other files that onnxruntime would find
        return
    locations = {
        entry.value
        for tensor in graph.initializer
        if tensor.data_location == onnx.TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }
    for location in sorted(locations):
        yield model.parent / location


def _stamp(file: Path) -> Stamp:
    try:
        info = os.stat(file)
    except OSError:
        return None
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns
