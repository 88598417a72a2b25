"""The original file in onnxruntime on the CPU, one sample at a time: what decides whether a witness is one.

Made without importing onnx, so that the first evaluation comes as early as it can.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from falsifier.counted import counted
from falsifier.errors import InputError, UnsupportedError
from falsifier.network import runtime
from falsifier.network.vetting import vet
from falsifier.records import record

_TYPES = {
    "float": np.float32,
    "double": np.float64,
    "float16": np.float16,
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "int64": np.int64,
    "uint8": np.uint8,
    "uint16": np.uint16,
    "uint32": np.uint32,
    "uint64": np.uint64,
    "bool": np.bool_,
}


@record
class TensorInfo:
    """An input or output of one sample. Dimensions that the model leaves open are 1, or what the query says."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Sampled(Protocol):
    """What runs flat points one at a time: a reference, or several side by side (`joint.JointReference`)."""

    inputs: tuple[TensorInfo, ...]
    n: int
    dtype: np.dtype[Any]

    @property
    def m(self) -> int:
        """How many numbers a point gives."""
        ...

    def run_flat(self, x: NDArray[Any]) -> NDArray[Any]:
        """`[n]` -> `[m]`. Raises InputError where the model refuses the point."""
        ...


class Reference:
    """A session on the original bytes or file. One compute thread, one sample, no engine's tricks.

    `model` is a path (external data is found beside it) or the bytes of a model, whose external data lies in `folder`.
    `shapes` are the concrete shapes of the inputs where the model leaves dimensions open. `may_remember`: outputs may
    depend on what was run before, see `vetting.vet`.
    Raises InputError, in one line, for what onnxruntime cannot load, MemoryError for what does not fit into memory.
    """

    def __init__(
        self,
        model: str | bytes,
        shapes: Sequence[tuple[int, ...]] | None = None,
        *,
        folder: str | None = None,
        origin: str | None = None,
    ) -> None:
        import onnxruntime

        self.origin = origin or (model if isinstance(model, str) else "<model>")
        self.may_remember = vet(model, folder, self.origin)
        options = runtime.session_options(threads=1)
        if folder is not None and isinstance(model, bytes):
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
        try:
            self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except runtime.errors() as error:
            if runtime.is_out_of_memory(error):
                raise MemoryError(f"{self.origin}: does not fit into memory: {runtime.one_line(error)}") from error
            raise InputError(f"{self.origin}: onnxruntime cannot load this model: {_explain(error)}") from error
        runtime.give_back(os.path.getsize(model) if isinstance(model, str) else len(model))
        self.inputs = self._read_inputs(shapes)
        self.n = sum(i.size for i in self.inputs)
        self.dtype = np.dtype(np.float64 if any(i.dtype == np.float64 for i in self.inputs) else np.float32)
        self.output_names = [o.name for o in self._session.get_outputs()]
        self._outputs = self._declared_outputs()
        self._has_run = False
        ends = np.cumsum([i.size for i in self.inputs]).tolist()
        self._places = list(zip(self.inputs, [0, *ends][:-1], ends, strict=True))

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Shapes as declared; where the model leaves dimensions open, as the first run gives them."""
        if self._outputs is None:
            self.run_flat(np.zeros(self.n, dtype=self.dtype))
        assert self._outputs is not None
        return self._outputs

    @property
    def hidden(self) -> tuple[TensorInfo, ...]:
        """The inner tensors that are read beside the outputs: none here, see `hidden_reference`."""
        return ()

    @property
    def m(self) -> int:
        """How many numbers the outputs hold together."""
        return sum(o.size for o in self.outputs)

    def run(self, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """The outputs of one sample. `arrays`, one per input, of any shape of the right size, are cast to its type.

        Raises InputError where onnxruntime fails on this sample, or gives outputs of another size.
        """
        feed = {
            info.name: np.ascontiguousarray(array, dtype=info.dtype).reshape(info.shape)
            for info, array in zip(self.inputs, arrays, strict=True)
        }
        return self._run(feed)

    def observe(self, arrays: Sequence[NDArray[Any]]) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
        """The hidden tensors of one sample and its outputs, with the arguments and errors of `run`."""
        return [], self.run(arrays)

    def feed(self, x: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """A point `[n]` as the inputs by name, each in its own shape and type."""
        return {i.name: x[start:stop].astype(i.dtype).reshape(i.shape) for i, start, stop in self._places}

    def run_flat(self, x: NDArray[Any]) -> NDArray[Any]:
        """`[n]` -> `[m]`: inputs and outputs concatenated row-major, in float32 (float64 where an input is float64)."""
        results = self._run(self.feed(x))
        if len(results) == 1:
            return results[0].ravel().astype(self.dtype, copy=False)
        return np.concatenate([r.ravel().astype(self.dtype, copy=False) for r in results])

    def _run(self, feed: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
        try:
            results: list[NDArray[Any]] = self._session.run(None, feed)
        except runtime.errors() as error:
            if runtime.is_out_of_memory(error):
                raise MemoryError(runtime.one_line(error)) from error
            raise InputError(f"{self.origin}: onnxruntime fails on this input: {runtime.one_line(error)}") from error
        if not self._has_run:
            self._outputs, self._has_run = self._observed(results), True
        assert self._outputs is not None
        for info, result in zip(self._outputs, results, strict=True):
            if result.size != info.size:
                raise InputError(
                    f"{self.origin}: output {info.name!r} has {counted(result.size, 'value')} on this input, "
                    f"{info.size} on others"
                )
        return results

    def _observed(self, results: Sequence[Any]) -> tuple[TensorInfo, ...]:
        """The outputs as declared; as the first run gives them where that is open, or wrong (inference can be)."""
        for name, result in zip(self.output_names, results, strict=True):
            if not isinstance(result, np.ndarray):
                raise UnsupportedError(f"{self.origin}: output {name!r} is not a tensor")
        declared = self._outputs
        if declared is not None and all(d.size == r.size for d, r in zip(declared, results, strict=True)):
            return declared
        return tuple(TensorInfo(n, r.shape, r.dtype) for n, r in zip(self.output_names, results, strict=True))

    def _read_inputs(self, shapes: Sequence[tuple[int, ...]] | None) -> tuple[TensorInfo, ...]:
        declared = self._session.get_inputs()
        if shapes is not None and len(shapes) != len(declared):
            raise InputError(
                f"{self.origin}: the model has {counted(len(declared), 'input')}, the query declares {len(shapes)}"
            )
        infos = []
        for i, info in enumerate(declared):
            shape = tuple(d if isinstance(d, int) and d > 0 else 1 for d in info.shape)
            if shapes is not None:
                shape = _concrete(self.origin, info, shape, tuple(shapes[i]))
            infos.append(TensorInfo(info.name, shape, _dtype(self.origin, info)))
        return tuple(infos)

    def _declared_outputs(self) -> tuple[TensorInfo, ...] | None:
        infos = []
        for info in self._session.get_outputs():
            if not info.type.startswith("tensor("):
                raise UnsupportedError(f"{self.origin}: output {info.name!r} is a {info.type}, not a tensor")
            # onnxruntime reports an unknown rank as no dimensions, like a scalar: only a run tells them apart
            if not info.shape or not all(isinstance(d, int) and d > 0 for d in info.shape):
                return None
            infos.append(TensorInfo(info.name, tuple(info.shape), _dtype(self.origin, info)))
        return tuple(infos)


def _concrete(origin: str, info: Any, declared: tuple[int, ...], given: tuple[int, ...]) -> tuple[int, ...]:
    """The given shape where it fits the open dimensions, else the declared one if the sizes agree."""
    fits = len(given) == len(info.shape) and all(
        not isinstance(d, int) or d <= 0 or d == g for d, g in zip(info.shape, given, strict=True)
    )
    if fits:
        return given
    if math.prod(given) == math.prod(declared):
        return declared
    wanted = list(info.shape)
    raise InputError(f"{origin}: input {info.name!r} has shape {wanted}, the query declares {list(given)}")


def _dtype(origin: str, info: Any) -> np.dtype[Any]:
    name = info.type.removeprefix("tensor(").removesuffix(")")
    if name not in _TYPES:
        raise UnsupportedError(f"{origin}: tensor {info.name!r} has element type {info.type}, which is not searched")
    return np.dtype(_TYPES[name])


def _explain(error: Exception) -> str:
    text = runtime.one_line(error)
    if "protobuf" in text.lower():
        return "it is not an ONNX protobuf, or it is cut off"
    return text
