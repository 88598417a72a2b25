"""Declared variables and the networks' tensors: matched by position, refused with a reason."""

from __future__ import annotations

from typing import Any

import models
import numpy as np
import onnx
import pytest

from falsifier.errors import InputError
from falsifier.network import load
from falsifier.network.reference import Reference
from falsifier.query.tree import Kind, NetworkDeclaration, Query, Variable
from falsifier.witness.binding import CastError, assign, bind, cast

Tensor = tuple[str, tuple[int, ...]]  # element type and dimensions


def network(inputs: list[Tensor], outputs: list[Tensor], name: str = "N", **more: str) -> NetworkDeclaration:
    return NetworkDeclaration(
        name,
        tuple(Variable(f"{name}x{i}", Kind.INPUT, *tensor) for i, tensor in enumerate(inputs)),
        tuple(Variable(f"{name}y{i}", Kind.OUTPUT, *tensor) for i, tensor in enumerate(outputs)),
        equal_to=more.get("equal_to"),
    )


def query_v1(n: int, m: int) -> Query:
    return Query((1, 0), (network([("real", (n,))], [("real", (m,))], ""),), ())


def query_v2(*networks: NetworkDeclaration) -> Query:
    return Query((2, 0), networks, ())


def reference(model: onnx.ModelProto, shapes: list[tuple[int, ...]] | None = None) -> Reference:
    return load(model).shaped(shapes).reference


def test_v1_binds_flat() -> None:
    binding = bind(query_v1(2, 1), [reference(models.affine([[1, 1]]))])
    (x,) = binding.split(np.array([0.5, 0.25]))
    assert x.dtype == np.float32
    assert x.tolist() == [0.5, 0.25]


def test_v1_may_leave_the_outputs_undeclared() -> None:
    bind(query_v1(2, 0), [reference(models.affine([[1, 1]]))])


@pytest.mark.parametrize(
    ("query", "model", "message"),
    [
        (query_v1(3, 1), models.affine([[1, 1]]), "declares 3 inputs X, the network has 2"),
        (query_v1(2, 2), models.affine([[1, 1]]), "declares 2 outputs Y, the network has 1"),
        (query_v1(1, 2), models.two_outputs(), "v1 properties need a single output, the network has 2"),
    ],
)
def test_v1_refuses(query: Query, model: onnx.ModelProto, message: str) -> None:
    with pytest.raises(InputError, match=message):
        bind(query, [reference(model)])


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ([("float32", (1, 2))], [("float32", (1, 1))]),
        ([("real", (2,))], [("real", ())]),
        ([("float32", (2, 1))], [("real", (1, 1, 1))]),
    ],
)
def test_v2_takes_any_shape_of_the_size(inputs: list[Tensor], outputs: list[Tensor]) -> None:
    declaration = network(inputs, outputs)
    bind(query_v2(declaration), [reference(models.affine([[1, 1]]), [v.shape for v in declaration.inputs])])


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        ([("float32", (1, 2)), ("float32", (1,))], [("float32", (1, 1))], "declares 2 inputs, its model has 1"),
        ([("float32", (1, 2))], [], "declares 0 outputs, its model has 1"),
        ([("float32", (1, 3))], [("float32", (1, 1))], r"has shape \[1, 3\]"),
        ([("float64", (1, 2))], [("float32", (1, 1))], "declared float64, the ONNX tensor has float32"),
        ([("float32", (1, 2))], [("int64", (1, 1))], "declared int64, the ONNX tensor has float32"),
    ],
)
def test_v2_refuses(inputs: list[Tensor], outputs: list[Tensor], message: str) -> None:
    with pytest.raises(InputError, match=message):
        bind(query_v2(network(inputs, outputs)), [reference(models.affine([[1, 1]]))])


F, G = network([("real", (1,))], [("real", (1,))], "f"), network([("real", (1,))], [("real", (1,))], "g")
COPY = network([("real", (1,))], [("real", (1,))], "g", equal_to="f")


@pytest.mark.parametrize(
    ("query", "given", "expected"),
    [
        (query_v1(1, 1), [(None, "a")], ["a"]),
        (query_v1(1, 1), [("N", "a")], ["a"]),
        (query_v2(F), [(None, "a")], ["a"]),
        (query_v2(F), [("f", "a")], ["a"]),
        (query_v2(F, G), [("g", "b"), ("f", "a")], ["a", "b"]),
        (query_v2(F, COPY), [("f", "a")], ["a", "a"]),
        (query_v2(F, COPY), [("f", "a"), ("g", "a")], ["a", "a"]),
        (query_v2(F, COPY), [(None, "a")], ["a", "a"]),
    ],
)
def test_assign(query: Query, given: list[tuple[str | None, str]], expected: list[str]) -> None:
    assert assign(query, given) == expected


@pytest.mark.parametrize(
    ("query", "given", "message"),
    [
        (query_v1(1, 1), [("f", "a"), ("g", "b")], "one network, 2 are given"),
        (query_v1(1, 1), [], "one network, 0 are given"),
        (query_v2(F), [("h", "a")], "declares no network 'h'"),
        (query_v2(F), [("f", "a"), ("h", "b")], "declares no network 'h'"),
        (query_v2(F, G), [("f", "a")], "no model is given for network g"),
        (query_v2(F, G), [(None, "a")], "give each network as NAME=FILE"),
        (query_v2(F, G), [(None, "a"), ("g", "b")], "give each as NAME=FILE"),
        (query_v2(F, COPY), [("f", "a"), ("g", "b")], "another model"),
    ],
)
def test_assign_refuses(query: Query, given: list[tuple[str | None, str]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        assign(query, given)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([np.nan], np.float32),
        ([np.inf], np.float64),
        ([1e39], np.float32),
        ([70000.0], np.float16),
        ([0.5], np.int64),
        ([-1.0], np.uint8),
        ([300.0], np.int8),
        ([2.0], np.bool_),
    ],
)
def test_cast_refuses(values: Any, dtype: Any) -> None:
    with pytest.raises(CastError, match="X: a value"):
        cast(np.array(values), np.dtype(dtype), "X")


def test_cast_keeps_large_integers() -> None:
    values = np.array([2**63 - 1, -(2**63), 2**53 + 1])
    assert cast(values, np.dtype(np.int64), "X").tolist() == values.tolist()
