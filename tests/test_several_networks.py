"""Queries over several networks and over hidden tensors, from text to a confirmed witness."""

from __future__ import annotations

from typing import Any

import models
import numpy as np
import onnx
import pytest
from several_networks import DIAGONAL, FALLS, HIDDEN, VERSION, asserts, bent, inside, network

from falsifier import InputError, Result, StopReason, Verdict, falsify
from falsifier.arguments import as_networks
from falsifier.errors import UnboundedError
from falsifier.query import parse
from falsifier.query.tree import Kind, Variable
from falsifier.records import replaced

CAP = 20_000


def run(networks: Any, query: str, **options: Any) -> Result:
    return falsify(networks, query, timeout=120, **({"max_evaluations": CAP} | options))


def values(result: Result) -> list[list[float]]:
    assert result.verdict is Verdict.SAT, result.reason_text
    assert result.class_ == "exact"
    assert result.witness is not None
    return [array.tolist() for array in (*result.witness.inputs, *result.witness.outputs)]


def test_two_copies_of_one_network() -> None:
    (x, v, y, w) = values(run(bent(), FALLS))
    assert 3 >= x[0] > v[0] >= 0
    assert y[0] < w[0]


@pytest.mark.parametrize("given", [{"f": bent()}, {"f": bent(), "g": bent()}, [("g", bent()), ("f", bent())]])
def test_the_copy_s_own_model_may_be_given_or_not(given: Any) -> None:
    values(run(given, FALLS))


def test_the_diagonal_is_no_counterexample() -> None:
    result = run(bent(), DIAGONAL, max_evaluations=3000)
    assert result.verdict is Verdict.UNKNOWN
    assert max(m for m in result.margins if m is not None) < 0


def test_a_needle_off_the_diagonal() -> None:
    """X_f and X_g at most 1/1000 apart, on the falling side: f falls short of g there alone."""
    text = FALLS + asserts("(<= X_f[0,0] (+ X_g[0,0] 0.001))", "(< (+ Y_f[0,0] 0.0015) Y_g[0,0])")
    (x, v, _, _) = values(run(bent(), text))
    assert x[0] > 2
    assert 0 < x[0] - v[0] <= 0.001


def two(relation: str = "", dtype: str = "float32") -> str:
    return VERSION + network("f", dtype=dtype) + network("g", relation, dtype=dtype)


@pytest.mark.parametrize("relation", ["", "(isomorphic-to f) "])
def test_different_networks_on_one_input(relation: str) -> None:
    """2 X - 1 exceeds X / 2 + 0.4 above 14/15 alone; only X_f has a box."""
    text = two(relation) + inside("X_f[0,0]", "0.0", "1.0")
    text += asserts("(== X_g[0,0] X_f[0,0])", "(> Y_f[0,0] (+ Y_g[0,0] 0.0))")
    (x, v, y, w) = values(run({"f": models.affine([[2]], [-1]), "g": models.affine([[0.5]], [0.4])}, text))
    assert x == v
    assert x[0] > 14 / 15
    assert y[0] > w[0]


def test_a_linear_tie_is_followed() -> None:
    """X_g = 2 X_f + 1, without a box of its own: Y_g = 4 exactly at X_f = 1.5."""
    text = two() + inside("X_f[0,0]", "0.0", "2.0")
    text += asserts("(== X_g[0,0] (+ (* 2.0 X_f[0,0]) 1.0))", "(<= Y_g[0,0] 4.0)", "(>= Y_f[0,0] 1.5)")
    (x, v, _, _) = values(run([("f", models.identity()), ("g", models.identity())], text))
    assert (x, v) == ([1.5], [4.0])


def test_three_networks_in_a_chain_of_ties() -> None:
    text = VERSION + network("f") + network("g", "(equal-to f) ") + network("h")
    text += inside("X_h[0,0]", "0.0", "1.0")
    text += asserts("(== X_f[0,0] X_g[0,0])", "(== X_g[0,0] X_h[0,0])", "(>= (+ Y_f[0,0] Y_g[0,0] Y_h[0,0]) 5.99)")
    found = values(run({"f": models.affine([[2]]), "h": models.affine([[2]])}, text))
    assert found[0] == found[1] == found[2]


def test_types_may_differ_where_they_are_real() -> None:
    """A float64 input that equals a float32 one takes its values: 0.1 is no float32."""
    text = two(dtype="real") + inside("X_f[0,0]", "0.0", "0.1")
    text += asserts("(== X_f[0,0] X_g[0,0])", "(>= (+ Y_f[0,0] Y_g[0,0]) 0.19999998)")
    result = run([("f", models.identity(dtype=np.float64)), ("g", models.identity())], text)
    values(result)
    assert result.witness is not None
    assert [array.dtype.name for array in result.witness.inputs] == ["float64", "float32"]
    assert float(result.witness.inputs[0][0]) == float(result.witness.inputs[1][0]) < 0.1


def test_integers_and_booleans_stay_on_their_lattice() -> None:
    info = [models.tensor("i", [2], np.int64), models.tensor("b", [1], np.bool_)]
    nodes = [
        onnx.helper.make_node("Cast", ["i"], ["p"], to=1),
        onnx.helper.make_node("Cast", ["b"], ["q"], to=1),
    ]
    model = models.model(nodes, info, [models.tensor("p", [2]), models.tensor("q", [1])])
    text = VERSION + "(declare-network f (declare-input I int64 [2]) (declare-input B bool [1])"
    text += "(declare-output P float32 [2]) (declare-output Q float32 []))\n" + network("g")
    text += asserts("(>= I[0] -9)", "(<= I[0] 9)", "(>= I[1] -9)", "(<= I[1] 9)") + inside("X_g[0,0]", "0.0", "1.0")
    text += asserts("(== P[0] 7.0)", "(== (+ P[0] P[1]) 2.0)", "(> Q Y_g[0,0])")
    result = run([("f", model), ("g", models.identity())], text)
    found = values(result)
    assert found[:2] == [[7, -5], [True]]


def test_where_one_network_is_not_lowered_all_run_one_sample_at_a_time() -> None:
    """4 X by way of its different values: no program, but onnxruntime runs it."""
    nodes = [
        onnx.helper.make_node("Unique", ["X"], ["u"]),
        onnx.helper.make_node("ReduceSum", ["u"], ["s"], keepdims=0),
        onnx.helper.make_node("Mul", ["s", "four"], ["Y"]),
    ]
    four = models.constant("four", [[4.0]])
    unique = models.model(nodes, [models.tensor("X", [1, 1])], [models.tensor("Y", [1, 1])], [four])
    text = two() + inside("X_f[0,0]", "0.0", "1.0") + asserts("(== X_f[0,0] X_g[0,0])", "(>= Y_f[0,0] 5.0)")
    result = run([("f", unique), ("g", models.identity())], text, max_evaluations=3000)
    assert (result.verdict, result.engine) == (Verdict.UNKNOWN, "single-sample")
    assert result.margins == pytest.approx([-1])
    values(run([("f", unique), ("g", models.identity())], text.replace("5.0", "3.9")))


def test_contradicting_ties_are_an_empty_input_set() -> None:
    text = two() + inside("X_f[0,0]", "0.0", "1.0") + inside("X_g[0,0]", "2.0", "3.0")
    result = run({"f": bent(), "g": bent()}, text + asserts("(== X_f[0,0] X_g[0,0])", "(> Y_f[0,0] 0.0)"))
    assert (result.verdict, result.reason) == (Verdict.UNSAT, StopReason.EMPTY_INPUT_SET)


def test_an_unbounded_side_is_told_by_its_name() -> None:
    text = two() + inside("X_f[0,0]", "0.0", "1.0") + asserts("(>= X_g[0,0] X_f[0,0])", "(> Y_f[0,0] Y_g[0,0])")
    with pytest.raises(UnboundedError, match=r"the input X_g\[0,0\] has no upper bound"):
        run({"f": bent(), "g": bent()}, text)


# --- hidden tensors ---


def test_a_hidden_tensor_is_searched_and_told() -> None:
    text = VERSION + network("f", hidden=HIDDEN) + inside("X_f[0,0]", "0.0", "5.0")
    text += asserts("(>= H[0,1] 1.25)", "(<= H[0,0] 3.26)", "(<= Y_f[0,0] 0.0)")
    result = run(bent(), text)
    (x, _) = values(result)
    assert 3.25 <= x[0] <= 3.26
    assert result.witness is not None
    assert result.witness.hidden[0].tolist() == pytest.approx([x[0], x[0] - 2])
    record = result.to_json()["witness"]
    assert record["hidden"] == [result.witness.hidden[0].tolist()]


def test_hidden_tensors_of_two_copies() -> None:
    text = VERSION + network("f", hidden=HIDDEN)
    text += network("g", "(equal-to f) ", hidden=HIDDEN.replace("H", "K")) + inside("X_f[0,0]", "0.0", "5.0")
    text += asserts("(== X_f[0,0] (- X_g[0,0] 1.0))", "(> H[0,1] 0.0)", "(< (+ H[0,1] K[0,1]) 1.01)")
    (x, v, _, _) = values(run(bent(), text))
    assert x[0] == v[0] - 1
    assert 2 < x[0] < 2.005


def test_hidden_variables_of_trees_may_be_named_like_their_tensors() -> None:
    query = parse(FALLS)
    f, g = (
        replaced(own, hidden=(Variable(name, Kind.HIDDEN, "float32", (1, 2)),))
        for own, name in zip(query.networks, ("t0", "t1"), strict=True)
    )
    networks = as_networks([bent()] * 2, replaced(query, networks=(f, g)))
    assert [n.hidden for n in networks] == [("t0",), ("t1",)]


def test_a_query_about_a_hidden_tensor_that_no_input_meets() -> None:
    text = VERSION + network("f", hidden=HIDDEN) + inside("X_f[0,0]", "0.0", "5.0") + asserts("(< H[0,1] 0.0)")
    assert run(bent(), text, max_evaluations=2000).verdict is Verdict.UNKNOWN


ONE = VERSION + network("f", hidden=HIDDEN) + inside("X_f[0,0]", "0.0", "5.0") + asserts("(> H[0,1] 0.0)")
WIDE = {"f": models.identity(), "g": models.identity(dtype=np.float64)}


@pytest.mark.parametrize(
    ("networks", "text", "message"),
    [
        (bent(), ONE.replace("t1", "t7"), "no tensor 't7', which the query declares hidden; it has t0, t1, Y"),
        (bent(), ONE.replace("[1,2] ", "[1,3] "), r"H has shape \[1, 3\], the ONNX tensor t1 has \[1, 2\]"),
        (bent(), ONE.replace("H float32", "H float64"), "H is declared float64"),
        ({"f": bent()}, two(), "no model is given for network g: add --network g=FILE"),
        ({"f": bent(), "g": bent(), "h": bent()}, two(), "declares no network 'h', only f, g"),
        (bent(), two(), "declares f, g: give each network as NAME=FILE"),
        ({"f": bent(), "g": models.identity()}, FALLS, "g is equal to f but another model is given"),
        (WIDE, two(), "X_g is declared float32, the ONNX tensor has float64"),
        (WIDE, two("(isomorphic-to f) ", "real"), "g is isomorphic to f, but its tensor X .X_g. has float64 where"),
        (
            {"f": bent(), "g": models.affine([[1, 1]])},
            two("(isomorphic-to f) "),
            r"has shape \[1, 2\], the query declares \[1, 1\]",
        ),
        ({"f": bent()}, two().replace("network g", "network f"), "declares two networks named f"),
        ({"f": bent()}, two("(equal-to f) (isomorphic-to f) "), "both equal-to f and isomorphic-to f: keep one"),
        ({"f": bent()}, two("(equal-to h) "), "'f?h'"),
        (
            {"f": bent(), "g": bent()},
            VERSION + network("f") + network("g", "(isomorphic-to f) ", n=2),
            "Shape mismatch",
        ),
    ],
)
def test_mistakes(networks: Any, text: str, message: str) -> None:
    closed = inside("X_f[0,0]", "0.0", "1.0") + inside("X_g[0,0]", "0.0", "1.0") if "X_g" in text else ""
    with pytest.raises(InputError, match=message):
        run(networks, text + closed)
