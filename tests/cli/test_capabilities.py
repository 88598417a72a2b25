"""What `supports` claims is what `verify` does: a live query for every line of every topic."""

from __future__ import annotations

from pathlib import Path

import models
import numpy as np
import onnx
import pytest
from several_networks import HIDDEN, VERSION, asserts, bent, inside, network

from falsifier.cli import main
from falsifier.query import parse
from falsifier.query.theories import theories

BOX = inside("X_f[0,0]", "0.0", "4.0")
TIED = asserts("(== X_g[0,0] X_f[0,0])")
TWO = network("f") + network("g") + BOX + inside("X_g[0,0]", "0.0", "4.0")
BOTH = asserts("(>= Y_f[0,0] 1.9)", "(<= Y_g[0,0] 0.5)")
LIVE = {
    "NH": network("f") + BOX + asserts("(>= Y_f[0,0] 1.9)"),
    "H": network("f", hidden=HIDDEN) + BOX + asserts("(>= H[0,1] 1.5)"),
    "SIO": network("f") + BOX + asserts("(<= Y_f[0,0] -1.5)"),
    "MIO": "(declare-network f (declare-input X_f float32 [1,1]) (declare-output A float32 [1,1])"
    "(declare-output B float32 [1,1]))\n" + BOX + asserts("(<= A[0,0] -3.0)", "(>= B[0,0] 1.75)"),
    "SNET": network("f") + BOX + asserts("(<= Y_f[0,0] -1.5)"),
    "MENET": network("f") + network("g", "(equal-to f) ") + BOX + inside("X_g[0,0]", "0.0", "4.0") + BOTH,
    "MINET": network("f") + network("g", "(isomorphic-to f) ") + BOX + TIED + asserts("(>= Y_f[0,0] 1.9)"),
    "MNET": TWO + BOTH,
    "SNC": TWO + asserts("(>= Y_f[0,0] 1.9)", "(>= Y_g[0,0] 1.9)"),
    "MNC": network("f") + BOX + asserts("(>= (+ Y_f[0,0] X_f[0,0]) 3.9)"),
    "BND": network("f") + BOX + asserts("(>= Y_f[0,0] 1.9)"),
    "OUTC": network("f", m=2) + BOX + asserts("(>= Y_f[0,0] Y_f[0,1])", "(>= Y_f[0,1] 1.5)"),
    "LIN": network("f") + BOX + asserts("(>= (+ (* 2.0 Y_f[0,0]) X_f[0,0]) 5.9)"),
    "POLY": network("f") + BOX + asserts("(>= (* Y_f[0,0] X_f[0,0]) 3.9)", "(!= X_f[0,0] 2.0)"),
}
TOPICS = (
    "hidden-node",
    "multiple-input-output",
    "multiple-network",
    "multiple-node-comparison",
    "arithmetic-complexity",
)
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
CLAIMED_TYPES = ["float16", "float32", "float64", *INTEGERS, "bool", "real"]


def lines(topic: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(["supports", f"--{topic}"]) == 0
    return capsys.readouterr().out.split()


def answer(folder: Path, text: str, given: dict[str, onnx.ModelProto], capsys: pytest.CaptureFixture[str]) -> str:
    """The first line of stdout."""
    (folder / "q.vnnlib").write_text(text)
    words = [w for name, m in given.items() for w in ("--network", f"{name}={models.save(m, folder / f'{name}.onnx')}")]
    assert main(["verify", str(folder / "q.vnnlib"), *words, "--max-evaluations", "20000"]) == 0
    return capsys.readouterr().out.splitlines()[0]


def test_every_theory_has_a_query(capsys: pytest.CaptureFixture[str]) -> None:
    claimed = [name for topic in TOPICS for name in lines(f"{topic}-theories", capsys)]
    assert sorted(claimed) == sorted(LIVE)
    for name, text in LIVE.items():
        assert name in theories(parse(VERSION + text)).names


@pytest.mark.parametrize("name", LIVE)
def test_theories(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = VERSION + LIVE[name]
    models_of = {"OUTC": models.affine(np.array([[1], [0.5]]), [0, 1]), "MIO": models.two_outputs()}
    given = {"f": models_of.get(name, bent())}
    if "network g" in text and "equal-to" not in text:
        given["g"] = bent()
    assert answer(tmp_path, text, given, capsys) == "sat"


@pytest.mark.parametrize("name", CLAIMED_TYPES)
def test_element_types(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Y = X as float32, from an input of the type: at most 1, and more than 0.5."""
    assert lines("onnx-element-types", capsys) == CLAIMED_TYPES
    dtype = np.dtype({"real": "float32"}.get(name, name))
    nodes = [onnx.helper.make_node("Cast", ["X"], ["Y"], to=onnx.TensorProto.FLOAT)]
    model = models.model(nodes, [models.tensor("X", [1, 1], dtype)], [models.tensor("Y", [1, 1])])
    one, zero = ("1.0", "0.0") if dtype.kind == "f" else ("1", "0")
    out, least = ("real", "0.5") if name == "real" else ("float32", "0.5")
    text = f"{VERSION}(declare-network f (declare-input X {name} [1,1]) (declare-output Y {out} [1,1]))\n"
    if name != "bool":  # which has no numbers to compare with
        text += asserts(f"(>= X[0,0] {zero})", f"(<= X[0,0] {one})")
    assert answer(tmp_path, text + asserts(f"(> Y[0,0] {least})"), {"f": model}, capsys) == "sat"


def test_opset_versions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    low, high = map(int, lines("onnx-opset-versions", capsys))
    text = VERSION + LIVE["NH"]
    for opset in range(low, high + 1):
        steps = [models.gemm([[1], [1]], [0, -2]), ("Relu", [], {}), models.gemm([[1, -3]], name="2")]
        model = models.chain(steps, [1, 1], [1, 1], opset=opset)
        model.ir_version = 8 if opset < 21 else 10
        assert answer(tmp_path, text, {"f": model}, capsys) == "sat", opset


def test_versions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = {
        "1.0": models.declare(1, 1) + models.box([0], [4]) + "(assert (>= Y_0 1.9))",
        "2.0": VERSION + LIVE["NH"],
    }
    assert lines("vnnlib-versions", capsys) == list(texts)
    for text in texts.values():
        assert answer(tmp_path, text, {"f": bent()}, capsys) == "sat"


def test_disjunctions_that_no_normal_form_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sixty ors of two: 2^60 disjuncts."""
    assert lines("optimised-disjunctive-reasoning", capsys) == ["true"]
    ors = asserts(*(f"(or (>= Y_f[0,0] {1 + i / 100:.2f}) (<= Y_f[0,0] {-2 - i / 100:.2f}))" for i in range(60)))
    assert answer(tmp_path, VERSION + network("f") + BOX + ors, {"f": bent()}, capsys) == "sat"


def test_assignments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lines("serialise-assignments", capsys) == ["true"]
    (tmp_path / "q.vnnlib").write_text(VERSION + LIVE["NH"])
    path = models.save(bent(), tmp_path / "f.onnx")
    command = ["verify", str(tmp_path / "q.vnnlib"), "--network", f"f={path}"]
    assert main([*command, "--serialise-assignments", str(tmp_path / "out")]) == 0
    found = {p.stem: onnx.load_tensor(str(p)) for p in (tmp_path / "out").glob("*.pb")}
    assert {name: list(t.dims) for name, t in found.items()} == {"X_f": [1, 1], "Y_f": [1, 1]}
    assert onnx.numpy_helper.to_array(found["Y_f"])[0, 0] >= 1.9
