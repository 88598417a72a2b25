"""Witnesses as serialised ONNX tensors: one file `<variable>.pb` per declared variable (standard section 5)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from falsifier.counted import counted
from falsifier.errors import InputError
from falsifier.input_file import read_bytes
from falsifier.output_file import replace
from falsifier.query.tree import Kind

if TYPE_CHECKING:
    from falsifier.query.tree import Query
    from falsifier.witness.outcome import Witness
    from falsifier.witness.text import Assignment


def write_tensors(query: Query, witness: Witness, folder: Path) -> list[Path]:
    """Write a TensorProto per variable, of the network's element type and the declared shape. Makes the folder.

    Raises InputError where the folder cannot be written.
    """
    from onnx import numpy_helper

    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for variable, values in witness.by_variable(query):
            path = folder / f"{variable.name}.pb"
            replace(path, numpy_helper.from_array(values.reshape(variable.shape), variable.name).SerializeToString())
            paths.append(path)
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be written ({error.strerror}): give --serialise-assignments a folder"
        ) from None
    return paths


def read_tensors(query: Query, folder: Path) -> Assignment:
    """The values of all inputs, and of those outputs whose files are there, flat. Those of hidden variables are left.

    Raises InputError for a missing or unreadable file, or a tensor of another size than declared.
    """
    from falsifier.witness.text import Assignment

    assignment = Assignment([], [])
    for variable in query.variables:
        path = folder / f"{variable.name}.pb"
        if variable.kind is Kind.HIDDEN or (variable.kind is Kind.OUTPUT and not path.exists()):
            continue
        values = _read(path)
        if values.size != variable.size:
            raise InputError(
                f"{path}: {counted(values.size, 'value')}, {variable.name} is declared with {variable.size}"
            )
        (assignment.inputs if variable.kind is Kind.INPUT else assignment.outputs).append(values.ravel())
    return assignment


def _read(path: Path) -> NDArray[Any]:
    import onnx
    from google.protobuf.message import DecodeError
    from onnx import numpy_helper

    tensor = onnx.TensorProto()
    try:
        tensor.ParseFromString(read_bytes(path, packed=False))
    except DecodeError:
        raise InputError(f"{path}: is not a serialised ONNX tensor") from None
    return np.asarray(numpy_helper.to_array(tensor))
