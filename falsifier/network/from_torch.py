"""A torch module as a model: exported to ONNX, so that it is searched, and its witnesses confirmed, like any other.

This module imports torch when it is imported.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import Any

import torch

from falsifier.errors import InputError


def exported(module: torch.nn.Module, shapes: Sequence[Sequence[int]]) -> bytes:
    """A torch module as the bytes of an ONNX model, for float32 inputs of the shapes that a query declares.

    VNN-LIB 1.0 declares no shapes: a flat `[n]` stands for `[1, n]`; a module that wants another shape is exported with
    `export` and an example. Raises InputError where torch cannot export it.
    """
    return export(module, [torch.zeros(1, *shape) if len(shape) == 1 else torch.zeros(*shape) for shape in shapes])


def export(module: torch.nn.Module, example: torch.Tensor | Sequence[torch.Tensor]) -> bytes:
    """A torch module as the bytes of an ONNX model with the shapes of `example`: one sample's inputs, leading 1
    included.

    The module is exported as it behaves in evaluation; its mode is put back. Raises InputError where torch cannot
    export it.
    """
    inputs = (example,) if isinstance(example, torch.Tensor) else tuple(example)
    was_training = module.training
    module.eval()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the exporter's own deprecations, and remarks about constants it traces
            return _export(module, inputs)
    except (RuntimeError, TypeError, ValueError, torch.onnx.OnnxExporterError) as error:
        raise InputError(
            f"torch cannot export {type(module).__name__} to ONNX (give it an example input, or an ONNX file): "
            f"{str(error).splitlines()[0]}"
        ) from error
    finally:
        module.train(was_training)


def _export(module: torch.nn.Module, inputs: tuple[Any, ...]) -> bytes:
    """By tracing, which needs no further package and keeps shapes static; else by torch's newer exporter."""
    buffer: Any = io.BytesIO()  # declared as a path, and a file is fine
    try:
        torch.onnx.export(module, inputs, buffer, dynamo=False)
    except TypeError as error:
        if "dynamo" not in str(error):
            raise
        program = torch.onnx.export(module, inputs)
        if program is None:
            raise RuntimeError("the exporter returned nothing") from error
        return bytes(program.model_proto.SerializeToString())
    return bytes(buffer.getvalue())
