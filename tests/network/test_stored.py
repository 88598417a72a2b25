"""Models read without their weights: the same arrays, from wherever they lie, and a message that does not hold them."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from falsifier.errors import InputError
from falsifier.network import load
from falsifier.network.lowering import lower
from falsifier.network.stored import reader

LIMIT = 1 << 31
RNG = np.random.default_rng(0)
KINDS = ("float32", "float64", "float16", "int8", "uint8", "int32", "int64", "bool")


def constants() -> dict[str, NDArray[Any]]:
    """An array of every plain type, two megabytes in all, and a small one."""
    arrays = {kind: (8 * RNG.normal(size=(70, 900))).astype(kind) for kind in KINDS}
    return arrays | {"small": np.arange(3.0)}


def model_of(arrays: dict[str, NDArray[Any]]) -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(a, name) for name, a in arrays.items()]
    fields = helper.make_tensor("listed", TensorProto.FLOAT, [40_000], np.arange(40_000, dtype=np.float32).tolist())
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])
    nodes = [helper.make_node("Neg", ["x"], ["y"])]
    graph = helper.make_graph(nodes, "g", [info], [helper.make_tensor_value_info("y", 1, [1, 4])], [*tensors, fields])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize("where", ["file", "memory", "beside"])
def test_every_initializer_is_what_onnx_reads(tmp_path: Path, where: str) -> None:
    arrays = constants()
    model = model_of(arrays)
    path = tmp_path / "m.onnx"
    if where == "beside":
        onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=100)
    else:
        path.write_bytes(model.SerializeToString())
    data = path.read_bytes() if where == "memory" else None
    with reader(path, data, "m", LIMIT) as (text, read):
        framed = onnx.load_model_from_string(text)
        found = {i.name: read(i) for i in framed.graph.initializer}
    assert len(text) < 200_000 < sum(a.nbytes for a in arrays.values())
    assert framed.graph.node == model.graph.node
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == (np.float32 if array.dtype == np.float16 else array.dtype)
        assert found[name].flags.aligned
    np.testing.assert_array_equal(found["listed"], np.arange(40_000))


def test_a_type_that_numpy_does_not_have_is_read_by_onnx(tmp_path: Path) -> None:
    values = np.linspace(-3, 3, 600_000, dtype=np.float32)
    tensor = helper.make_tensor("b", TensorProto.BFLOAT16, [values.size], values)
    path = tmp_path / "m.onnx"
    model = model_of({})
    model.graph.initializer.append(tensor)
    onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=100)
    beside = load(path).proto().graph.initializer
    with reader(path, None, "m", LIMIT) as (text, read):
        found = [read(i) for i in onnx.load_model_from_string(text).graph.initializer if i.name == "b"]
    whole = next(numpy_helper.to_array(i) for i in beside if i.name == "b")
    np.testing.assert_array_equal(found[0], whole.astype(np.float32))


def test_a_small_model_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(model_of({"w": np.ones((100, 400), np.float32)}).SerializeToString())
    with reader(path, None, "m", LIMIT) as (text, _):
        assert text == path.read_bytes()


def test_what_is_no_model_is_left_to_onnx(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(model_of(constants()).SerializeToString()[:-7])
    with reader(path, None, "m", LIMIT) as (text, _):
        assert text == path.read_bytes()


def test_data_that_is_cut_off_is_named(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(model_of(constants()), path, save_as_external_data=True, location="weights", size_threshold=100)
    with (tmp_path / "weights").open("r+b") as file:
        file.truncate(1000)
    with (
        reader(path, None, "m.onnx", LIMIT) as (text, read),
        pytest.raises(InputError, match=r"m\.onnx: the data of initializer 'float32' is cut off"),
    ):
        read(onnx.load_model_from_string(text).graph.initializer[0])


@pytest.mark.parametrize("beside", [False, True])
def test_weights_are_held_once(tmp_path: Path, beside: bool) -> None:
    """Of 64 MB, in one matrix, a tenth more at most, from the file to the lowered program."""
    size = 4000
    matrix = np.ones((size, size), np.float32)
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size]) for name in "xy"]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:], [numpy_helper.from_array(matrix, "w")])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    path = tmp_path / "m.onnx"
    onnx.save(model, path, save_as_external_data=beside, location="weights" if beside else None)
    del model, graph
    with reader(path, None, "m", LIMIT) as (text, read):
        proto = onnx.load_model_from_string(text)
        tracemalloc.start()
        lowered = lower(proto, None, (), read)
        held, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert len(text) < 1000
    assert matrix.nbytes <= held <= most < 1.1 * matrix.nbytes
    np.testing.assert_array_equal(next(c for c in lowered.program.constants.values() if c.ndim == 2), matrix)
