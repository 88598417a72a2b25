"""What doctor says of an installation and of models, and the shapes it chooses where a model leaves them open."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, parser

from falsifier.errors import InputError
from falsifier.network import load
from falsifier.network.doctor import Installation, examine, installation
from falsifier.network.open_shapes import choose_shapes, declared_inputs

HEAD = '<ir_version: 8, opset_import: ["" : 13], producer_name: "maker">\n'


def model(text: str) -> ModelProto:
    return parser.parse_model(HEAD + text)


RELU = "net (float[1,3] x) => (float[1,3] y) <float[3] w = {1, 2, 3}> { a = Mul (x, w) y = Relu (a) }"
# how many rows there are depends on the numbers: neither engine lowers it
NONZERO = "net (float[1,3] x) => (float y) { i = NonZero (x) f = Cast <to = 1> (i) y = ReduceSum <keepdims = 0> (f) }"
IMAGE = """net (float[batch,2,height,width] x) => (float[batch,2,h,w] y) {
    y = MaxPool <kernel_shape = [40, 40], strides = [40, 40]> (x)
}"""
TIED = """net (float[batch,frames] x, float[2,batch] s) => (float[batch,1] y)
  <int64[2] shape = {1, 128}, float[128,1] w, int64[1] axes = {0}> {
    r = Reshape (x, shape)
    t = ReduceSum (s, axes)
    m = ReduceMean <axes = [1], keepdims = 1> (r)
    y = Add (m, t)
}"""


def test_the_installation_is_this_one() -> None:
    found = installation()
    assert found.versions["numpy"] == np.__version__
    assert found.versions["onnxruntime"] == metadata.version("onnxruntime")
    assert "CPUExecutionProvider" in found.providers
    assert found.cores >= 1
    text = "\n".join(found.lines())
    assert f"numpy {np.__version__}" in text
    assert "missing" not in text


def test_what_is_missing_is_said_with_its_remedy() -> None:
    bare = dict.fromkeys(installation().versions)
    text = "\n".join(Installation(None, "3.11", "Linux", bare, (), (), 2).lines())
    for line in ("missing: onnx, which", "install the extra [cpu] or [gpu]", "install the extra [gpu]"):
        assert line in text
    both = bare | {"onnxruntime": "1", "onnxruntime-gpu": "1"}
    assert "overwrite each other" in "\n".join(Installation(None, "3.11", "Linux", both, ("x",), (), 2).lines())


def test_a_model_that_the_first_engine_serves() -> None:
    found = examine(model(RELU))
    assert [(i.name, i.shape, i.dtype) for i in found.inputs] == [("x", (1, 3), np.dtype(np.float32))]
    assert [(o.name, o.shape) for o in found.outputs] == [("y", (1, 3))]
    assert found.operators == {"Mul": 1, "Relu": 1}
    assert (found.parameters, found.opsets, found.producer) == (3, {"": 13}, "maker")
    assert (found.engine, found.device, found.problem) == ("onnxruntime", "cpu", None)
    (attempt,) = found.attempts
    assert attempt.accepted
    assert attempt.check is not None
    assert attempt.check.points > 3
    text = "\n".join(found.lines())
    assert "onnxruntime serves: agrees with the original" in text
    assert "gradients are finite" in text


def test_a_model_that_no_engine_takes_is_served_one_sample_at_a_time() -> None:
    found = examine(model(NONZERO))
    assert found.engine == "single-sample"
    assert [a.accepted for a in found.attempts] == [False, False, True]
    assert all("NonZero" in a.reason for a in found.attempts[:2])
    text = "\n".join(found.lines())
    assert "onnxruntime does not serve" in text
    assert "no gradients" in text


def test_a_file_that_is_no_model_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"\x08\x07 this is no protobuf")
    with pytest.raises(InputError) as error:
        examine(path)
    assert "broken.onnx" in str(error.value)
    assert "\n" not in str(error.value)


def test_cuda_that_cannot_be_had_is_an_input_error() -> None:
    with pytest.raises(InputError, match="cuda:99"):
        examine(model(RELU), device="cuda:99")


def test_open_dimensions_are_read_as_declared() -> None:
    declared = declared_inputs(load(model(TIED)))
    assert [(d.name, d.shape) for d in declared] == [("x", ("batch", "frames")), ("s", (2, "batch"))]
    assert all(d.is_open for d in declared)
    assert not declared_inputs(load(model(RELU)))[0].is_open


def test_a_length_is_chosen_with_which_the_model_gives_numbers() -> None:
    # 32 is too small for the window of 40
    network, sentences = choose_shapes(load(model(IMAGE)))
    assert [i.shape for i in network.reference.inputs] == [(1, 2, 64, 64)]
    assert sentences == ["input 'x': [batch, 2, height, width] has open dimensions; [1, 2, 64, 64] was chosen"]


def test_a_symbol_has_one_length_everywhere_and_a_batch_is_one() -> None:
    network, sentences = choose_shapes(load(model(TIED)))
    assert [i.shape for i in network.reference.inputs] == [(1, 128), (2, 1)]
    assert len(sentences) == 2


def test_shapes_can_be_given() -> None:
    found = examine(model(IMAGE), shapes={"x": (1, 2, 80, 120)})
    assert found.inputs[0].shape == (1, 2, 80, 120)
    assert found.outputs[0].shape == (1, 2, 2, 3)
    assert found.shapes == ()
    with pytest.raises(InputError, match="there is no input 'z'; the inputs are x"):
        examine(model(IMAGE), shapes={"z": (1,)})
    with pytest.raises(InputError, match="input 'x' has shape"):
        examine(model(IMAGE), shapes={"x": (1, 3, 80, 120)})


def test_a_model_that_no_length_suits_asks_for_shapes() -> None:
    text = "net (float[1,n] x) => (float[1,7] y) <int64[2] s = {1, 7}> { y = Reshape (x, s) }"
    with pytest.raises(InputError, match="no lengths were found for the open dimensions of x"):
        examine(model(text))
    assert examine(model(text), shapes={"x": (1, 7)}).engine == "onnxruntime"


def test_outputs_that_are_classes_are_searched_by_their_scores() -> None:
    text = """net (float[1,3] x) => (int64[1] y) <float[3,3] w = {1, 2, 3, 3, 1, 2, 2, 3, 1}> {
        a = MatMul (x, w) y = ArgMax <axis = 1, keepdims = 0> (a)
    }"""
    said = "\n".join(examine(model(text)).lines())
    assert "gradients are zero everywhere" in said
    assert "the outputs are classes or comparisons: queries are searched by the scores behind them" in said
    flat = "net (float[1,3] x) => (float[1,3] y) { f = Floor (x) g = Cast <to = 7> (f) y = Cast <to = 1> (g) }"
    assert "searched by the scores" not in "\n".join(examine(model(flat)).lines())
