"""The files that a model consists of: its own, and those that its tensors lie in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


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
