"""The original file with some of its inner tensors read as well: from a copy that has them among its outputs.

A further output can keep onnxruntime from fusing operators, which changes the last bits. So the copy counts only where
its other outputs are, bit by bit, those of the original.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import EngineError, InputError
from falsifier.network.reference import Reference, TensorInfo

_SHOWN = 8  # names of tensors in a message


class HiddenReference(Reference):
    """A reference that reads the tensors `names` too. Flat outputs are these, in their order, then the outputs."""

    def __init__(
        self,
        model: str | bytes,
        names: Sequence[str],
        shapes: Sequence[tuple[int, ...]] | None = None,
        *,
        folder: str | None = None,
        origin: str | None = None,
    ) -> None:
        """The arguments of `Reference`. Raises InputError as it does, and for a name that the model does not have."""
        super().__init__(model, shapes, folder=folder, origin=origin)
        data = _with_outputs(model, names, self.origin)
        where = folder
        if where is None and isinstance(model, str):
            from pathlib import Path

            where = str(Path(model).parent.resolve())
        self._copy = Reference(data, shapes, folder=where, origin=self.origin)
        self._at = [self._copy.output_names.index(name) for name in names]

    @property
    def hidden(self) -> tuple[TensorInfo, ...]:
        """The inner tensors. Runs once where their shapes are open."""
        outputs = self._copy.outputs
        return tuple(outputs[i] for i in self._at)

    @property
    def m(self) -> int:
        """How many numbers the inner tensors and the outputs hold together."""
        return sum(t.size for t in (*self.hidden, *self.outputs))

    def observe(self, arrays: Sequence[NDArray[Any]]) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
        """The inner tensors of one sample and the outputs of the original.

        Raises InputError as `run` does, EngineError where the outputs of the copy are others than the original's.
        """
        outputs, seen = self.run(arrays), self._copy.run(arrays)
        for mine, its in zip(outputs, seen, strict=False):
            if mine.tobytes() != its.tobytes():
                raise EngineError(
                    f"{self.origin}: with hidden tensors among its outputs the network computes other outputs: "
                    "their values cannot be told"
                )
        return [seen[i] for i in self._at], outputs

    def run_flat(self, x: NDArray[Any]) -> NDArray[Any]:
        """`[n]` -> `[m]` by the copy alone, in the type of `Reference.run_flat`."""
        pieces = [x[start:stop] for _, start, stop in self._places]
        results = self._copy.run([piece.astype(i.dtype) for piece, i in zip(pieces, self.inputs, strict=True)])
        chosen = [*(results[i] for i in self._at), *results[: len(self.output_names)]]
        return np.concatenate([r.ravel().astype(self.dtype, copy=False) for r in chosen])


def _with_outputs(model: str | bytes, names: Sequence[str], origin: str) -> bytes:
    """A model with the tensors among its outputs, behind its own."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        copy = (
            onnx.load_model(model, load_external_data=False)
            if isinstance(model, str)
            else onnx.load_model_from_string(model)
        )
    except (DecodeError, OSError) as error:
        raise InputError(f"{origin}: this model cannot be read: {' '.join(str(error).split())}") from error
    graph = copy.graph
    made = [name for node in graph.node for name in node.output if name]
    outputs = {output.name for output in graph.output}
    known = set(made) | outputs | {info.name for info in graph.input}
    for name in dict.fromkeys(names):
        if name not in known:
            some = ", ".join(made[:_SHOWN]) + (", ..." if len(made) > _SHOWN else "")
            raise InputError(
                f"{origin}: the model has no tensor {name!r}, which the query declares hidden; it has {some}"
            )
        if name not in outputs:
            graph.output.append(onnx.ValueInfoProto(name=name))
    return bytes(copy.SerializeToString())
