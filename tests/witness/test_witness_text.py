"""Witness text: every byte of both formats, and back bit by bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy
from numpy.typing import NDArray

from falsifier.errors import InputError
from falsifier.query.tree import Kind, NetworkDeclaration, Query, Variable
from falsifier.witness.outcome import Witness, WitnessClass
from falsifier.witness.tensors import read_tensors, write_tensors
from falsifier.witness.text import decimals, read_witness, write_witness

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
TYPES = ("float16", "float32", "float64", "int8", "int64", "uint8", "uint64", "bool")


def query_v1(n: int, m: int) -> Query:
    x, y = Variable("X", Kind.INPUT, "real", (n,)), Variable("Y", Kind.OUTPUT, "real", (m,))
    return Query((1, 0), (NetworkDeclaration("", (x,), (y,)),), ())


def query_v2(*variables: Variable) -> Query:
    inputs = tuple(v for v in variables if v.kind is Kind.INPUT)
    outputs = tuple(v for v in variables if v.kind is Kind.OUTPUT)
    return Query((2, 0), (NetworkDeclaration("N", inputs, outputs),), ())


def networks_and_hidden() -> Query:
    """Two networks: one with a hidden variable, one with another and two outputs."""

    def variables(kind: Kind, *names: str) -> tuple[Variable, ...]:
        return tuple(Variable(name, kind, "float32", (1,), name) for name in names)

    f = NetworkDeclaration("f", variables(Kind.INPUT, "X"), variables(Kind.OUTPUT, "Y"), variables(Kind.HIDDEN, "H"))
    g = NetworkDeclaration(
        "g", variables(Kind.INPUT, "V"), variables(Kind.OUTPUT, "W", "Z"), variables(Kind.HIDDEN, "K")
    )
    return Query((2, 0), (f, g), ())


def witness(inputs: list[NDArray[Any]], outputs: list[NDArray[Any]]) -> Witness:
    return Witness(inputs, outputs, WitnessClass.EXACT, "")


AWKWARD = [0.1, -0.0, 0.0, 1.0, 1 / 3, 1e-45, 1e-38, 3.4028235e38, 16777216.0, 1e22, -2.5e-7, 123456.79]


def golden_cases() -> dict[str, tuple[Query, Witness]]:
    floats = np.array(AWKWARD, np.float32)
    two = query_v2(
        Variable("image", Kind.INPUT, "float32", (1, 2, 6)),
        Variable("token", Kind.INPUT, "int64", (2,)),
        Variable("flag", Kind.INPUT, "bool", ()),
        Variable("score", Kind.OUTPUT, "real", (1, 1)),
        Variable("label", Kind.OUTPUT, "uint8", (1,)),
    )
    inputs = [floats, np.array([-(2**63), 2**63 - 1]), np.array([True])]
    halves = [np.array([i / 2], np.float32) for i in range(8)]
    return {
        "witness_v2_networks.txt": (
            networks_and_hidden(),
            Witness(halves[0:2], halves[4:7], WitnessClass.EXACT, "", halves[2:4]),
        ),
        "witness_v1.txt": (query_v1(12, 2), witness([floats], [np.array([0.25, -1e-9], np.float32)])),
        "witness_v2.txt": (two, witness(inputs, [np.array([1e-9], np.float32), np.array([255], np.uint8)])),
        "witness_v1_not_finite.txt": (
            query_v1(1, 3),
            witness([floats[:1]], [np.array([np.inf, -np.inf, np.nan], np.float32)]),
        ),
    }


@pytest.mark.parametrize("name", golden_cases())
def test_golden(name: str) -> None:
    query, given_ = golden_cases()[name]
    assert write_witness(query, given_) == (GOLDEN / name).read_text()


def same_bits(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return a.dtype == b.dtype and a.tobytes() == b.tobytes()


def arrays(dtype: str, size: int) -> st.SearchStrategy[NDArray[Any]]:
    elements = st_numpy.from_dtype(np.dtype(dtype), allow_nan=False, allow_infinity=False)
    return st_numpy.arrays(dtype, size, elements=elements)


@given(st.data())
@settings(deadline=None)
def test_v1_reads_back_the_same_bits(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(("float32", "float64", "float16")))
    x = data.draw(arrays(dtype, data.draw(st.integers(1, 6))))
    y = data.draw(arrays(dtype, data.draw(st.integers(1, 6))))
    query = query_v1(x.size, y.size)
    text = write_witness(query, witness([x], [y]))
    back = read_witness(query, text)
    assert same_bits(back.inputs[0].astype(dtype), x)
    assert same_bits(back.outputs[0].astype(dtype), y)
    assert "e" not in text


@given(st.data())
@settings(deadline=None)
def test_v2_reads_back_the_same_bits(data: st.DataObject) -> None:
    variables, values = [], []
    for i in range(data.draw(st.integers(1, 4))):
        dtype = data.draw(st.sampled_from(TYPES))
        shape = tuple(data.draw(st.lists(st.integers(1, 3), max_size=3)))
        kind = Kind.INPUT if i == 0 else data.draw(st.sampled_from((Kind.INPUT, Kind.OUTPUT)))
        variable = Variable(f"v{i}", kind, dtype, shape)
        variables.append(variable)
        values.append(data.draw(arrays(dtype, variable.size)))
    query = query_v2(*variables)
    parts = list(zip(variables, values, strict=True))
    inputs = [value for variable, value in parts if variable.kind is Kind.INPUT]
    outputs = [value for variable, value in parts if variable.kind is Kind.OUTPUT]
    back = read_witness(query, "sat\n" + write_witness(query, witness(inputs, outputs)))
    for got, wanted in zip([*back.inputs, *back.outputs], [*inputs, *outputs], strict=True):
        assert same_bits(got.astype(wanted.dtype), wanted)


def test_decimals_read_back_to_the_same_float64() -> None:
    values = np.array(AWKWARD, np.float32)
    texts = decimals(values)
    assert [float(t) for t in texts] == values.astype(np.float64).tolist()
    assert not any("e" in t for t in texts)


def test_tensors_read_back_the_same_bits(tmp_path: Path) -> None:
    query, given_ = golden_cases()["witness_v2.txt"]
    paths = write_tensors(query, given_, tmp_path / "new" / "folder")
    assert [path.name for path in paths] == ["image.pb", "token.pb", "flag.pb", "score.pb", "label.pb"]
    back = read_tensors(query, tmp_path / "new" / "folder")
    for got, wanted in zip([*back.inputs, *back.outputs], [*given_.inputs, *given_.outputs], strict=True):
        assert same_bits(got, wanted)


def test_hidden_values_are_written_and_left_when_read(tmp_path: Path) -> None:
    query, given_ = golden_cases()["witness_v2_networks.txt"]
    back = read_witness(query, write_witness(query, given_))
    paths = write_tensors(query, given_, tmp_path)
    assert [path.stem for path in paths] == ["X", "H", "Y", "V", "K", "W", "Z"]
    for read in (back, read_tensors(query, tmp_path)):
        assert [value.tolist() for value in read.inputs] == [[0], [0.5]]
        assert [value.tolist() for value in read.outputs] == [[2], [2.5], [3]]
    with pytest.raises(InputError, match="line 3: expected the header of H, found 'Y float32"):
        read_witness(query, write_witness(query, given_).replace("H float32 [1]\n1.0\n", ""))


def test_tensors_have_type_and_shape_of_the_declaration(tmp_path: Path) -> None:
    import onnx

    query, given_ = golden_cases()["witness_v2.txt"]
    write_tensors(query, given_, tmp_path)
    tensor = onnx.TensorProto.FromString((tmp_path / "image.pb").read_bytes())
    assert list(tensor.dims) == [1, 2, 6]
    assert tensor.data_type == onnx.TensorProto.FLOAT
    assert list(onnx.TensorProto.FromString((tmp_path / "flag.pb").read_bytes()).dims) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no witness"),
        ("sat\n", "no witness"),
        ("X_0 1", "form"),
        ("((X_0 1)(X_2 1)(Y_0 1))", "out of order"),
        ("((X_0 1)(Y_0 1)(X_1 1))", "out of order"),
        ("((X_0 1)(Y_0 1))", "1 value of X, the query declares 2"),
        ("((X_0 1)(X_1 nan)(Y_0 1))", "expected one like"),
        ("((X_0 1)(X_1 inf)(Y_0 1))", "expected one like"),
    ],
)
def test_malformed_v1(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_witness(query_v1(2, 1), text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Z float32 [1]\n0\n", "header of X"),
        ("X float64 [2]\n0\n0\nY real [1]\n0\n", "type float64, declared float32"),
        ("X float32 [1,2]\n0\n0\nY real [1]\n0\n", "shape"),
        ("X float32 [2]\n0\nY real [1]\n0\n", "2 numbers"),
        ("X float32 [2]\n0\n0\n", "header of Y"),
        ("X float32 [2]\n0\n0\nY real [1]\n0\nmore\n", "after the last value"),
        ("X float32 [2]\n0\nnan\nY real [1]\n0\n", "2 numbers"),
    ],
)
def test_malformed_v2(text: str, message: str) -> None:
    query = query_v2(Variable("X", Kind.INPUT, "float32", (2,)), Variable("Y", Kind.OUTPUT, "real", (1,)))
    with pytest.raises(InputError, match=message):
        read_witness(query, text)
