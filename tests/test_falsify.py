"""The pipeline as a function: every way to hand in an instance, and what the result says."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest

from falsifier import InputError, Result, StopReason, Verdict, WitnessClass, falsify
from falsifier.falsify import Prepared
from falsifier.query import parse

TEXT = models.declare(2, 1) + models.box([0, 0], [1, 1]) + "(assert (>= Y_0 1.9))\n"
CAP = 30_000  # evaluations: no clock decides anything in these tests


def run(networks: Any, query: Any, **options: Any) -> Result:
    return falsify(networks, query, timeout=120, **({"max_evaluations": CAP} | options))


def assert_found(result: Result) -> None:
    assert result.verdict is Verdict.SAT
    assert result.reason is StopReason.CONFIRMED
    assert result.class_ == "exact"
    assert result.witness is not None
    assert result.witness.class_ is WitnessClass.EXACT
    assert float(result.witness.inputs[0].sum()) >= 1.9


def test_models_in_every_form(tmp_path: Path) -> None:
    model = models.affine([[1, 1]])
    path = models.save(model, tmp_path / "net.onnx")
    for network in (path, str(path), model, model.SerializeToString(), {"N": path}, [("N", model)]):
        assert_found(run(network, TEXT))


def test_queries_in_every_form(tmp_path: Path) -> None:
    path = tmp_path / "prop.vnnlib"
    path.write_text(TEXT)
    for query in (path, str(path), TEXT, TEXT.encode(), parse(TEXT)):
        assert_found(run(models.affine([[1, 1]]), query))


def test_a_torch_module() -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(2, 1, bias=False))
    with torch.no_grad():
        module[0].weight[:] = 1
    assert_found(run(module, TEXT))


def test_empty_input_set() -> None:
    text = models.declare(2, 1) + models.box([0, 0.6], [1, 0.4]) + "(assert (>= Y_0 0))\n"
    result = run(models.affine([[1, 1]]), text)
    assert (result.verdict, result.reason) == (Verdict.UNSAT, StopReason.EMPTY_INPUT_SET)
    assert "empty" in result.reason_text


@pytest.mark.parametrize(("bound", "verdict"), [("1.2", Verdict.SAT), ("1.3", Verdict.UNSAT)])
def test_one_point(bound: str, verdict: Verdict) -> None:
    """X0 = 1, X1 = 0.25: y = 1.25, and the door alone decides."""
    text = models.declare(2, 1) + models.box([1, 0.25], [1, 0.25]) + f"(assert (>= Y_0 {bound}))\n"
    result = run(models.affine([[1, 1]]), text)
    assert result.verdict is verdict
    assert result.evaluations == 1


@pytest.mark.parametrize("more", ["", "(assert (<= X_0 0.5))", "(assert (or (<= X_0 0.5) (>= X_1 0.7)))"])
def test_nothing_asked_beyond_the_box(more: str) -> None:
    """Any point of the box will do: the first is one."""
    text = models.declare(2, 1) + models.box([0, 0], [1, 1]) + more
    result = run(models.affine([[1, 1]]), text)
    assert (result.verdict, result.class_) == (Verdict.SAT, "exact")
    assert result.evaluations <= 2


def test_one_point_that_no_float_is() -> None:
    """X0 = 0.1 has no float32 inside: the nearest is `correct`, and proves nothing where `exact` is asked for."""
    text = models.declare(1, 1) + models.box(["0.1"], ["0.1"]) + "(assert (>= Y_0 0.1))\n"
    assert run(models.identity(), text).class_ == "correct"
    strict = run(models.identity(), text, require="exact")
    assert strict.verdict is Verdict.UNKNOWN
    assert "by 1.49e-09" in strict.reason_text


def test_the_edge_of_a_box() -> None:
    """Only float32(0.3), 1.2e-8 above the bound as written, satisfies: correct by the published rule, never exact."""
    text = models.declare(1, 1) + models.box(["0.1"], ["0.3"]) + "(assert (>= Y_0 0.3))\n"
    lenient = run(models.identity(), text)
    assert (lenient.verdict, lenient.class_) == (Verdict.SAT, "correct")
    assert lenient.witness is not None
    assert lenient.witness.inputs[0].tolist() == [np.float32(0.3)]
    strict = run(models.identity(), text, require="exact")
    assert strict.verdict is Verdict.UNKNOWN
    assert strict.witness is None
    assert "1.19e-08" in strict.reason_text


def test_a_preliminary_result_is_reported() -> None:
    text = models.declare(1, 1) + models.box(["0.1"], ["0.3"]) + "(assert (>= Y_0 0.3))\n"
    kept: list[Result] = []
    run(models.identity(), text, report=kept.append)
    assert [result.class_ for result in kept] == ["correct"]


def test_unknown_with_a_near_miss() -> None:
    result = run(models.affine([[1, 1]]), TEXT.replace("1.9", "2.5"), max_evaluations=2000)
    assert result.verdict is Verdict.UNKNOWN
    assert result.reason in (StopReason.EVALUATIONS, StopReason.EXHAUSTED)
    assert result.evaluations <= 2000
    (margin,) = result.margins
    assert margin == pytest.approx(-0.5, abs=1e-5)


def test_no_time() -> None:
    result = falsify(models.affine([[1, 1]]), TEXT.replace("1.9", "2.5"), timeout=-1)
    assert (result.verdict, result.reason) == (Verdict.TIMEOUT, StopReason.DEADLINE)


def test_margins_are_per_disjunct() -> None:
    alternatives = "(assert (or (and (>= Y_0 2.5)) (and (>= Y_0 3.0)) (and (<= Y_0 -0.25))))\n"
    text = models.declare(2, 1) + models.box([0, 0], [1, 1]) + alternatives
    result = run(models.affine([[1, 1]]), text, max_evaluations=2000)
    assert result.margins == pytest.approx([-0.5, -1.0, -0.25], abs=1e-5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"timeout": math.nan}, "timeout nan"),
        ({"timeout": "soon"}, "timeout 'soon'"),
        ({"timeout": True}, "timeout True"),
        ({"max_evaluations": 0}, "max_evaluations 0: give a whole number, 1 or more"),
        ({"max_evaluations": -5}, "max_evaluations -5"),
        ({"max_evaluations": 1.5}, "max_evaluations 1.5"),
        ({"max_evaluations": True}, "max_evaluations True"),
        ({"max_evaluations": math.nan}, "max_evaluations nan"),
        ({"max_evaluations": "9"}, "max_evaluations '9'"),
        ({"rng_seed": -1}, "rng_seed -1: give a whole number, 0 or more"),
        ({"rng_seed": 0.5}, "rng_seed 0.5"),
        ({"rng_seed": None}, "rng_seed None"),
        ({"budgets": [1, -1]}, "budgets: budget -1 at position 1"),
        ({"budgets": [math.nan, 1]}, "budgets: budget nan at position 0"),
        ({"budgets": "x"}, "x: cannot be read"),
        ({"budgets": {}}, "budgets: budgets are one array of numbers"),
    ],
)
def test_numbers_that_are_none(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        falsify(models.affine([[1, 1]]), TEXT, **({"max_evaluations": CAP} | options))
    search = {name: value for name, value in options.items() if name in ("max_evaluations", "rng_seed")}
    if search:
        with pytest.raises(InputError, match=said):
            Prepared(models.affine([[1, 1]]), TEXT).search(math.inf, **({"max_evaluations": CAP} | search))


def test_numbers_as_numpy_has_them() -> None:
    """And a deadline that is none is refused, for nothing would end at it."""
    result = run(models.affine([[1, 1]]), TEXT, max_evaluations=np.int64(CAP), rng_seed=np.uint8(3))
    assert_found(result)
    assert json.loads(json.dumps(result.to_json()))["rng_seed"] == 3
    with pytest.raises(InputError, match="deadline nan"):
        Prepared(models.affine([[1, 1]]), TEXT).search(math.nan)


def test_bad_input_is_an_error() -> None:
    with pytest.raises(InputError, match="2 inputs X, the network has 1"):
        run(models.identity(), TEXT)
    with pytest.raises(InputError, match="device 'tpu'"):
        run(models.affine([[1, 1]]), TEXT, device="tpu")
    with pytest.raises(InputError, match="portfolio"):
        run(models.affine([[1, 1]]), TEXT, portfolio="nothing")
    with pytest.raises(InputError, match="require"):
        run(models.affine([[1, 1]]), TEXT, require="sound")


@pytest.mark.parametrize("rng_seed", range(3))
def test_the_same_arguments_give_the_same_result(rng_seed: int) -> None:
    text = TEXT.replace("(assert (>= Y_0 1.9))", "(assert (>= Y_0 1.2))(assert (<= Y_0 1.2001))")
    results = [run(models.affine([[1, 1]]), text, rng_seed=rng_seed) for _ in range(2)]
    a, b = (
        {name: value for name, value in result.to_json().items() if name not in ("seconds", "stages")}
        for result in results
    )
    assert a == b
    assert a["rng_seed"] == rng_seed


def test_json_has_no_nan() -> None:
    net = models.chain([("Reciprocal", [], {})], [1, 1], [1, 1])
    text = models.declare(1, 1) + models.box([0], [0]) + "(assert (>= Y_0 10))\n"
    result = run(net, text)
    assert result.class_ == "correct"
    record = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert record["witness"]["outputs"] == [["inf"]]
    assert not any(isinstance(m, float) and not math.isfinite(m) for m in record["margins"] if m is not None)


def whole_number(target: int, *asserts: str) -> Result:
    """Y = X - target of an int64 input."""
    import onnx
    from onnx import TensorProto, helper

    info = [helper.make_tensor_value_info(name, TensorProto.INT64, [1]) for name in "XY"]
    constant = helper.make_tensor("w", TensorProto.INT64, [1], [target])
    graph = helper.make_graph([helper.make_node("Sub", ["X", "w"], ["Y"])], "net", info[:1], info[1:], [constant])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    assert isinstance(model, onnx.ModelProto)
    header = "(vnnlib-version <2.0>)\n(declare-network N (declare-input X int64 [1]) (declare-output Y int64 [1]))\n"
    return run(model, header + "".join(f"(assert {text})" for text in asserts), max_evaluations=300)


@pytest.mark.parametrize("target", [2**24 + 1, 2**53 + 1, 2**60 + 1])
def test_large_integers_are_never_said_to_have_no_solution_where_they_have(target: int) -> None:
    solution = "(== Y[0] 0)"
    for bounds in (
        (f"(>= X[0] {target - 1})", f"(<= X[0] {target})"),
        (f"(> X[0] {target - 1})", f"(< X[0] {target + 1})"),
        (f"(== X[0] {target})",),
    ):
        assert whole_number(target, *bounds, solution).verdict is not Verdict.UNSAT


def test_small_integers_without_a_solution_are() -> None:
    assert whole_number(9, "(== X[0] 5)", "(== Y[0] 0)").verdict is Verdict.UNSAT
    assert whole_number(9, "(> X[0] 5)", "(< X[0] 6)", "(<= Y[0] 0)").verdict is Verdict.UNSAT


def test_a_query_of_another_type() -> None:
    with pytest.raises(InputError, match="not int"):
        run(models.affine([[1, 1]]), 5)
