"""The reference and the loader: what the original says, and one clear line for what cannot be loaded."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from models import chain, identity, save
from onnx import ModelProto, numpy_helper
from small_networks import AFFINE, read

from falsifier.errors import EngineError, InputError, UnsupportedError
from falsifier.network import load
from falsifier.network.reference import Reference
from falsifier.network.single import SingleSampleEngine

MIXED = read(
    """net (int64[2] i, bool[1] b, float16[2] h) => (float[2] y, float16[2] k) {
    p = Cast <to = 1> (i)
    q = Cast <to = 1> (b)
    y = Add (p, q)
    k = Neg (h)
    }"""
)


def bytes_of(model: ModelProto) -> bytes:
    return bytes(model.SerializeToString())


def test_inputs_and_outputs_are_told() -> None:
    reference = load(MIXED).reference
    assert [(i.name, i.shape, i.dtype.name, i.size) for i in reference.inputs] == [
        ("i", (2,), "int64", 2),
        ("b", (1,), "bool", 1),
        ("h", (2,), "float16", 2),
    ]
    assert [(o.name, o.shape, o.dtype.name) for o in reference.outputs] == [
        ("y", (2,), "float32"),
        ("k", (2,), "float16"),
    ]
    assert (reference.n, reference.m, reference.dtype.name) == (5, 4, "float32")


def test_flat_points_are_cast_input_by_input() -> None:
    y = load(MIXED).reference.run_flat(np.array([1.9, -1.9, 0.5, 0.1, 2.0], np.float32))
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, [2, 0, -np.float32(np.float16(0.1)), -2])


def test_run_takes_any_shape_of_the_right_size_and_keeps_output_types() -> None:
    y, k = load(MIXED).reference.run([np.array([[3, 4]]), np.array(True), np.array([[1.0], [2.0]])])
    np.testing.assert_array_equal(y, [4, 5])
    assert k.dtype == np.float16


def test_double_networks_are_double() -> None:
    reference = load(identity(2, np.float64)).reference
    x = np.array([0.1, 1 / 3])
    assert reference.dtype == np.float64
    np.testing.assert_array_equal(reference.run_flat(x), x)


def test_open_dimensions_are_one_or_what_is_asked_for() -> None:
    model = chain([("Relu", [], {})], ["N", "C"], ["N", "C"])
    assert load(model).reference.inputs[0].shape == (1, 1)
    shaped = load(model).shaped([(2, 3)]).reference
    assert shaped.inputs[0].shape == (2, 3)
    assert shaped.outputs[0].shape == (2, 3)
    assert shaped.m == 6


def test_a_shape_of_the_same_size_stands_for_a_fixed_one_and_no_other_does() -> None:
    model = chain([("Relu", [], {})], [1, 1, 5], [1, 1, 5])
    assert load(model).shaped([(5,)]).reference.inputs[0].shape == (1, 1, 5)
    with pytest.raises(InputError, match=r"input 'X' has shape \[1, 1, 5\], the query declares \[4\]"):
        _ = load(model).shaped([(4,)]).reference
    with pytest.raises(InputError, match="has 1 input, the query declares 2"):
        _ = load(model).shaped([(5,), (5,)]).reference


def test_initializers_among_the_inputs_are_no_inputs() -> None:
    assert [i.name for i in load(AFFINE["initializers among the inputs"]).reference.inputs] == ["x"]


def test_an_open_output_is_known_after_one_run() -> None:
    reference = load(read("net (float[1,4] x) => (float[A,B] y) { y = Neg (x) }")).reference
    reference.run_flat(np.zeros(4, np.float32))
    assert reference.outputs[0].shape == (1, 4)


def test_plain_packed_and_in_memory_files_are_the_same(tmp_path: Path) -> None:
    model = AFFINE["flatten at axis 0"]
    plain = save(model, tmp_path / "a.onnx")
    packed = tmp_path / "b.onnx.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    x = np.array([3.0, 5.0], np.float32)
    for source in (plain, str(plain), packed, plain.read_bytes(), packed.read_bytes(), model):
        np.testing.assert_array_equal(load(source).reference.run_flat(x), [-2])
        np.testing.assert_array_equal(load(source).engine().outputs(x[None]), [[-2]])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.onnx", "b.onnx.gz"]


def external(folder: Path) -> Path:
    """A file of a model whose weights lie beside it."""
    model = ModelProto()
    model.CopyFrom(AFFINE["flatten at axis 0"])
    for tensor in model.graph.initializer:  # only raw bytes can live outside
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    path = folder / "a.onnx"
    onnx.save_model(model, str(path), save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_external_data_is_found_beside_the_file(tmp_path: Path, packed: bool) -> None:
    path = external(tmp_path)
    assert (tmp_path / "weights.bin").exists()
    if packed:
        path.write_bytes(gzip.compress(path.read_bytes()))
    x = np.array([3.0, 5.0], np.float32)
    network = load(path)
    np.testing.assert_array_equal(network.reference.run_flat(x), [-2])
    np.testing.assert_array_equal(network.engine().outputs(x[None]), [[-2]])


def test_the_first_evaluation_needs_no_onnx(tmp_path: Path) -> None:
    path = save(identity(), tmp_path / "a.onnx")
    script = (
        "import sys, numpy as np\n"
        "from falsifier.network import load\n"
        f"print(load({str(path)!r}).reference.run_flat(np.ones(1, np.float32))[0])\n"
        "print(sorted({'onnx', 'torch', 'scipy', 'google.protobuf'} & set(sys.modules)))\n"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out.split("\n")[:2] == ["1.0", "[]"]


NOT_A_MODEL = "it is not an ONNX protobuf"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", NOT_A_MODEL),
        (b"not a model", NOT_A_MODEL),
        (bytes_of(AFFINE["flatten at axis 0"])[:-20], NOT_A_MODEL),
        (gzip.compress(bytes_of(AFFINE["flatten at axis 0"]))[:-12], "damaged gzip file"),
    ],
    ids=["empty", "text", "cut off", "gzip cut off"],
)
def test_bytes_that_are_no_model_are_refused_in_one_line(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(data)
    with pytest.raises(InputError) as refusal:
        _ = load(path).reference
    assert str(refusal.value).startswith(f"{path}: ")
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.onnx: cannot be read: No such file"):
        load(tmp_path / "nowhere.onnx")


def test_an_unknown_domain_is_named() -> None:
    model = ModelProto()
    model.CopyFrom(identity())
    model.graph.node[0].domain = "vendor.ops"
    with pytest.raises(InputError, match=r"vendor\.ops") as refusal:
        _ = load(model).reference
    assert "\n" not in str(refusal.value)


def test_a_text_tensor_is_not_searched() -> None:
    with pytest.raises(UnsupportedError, match="element type"):
        _ = load(read("net (string[1] x) => (string[1] y) { y = Identity (x) }")).reference


def test_a_run_that_fails_is_an_input_error() -> None:
    model = read(
        "net (float[1,4] x, int64[1] s) => (float[A] y) { y = Reshape (x, s) }",
    )
    reference = Reference(bytes_of(model))
    with pytest.raises(InputError, match="onnxruntime fails on this input"):
        reference.run_flat(np.array([1, 2, 3, 4, 3], np.float32))


def test_single_samples_as_an_engine() -> None:
    reference = load(AFFINE["two inputs, two outputs"]).reference
    engine = SingleSampleEngine(reference)
    x = np.random.default_rng(0).normal(size=(3, engine.n)).astype(np.float32)
    np.testing.assert_array_equal(engine.outputs(x), np.stack([reference.run_flat(p) for p in x]))
    assert engine.outputs(x[:0]).shape == (0, engine.m)
    assert not engine.differentiable
    for call in (lambda: engine.vjp(x, x), lambda: engine.activations(x, ["p"])):
        with pytest.raises(EngineError):
            call()


LOOKUP = read(
    """net (float[1] x) => (float[1] y) <float[3] w = {1.0, 2.0, 4.0}> {
    i = Cast <to = 7> (x)
    y = Gather <axis = 0> (w, i)
    }"""
)


def test_samples_that_the_model_refuses_are_rows_of_nan() -> None:
    engine = SingleSampleEngine(load(LOOKUP).reference)
    y = engine.outputs(np.array([[7], [1], [-9], [2]], np.float32))
    np.testing.assert_array_equal(y, [[np.nan], [2], [np.nan], [4]])
    assert np.isnan(engine.outputs(np.array([[7]], np.float32))).all()


def test_outputs_whose_size_depends_on_the_input_are_refused() -> None:
    model = read("net (float[3] x) => (int64[1, k] y) { y = NonZero (x) }")
    reference = load(model).reference
    reference.run_flat(np.array([1, 0, 1], np.float32))
    with pytest.raises(InputError, match="output 'y' has 3 values on this input, 2 on others"):
        reference.run_flat(np.array([1, 1, 1], np.float32))


def test_a_declared_output_size_that_is_wrong_yields_to_the_first_run() -> None:
    """onnxruntime's own inference counts a pooling window that starts behind the end; its kernel does not."""
    model = read(
        """net (float[1,1,7] x) => (float[1,1,k] y) {
        y = MaxPool <kernel_shape = [1], strides = [4], ceil_mode = 1> (x)
        }"""
    )
    reference = load(model).reference
    for value in (1, 2):
        assert reference.run_flat(np.full(7, value, np.float32)).size == reference.m == 2


def test_a_model_without_inputs() -> None:
    reference = load(read("net () => (float[1] y) { y = Constant <value = float[1] {3.0}> () }")).reference
    assert (reference.n, reference.m) == (0, 1)
    np.testing.assert_array_equal(reference.run_flat(np.zeros(0, np.float32)), [3])


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_external_data_behind_a_link(tmp_path: Path, link: Callable[[Path, Path], None]) -> None:
    """As caches of downloaded models keep it: onnxruntime reads it, the loader of onnx would not."""
    path = external(tmp_path)
    (tmp_path / "weights.bin").rename(tmp_path / "blob")
    link(tmp_path / "blob", tmp_path / "weights.bin")
    network = load(path)
    assert network.engine().name == "onnxruntime"
    np.testing.assert_array_equal(numpy_helper.to_array(network.proto().graph.initializer[0]), [[1], [-1]])
