"""`supports`: the standard's lines, true to what is there."""

from __future__ import annotations

import re

import pytest

from falsifier.cli import main
from falsifier.network.control_flow import CONTROL_FLOW
from falsifier.network.folding import FOLDED
from falsifier.network.operators import LOWERINGS


def lines(topic: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(["supports", f"--{topic}"]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("onnx-opset-versions", ["7", "23"]),
        ("vnnlib-versions", ["1.0", "2.0"]),
        ("hidden-node-theories", ["NH", "H"]),
        ("multiple-input-output-theories", ["SIO", "MIO"]),
        ("multiple-inputs-output-theories", ["SIO", "MIO"]),
        ("multiple-network-theories", ["SNET", "MENET", "MINET", "MNET"]),
        ("multiple-node-comparison-theories", ["SNC", "MNC"]),
        ("arithmetic-complexity-theories", ["BND", "OUTC", "LIN", "POLY"]),
        ("optimised-disjunctive-reasoning", ["true"]),
        ("serialise-assignments", ["true"]),
        ("unsat-proofs", ["false"]),
    ],
)
def test_topics(topic: str, expected: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(topic, capsys) == expected
    assert lines(topic, capsys) == expected  # asking twice is the same


def test_operators_are_those_of_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    found = lines("onnx-operators", capsys)
    assert {"Relu", "Gemm", "Conv", "MatMul", "Constant", "Loop", "If"} <= set(found)
    assert set(found) <= {*LOWERINGS, *FOLDED, *CONTROL_FLOW}
    assert not {"RandomNormalLike", "StringConcat"} & set(found)
    assert all(re.fullmatch("[A-Z][A-Za-z0-9]*", operator) for operator in found)


def test_element_types(capsys: pytest.CaptureFixture[str]) -> None:
    assert {"float32", "float64", "real", "int64", "bool"} <= set(lines("onnx-element-types", capsys))
