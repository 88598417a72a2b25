"""Half-precision and int8 copies of a model, made by onnxruntime's own tools."""

from __future__ import annotations

import logging
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier import output_file
from falsifier.errors import InputError
from falsifier.network import Network, load, runtime

Array = NDArray[Any]

KINDS = ("float16", "int8")
_RANDOM = 64  # samples that calibrate where none are given
_GIVEN = 512  # of those that are given, at most


def quantize(
    model: Path, out: Path, kind: str, *, inputs: Any = None, rng_seed: int = 0, per_channel: bool = False
) -> Network:
    """Write the copy and return it.

    Args:
        kind: float16 (weights and arithmetic, inputs and outputs stay as they are) or int8 (static QDQ).
        inputs: for int8, calibration samples, as `fuzz` takes starts; without them uniform ones in [0, 1].
        per_channel: a scale of its own for each output channel of weights.

    Raises InputError for a model that the tools do not take.
    """
    network = load(model)
    reference = network.reference  # says in one line what is wrong with the file
    if kind not in KINDS:
        raise InputError(f"no kind {kind!r}: use {' or '.join(KINDS)}")
    samples = _samples(network, inputs, rng_seed) if kind == "int8" else []
    try:
        data = (_half(network) if kind == "float16" else _integers(network, samples, per_channel)).SerializeToString()
        inputs_of_copy = _inputs_of(data, model, kind)
    except InputError:
        if already := _already(network, kind):  # some copies the tools take once more
            raise InputError(f"{model}: is {already} already: give the model that it was made of") from None
        raise
    if inputs_of_copy != reference.n:
        raise InputError(f"{model}: its {kind} copy has other inputs")
    output_file.write(out, data, "the copy")
    return load(out)


def _inputs_of(data: bytes, model: Path, kind: str) -> int:
    try:
        return load(data).reference.n
    except InputError as error:
        why = str(error).removeprefix("<bytes>: ")
        raise InputError(f"{model}: onnxruntime refuses its {kind} copy: {why}") from None


def _already(network: Network, kind: str) -> str:
    """What a model is that such a copy cannot be made of, as it is one; empty for others."""
    from onnx import TensorProto

    graph = network.proto().graph
    if kind == "float16" and any(i.data_type == TensorProto.FLOAT16 for i in graph.initializer):
        return "in half precision"
    marks = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")
    return "quantised" if any(n.op_type in marks or n.op_type.startswith("QLinear") for n in graph.node) else ""


def _half(network: Network) -> Any:
    from onnxruntime.transformers.float16 import convert_float_to_float16

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of constants that half precision cannot hold: it clips them
            return convert_float_to_float16(network.proto(), keep_io_types=True)
    except Exception as error:
        raise InputError(f"{network.origin}: cannot be converted to float16: {runtime.one_line(error)}") from error


def _samples(network: Network, inputs: Any, rng_seed: int) -> list[dict[str, Array]]:
    from falsifier.fuzz.starts import read_arrays

    if inputs is not None:
        flat = read_arrays(inputs, network.reference.inputs)[0][:_GIVEN]
    else:
        flat = np.random.Generator(np.random.PCG64(rng_seed)).random((_RANDOM, network.reference.n))
    return [network.reference.feed(row) for row in flat]


def _integers(network: Network, samples: list[dict[str, Array]], per_channel: bool) -> Any:
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._left = iter(samples)

        def get_next(self) -> dict[str, Array] | None:
            return next(self._left, None)

    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            folder = Path(scratch)
            (folder / "model.onnx").write_bytes(network.proto().SerializeToString())
            source = folder / "model.onnx"
            try:  # folds and fuses what would else be quantised twice; not every model goes through it
                quant_pre_process(str(source), str(folder / "prepared.onnx"), skip_symbolic_shape=True)
                source = folder / "prepared.onnx"
            except Exception:  # noqa: BLE001
                source = folder / "model.onnx"
            quantize_static(
                str(source),
                str(folder / "int8.onnx"),
                Reader(),
                quant_format=QuantFormat.QDQ,
                activation_type=QuantType.QInt8,
                weight_type=QuantType.QInt8,
                per_channel=per_channel,
            )
            return onnx.load_model(str(folder / "int8.onnx"))
    except Exception as error:
        raise InputError(f"{network.origin}: cannot be quantised: {runtime.one_line(error)}") from error
    finally:
        logging.disable(before)
