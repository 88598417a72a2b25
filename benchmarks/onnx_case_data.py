"""The cases that the `onnx` package ships (`onnx.backend.test`), as models with inputs to vary: what `onnx_cases.py`
judges by.

A case's inputs play the role of a network's inputs. Three readings of one case, from the most general to the narrowest:

* `all`: every input varies (integers and truth values are shuffled, so that indices stay valid);
* `data`: floating inputs vary, the others (shapes, axes, indices, masks) are constants of the model;
* `first`: only the first input of the widest reading varies.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, numpy_helper

LANES = 4
LATEST_OPSET = 23
_DTYPES = frozenset(
    ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]
)
_TRAINING = frozenset(
    ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss", "Momentum", "Adagrad", "Adam", "Gradient"]
)
_RANDOM = frozenset(
    ["Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial"]
)
_CONTROL = frozenset(["If", "Loop", "Scan", "SequenceMap"])


@dataclass(frozen=True)
class Case:
    """One case. `inputs` and `expected` follow the model's graph inputs and outputs."""

    name: str
    kind: str
    model: ModelProto
    inputs: tuple[NDArray[Any], ...]
    expected: tuple[NDArray[Any], ...]
    rtol: float
    atol: float

    def operators(self) -> set[str]:
        """The operator types of the main graph."""
        return {node.op_type for node in self.model.graph.node}

    def foreign(self) -> str | None:
        """Why a refusal of this case is no loss for feed-forward networks; None where it is one."""
        operators = self.operators()
        domains = {node.domain for node in self.model.graph.node} - {"", "ai.onnx"}
        opset = max((o.version for o in self.model.opset_import if o.domain in ("", "ai.onnx")), default=1)
        if not sum(x.size for x in self.inputs):
            return "no inputs, or only empty ones"
        if domains:
            return f"domain {min(domains)}"
        if operators & _TRAINING:
            return "training"
        if operators & _RANDOM or ("Dropout" in operators and len(self.inputs) == 3):
            return "random"
        if operators & _CONTROL:
            return "control flow"
        if opset > LATEST_OPSET:
            return f"opset above {LATEST_OPSET}"
        if opset < 7:
            return "opset below 7"
        return None

    def readings(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names of the readings and the inputs that vary in each; none twice."""
        everything = tuple(range(len(self.inputs)))
        floating = tuple(i for i in everything if self.inputs[i].dtype.kind == "f")
        seen = set()
        for name, varying in (("all", everything), ("data", floating), ("first", (floating or everything)[:1])):
            if varying and varying not in seen:
                seen.add(varying)
                yield name, varying


@dataclass(frozen=True)
class OutOfScope:
    """A case that no network of numbers can be made of."""

    name: str
    kind: str
    reason: str


def load_cases() -> list[Case | OutOfScope]:
    """Every case whose files the installed package carries, in a fixed order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package's own generators overflow on purpose
        from onnx.backend.test.loader import load_model_tests

        found = [
            case
            for kind in ("node", "simple", "pytorch-converted", "pytorch-operator")
            for case in load_model_tests(kind=kind)
        ]
        return [_read(case) for case in sorted(found, key=lambda case: (case.kind, case.name))]


def _read(case: Any) -> Case | OutOfScope:
    if case.model is not None:
        model, (inputs, expected) = case.model, case.data_sets[0]
    else:
        folder = Path(case.model_dir)
        model = onnx.load(folder / "model.onnx")
        reason = _foreign_types(model)
        if reason:
            return OutOfScope(case.name, case.kind, reason)
        data = folder / "test_data_set_0"
        inputs, expected = ([onnx.load_tensor(p) for p in _numbered(data, what)] for what in ("input", "output"))
    reason = _foreign_types(model)
    if reason:
        return OutOfScope(case.name, case.kind, reason)
    arrays = [numpy_helper.to_array(x) if isinstance(x, TensorProto) else np.asarray(x) for x in (*inputs, *expected)]
    fed = len(inputs)
    return Case(
        case.name, case.kind, _at_latest_opset(model), tuple(arrays[:fed]), tuple(arrays[fed:]), case.rtol, case.atol
    )


def _numbered(folder: Path, what: str) -> Sequence[Path]:
    return sorted(folder.glob(f"{what}_*.pb"), key=lambda path: int(path.stem.rpartition("_")[2]))


def _foreign_types(model: ModelProto) -> str | None:
    """The first type among inputs and outputs that is not a tensor of numbers."""
    for info in (*model.graph.input, *model.graph.output):
        kind = info.type.WhichOneof("value")
        if kind != "tensor_type":
            return str(kind).removesuffix("_type")
        element = info.type.tensor_type.elem_type
        if element == TensorProto.STRING:
            return "strings"
        if onnx.helper.tensor_dtype_to_np_dtype(element).name not in _DTYPES:
            return f"element type {TensorProto.DataType.Name(element).lower()}"
    return None


def _at_latest_opset(model: ModelProto) -> ModelProto:
    """The model said in opset 23 if it uses a later one and is valid in both."""
    lowered = ModelProto()
    lowered.CopyFrom(model)
    for entry in lowered.opset_import:
        if entry.domain in ("", "ai.onnx") and entry.version > LATEST_OPSET:
            entry.version = LATEST_OPSET
            lowered.ir_version = min(lowered.ir_version, 11)
    try:
        onnx.checker.check_model(lowered, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return model
    return lowered


def with_constants(case: Case, varying: Sequence[int]) -> ModelProto:
    """The case's model with every input that does not vary turned into an initializer."""
    model = ModelProto()
    model.CopyFrom(case.model)
    model.ir_version = max(model.ir_version, 4)
    initializers = {t.name for t in model.graph.initializer}
    graph_inputs = [info for info in model.graph.input if info.name not in initializers]
    for i, info in enumerate(graph_inputs):
        if i not in varying:
            model.graph.input.remove(info)
            model.graph.initializer.append(numpy_helper.from_array(case.inputs[i], info.name))
    return model


def lanes_of(case: Case, varying: Sequence[int]) -> list[NDArray[Any]]:
    """For each varying input its lanes, `[LANES, *shape]`: the case's data, a shuffle of it, and noise around it."""
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    stacks = []
    for i in varying:
        data = case.inputs[i]
        lanes = np.stack([data] * LANES)
        for lane in range(1, LANES):
            if data.dtype.kind == "f" and lane > 1:
                with np.errstate(invalid="ignore"):
                    noise = rng.normal(size=data.shape) * (0.1 + 0.2 * np.abs(data))
                lanes[lane] = (data + np.where(np.isfinite(noise), noise, 0)).astype(data.dtype)
            else:
                lanes[lane] = rng.permutation(data.flatten()).reshape(data.shape)
        stacks.append(lanes)
    return stacks
