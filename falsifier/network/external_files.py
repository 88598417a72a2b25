"""The files that a model consists of: its own, and those that its tensors lie in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from falsifier.errors import InputError
from falsifier.input_file import MODEL, limit_or
from falsifier.network.stored import HERE, reader

if TYPE_CHECKING:
    from onnx import GraphProto, TensorProto


def with_external_data(model: Path) -> Iterator[Path]:
    """The file of a model, and those that its tensors lie in."""
    import onnx
    from google.protobuf.message import DecodeError

    yield model
    try:
        with reader(model, None, str(model), limit_or(MODEL)) as (text, _):
            graph = onnx.load_model_from_string(text).graph
    except (InputError, DecodeError):  # packed, or no model: then it names no other files that onnxruntime would find
        return
    locations = {
        entry.value
        for tensor in _tensors(graph)
        if tensor.data_location == onnx.TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location" and entry.value != HERE
    }
    for location in sorted(locations):
        yield model.parent / location


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    """All tensors of a graph and of the graphs inside its nodes."""
    yield from graph.initializer
    yield from inner_tensors(graph)


def inner_tensors(graph: GraphProto) -> Iterator[TensorProto]:
    """The tensors inside of a graph's nodes, and of the graphs that they hold."""
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _tensors(inner)
