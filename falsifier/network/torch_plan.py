"""A part of a program resolved for torch: closures, slots and lifetimes worked out once; a run is a flat loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import EngineError, UnsupportedError
from falsifier.network.halves import HOST_INPUTS, host_values, required
from falsifier.network.operators import PRIMITIVES
from falsifier.network.program import Primitive, Program

Tensor = Any

_NOT_COMPUTED = ("uint16", "uint32", "uint64")  # torch stores these types and has next to no operations on them


class Constants:
    """The constants of a program on one device, each moved there once, on first use.

    `widen` turns float32 constants into float64, for running a float32 program in float64.
    """

    def __init__(self, arrays: dict[str, NDArray[Any]], device: Any, widen: bool) -> None:
        self.arrays = arrays
        self.device = device
        self.widen = widen
        self._tensors: dict[tuple[str, bool], Tensor] = {}

    def get(self, name: str, host: bool) -> Tensor:
        """The constant `name`, in host memory or on the device. Raises UnsupportedError for a type that torch lacks."""
        import torch

        key = (name, host)
        if key not in self._tensors:
            tensor = as_tensor(self.arrays[name])
            if self.widen and tensor.dtype == torch.float32:
                tensor = tensor.double()
            self._tensors[key] = tensor if host else tensor.to(self.device)
        return self._tensors[key]

    def fork(self, arrays: dict[str, NDArray[Any]]) -> Constants:
        """The constants of another program on the same device; what both have under one name is there once."""
        other = Constants(arrays, self.device, self.widen)
        same = {name for name, array in arrays.items() if self.arrays.get(name) is array}
        other._tensors = {key: tensor for key, tensor in self._tensors.items() if key[0] in same}
        return other

    def typed(self, tensor: Tensor, dtype: np.dtype[Any]) -> Tensor:
        """A tensor in the torch type in which this run computes what the program calls `dtype`."""
        import torch

        if self.widen and dtype == np.float32:
            return tensor.to(torch.float64)
        return tensor.to(getattr(torch, dtype.name))

    def attributes(self, primitive: Primitive) -> dict[str, Any]:
        """The attributes of a primitive, in the precision of the run."""
        if not self.widen:
            return primitive.attributes
        widened = dict(primitive.attributes)
        for name, value in widened.items():
            if isinstance(value, np.ndarray) and value.dtype == np.float32:
                widened[name] = value.astype(np.float64)
            elif name == "to" and value == np.float32:
                widened[name] = np.dtype(np.float64)
        return widened


def as_tensor(array: NDArray[Any]) -> Tensor:
    """A host tensor of an array's data, shared where torch can share it (a writable array with ordinary strides).

    Raises UnsupportedError for an element type that torch lacks.
    """
    import torch

    array = np.asarray(array)
    if not array.flags.writeable or not array.flags.c_contiguous:
        array = array.copy()
    try:
        return torch.from_numpy(array)
    except TypeError:
        raise UnsupportedError(f"torch has no element type {array.dtype}") from None


@dataclass(frozen=True, slots=True)
class Step:
    """One primitive of a plan. Slots index the list of live tensors; slot 0 holds None, for omitted inputs."""

    op: str
    run: Callable[[Sequence[Any], dict[str, Any]], tuple[Any, ...]]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: dict[str, Any]
    dead: tuple[int, ...]  # slots that nothing reads afterwards


class Plan:
    """Those primitives of a program that lead from the names `inputs` to the names `wanted`.

    Primitives that depend on constants alone run here and now. Raises UnsupportedError for a primitive without a
    closure or of a type that torch does not compute with.
    """

    def __init__(self, program: Program, inputs: Sequence[str], wanted: Sequence[str], constants: Constants) -> None:
        self._constants = constants
        self._slots: dict[tuple[str, bool], int] = {}
        self._template: list[Any] = [None]
        needed = required(program.primitives, inputs, wanted)
        self._fixed = set(program.constants)
        self._host = host_values(program.primitives)
        self._dtypes = {name: value.dtype.name for name, value in program.values.items()}
        self._inputs = [self._new(name) for name in inputs]
        steps = [step for primitive in needed if (step := self._resolve(primitive)) is not None]
        self._wanted = [self._slot(name, host=False) for name in wanted]
        self._steps = self._with_lifetimes(steps)

    def _new(self, name: str) -> int:
        self._slots[name, False] = len(self._template)
        self._template.append(None)
        return self._slots[name, False]

    def _slot(self, name: str, host: bool) -> int:
        if not name:
            return 0
        is_constant = name in self._constants.arrays
        key = (name, host and is_constant)
        if key not in self._slots:
            if not is_constant:
                raise EngineError(f"the program reads {name} before anything makes it")
            self._slots[key] = len(self._template)
            self._template.append(self._constants.get(name, key[1]))
        return self._slots[key]

    def _resolve(self, primitive: Primitive) -> Step | None:
        """The step of a primitive; None if it could be run at once."""
        if primitive.op not in PRIMITIVES:
            raise UnsupportedError(f"the primitive {primitive.op} has no torch closure")
        unsigned = [t for name in primitive.outputs if (t := self._dtypes.get(name)) in _NOT_COMPUTED]
        if unsigned:
            raise UnsupportedError(f"torch does not compute with {unsigned[0]} ({primitive.op})")
        rule = PRIMITIVES[primitive.op]
        said = HOST_INPUTS.get(primitive.op, ())
        on_host = not self._host.isdisjoint(primitive.outputs)
        inputs = tuple(self._slot(name, on_host or i in said) for i, name in enumerate(primitive.inputs))
        attributes = self._constants.attributes(primitive)
        outputs = tuple(self._new(name) for name in primitive.outputs)
        if all(name in self._fixed for name in primitive.inputs if name):
            results = rule.torch([self._template[i] for i in inputs], attributes)
            for slot, result in zip(outputs, results, strict=False):
                self._template[slot] = result
            self._fixed.update(primitive.outputs)
            return None
        return Step(primitive.op, rule.torch, inputs, outputs, attributes, ())

    def _with_lifetimes(self, steps: list[Step]) -> list[Step]:
        """The steps, each with the slots it is the last to read (constants and wanted tensors are never among them)."""
        kept = {i for i, tensor in enumerate(self._template) if tensor is not None} | set(self._wanted) | {0}
        finished: list[Step] = []
        for step in reversed(steps):
            dead = {*step.inputs, *step.outputs} - kept
            kept |= dead
            finished.append(Step(step.op, step.run, step.inputs, step.outputs, step.attributes, tuple(sorted(dead))))
        return finished[::-1]

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def device_slots(self) -> list[int]:
        """The slots of what is constant and lives on the device."""
        host = {slot for (_, on_host), slot in self._slots.items() if on_host}
        return [i for i, tensor in enumerate(self._template) if tensor is not None and i not in host]

    def fixed(self, slot: int) -> Tensor:
        """The constant in a slot."""
        return self._template[slot]

    def run(self, inputs: list[Tensor], constants: Mapping[int, Tensor] | None = None) -> list[Tensor]:
        """The wanted tensors. `inputs` is emptied, so that each tensor in it can be freed after its last use.

        `constants` replaces what slots hold. Raises EngineError naming the primitive that failed, and MemoryError.
        """
        tensors = list(self._template)
        for slot, tensor in (constants or {}).items():
            tensors[slot] = tensor
        for slot, tensor in zip(self._inputs, inputs, strict=True):
            tensors[slot] = tensor
        inputs.clear()
        tensor = None
        op = ""
        try:
            for step in self._steps:
                op = step.op
                results = step.run([tensors[i] for i in step.inputs], step.attributes)
                for slot, result in zip(step.outputs, results, strict=False):
                    tensors[slot] = result
                for slot in step.dead:
                    tensors[slot] = None
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            if is_out_of_memory(error):
                raise MemoryError(f"torch ran out of memory in {op}") from error
            raise EngineError(f"torch cannot run {op}: {str(error).splitlines()[0]}") from error
        return [tensors[i] for i in self._wanted]


_OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "STATUS_ALLOC_FAILED")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a torch error means that memory ran out: CUDA has a class for it, its libraries and the CPU a message."""
    import torch

    text = str(error)
    return isinstance(error, torch.OutOfMemoryError) or any(sign in text for sign in _OUT_OF_MEMORY)
