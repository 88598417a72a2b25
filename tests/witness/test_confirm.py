"""The door: what is a witness, of which class, and why not."""

from __future__ import annotations

from typing import Any

import models
import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from falsifier.errors import InputError
from falsifier.network import load
from falsifier.query import parse
from falsifier.witness.confirm import Door
from falsifier.witness.outcome import Rejection, Witness, WitnessClass

EXACT, CORRECT = WitnessClass.EXACT, WitnessClass.CORRECT


def door(model: onnx.ModelProto, text: str, require: WitnessClass = CORRECT) -> Door:
    return Door(parse(text), [load(model).reference], require)


def one(lower: str, upper: str, atom: str) -> str:
    """A 1.0 query over one input and one output."""
    return models.declare(1, 1) + models.box([lower], [upper]) + f"(assert {atom})\n"


def at(*values: float, dtype: Any = np.float32) -> NDArray[Any]:
    return np.array(values, dtype)


def test_exact() -> None:
    verdict = door(models.identity(), one("0", "1", "(>= Y_0 0.5)")).confirm(at(0.75))
    assert isinstance(verdict, Witness)
    assert verdict.class_ is EXACT
    assert verdict.inputs[0].tolist() == [0.75]
    assert verdict.outputs[0].tolist() == [0.75]


def test_equality_counts_and_strictness_too() -> None:
    assert isinstance(door(models.identity(), one("0", "1", "(>= Y_0 0.5)")).confirm(at(0.5)), Witness)
    # 1.0's published rule reads < as <=, the text does not
    verdict = door(models.identity(), one("0", "1", "(> Y_0 0.5)")).confirm(at(0.5))
    assert isinstance(verdict, Witness)
    assert verdict.class_ is CORRECT


def test_rejection_says_what_fails_and_by_how_much() -> None:
    verdict = door(models.identity(), one("0", "1", "(>= Y_0 0.5)")).confirm(at(0.25))
    assert isinstance(verdict, Rejection)
    assert len(verdict.failing) == 1
    assert verdict.shortfall == 0.25
    assert "(>= Y_0 0.5) fails by 0.25" in verdict.reason


def test_a_candidate_is_moved_into_the_bounds() -> None:
    verdict = door(models.identity(), one("0", "0.3", "(>= Y_0 0.2)")).confirm(at(0.3))
    assert isinstance(verdict, Witness)
    assert verdict.class_ is EXACT
    assert float(verdict.inputs[0][0]) < 0.3


def test_the_edge_is_correct_by_the_published_rule() -> None:
    """float32(0.3) lies outside [0.1, 0.3] as written, and is the only value that meets y >= 0.3."""
    query = one("0.1", "0.3", "(>= Y_0 0.3)")
    verdict = door(models.identity(), query).confirm(at(0.3))
    assert isinstance(verdict, Witness)
    assert verdict.class_ is CORRECT
    assert "published rule" in verdict.reason
    strict = door(models.identity(), query, EXACT).confirm(at(0.3))
    assert isinstance(strict, Rejection)
    assert strict.published
    assert strict.shortfall == pytest.approx(float(np.float32(0.3)) - 0.3)
    assert "1.19e-08" in strict.reason


def test_one_step_further_is_never_a_witness() -> None:
    beyond = np.nextafter(np.float32(0.3), np.float32(1))
    verdict = door(models.identity(), one("0.1", "0.3", "(>= Y_0 0.3)")).replay([np.array([beyond])])
    assert isinstance(verdict, Rejection)


def test_outside_the_box_within_the_published_tolerance_is_no_witness() -> None:
    """The narrow box of [0.0082591, 0.0082597]: the violation begins 4e-5 above it."""
    net = models.affine([[100]], [-0.83])
    narrow = door(net, one("0.0082591", "0.0082597", "(>= Y_0 0.0)"))
    assert isinstance(narrow.replay([at(0.0083)]), Rejection)
    assert isinstance(narrow.confirm(at(0.0083)), Rejection)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_inputs_are_finite(value: float) -> None:
    free = models.declare(1, 1) + "(assert (or (>= X_0 0) (<= X_0 0) (>= Y_0 0)))\n"
    verdict = door(models.identity(), free).confirm(at(value))
    assert isinstance(verdict, Rejection)
    assert "not finite" in verdict.reason


def test_nan_outputs_satisfy_nothing() -> None:
    net = models.chain([("Sqrt", [], {})], [1, 1], [1, 1])
    for atom in ("(<= Y_0 -1)", "(>= Y_0 -1)", "(or (<= Y_0 0) (>= Y_0 0))"):
        assert isinstance(door(net, one("-1", "1", atom)).confirm(at(-0.5)), Rejection)


def test_an_infinite_output_is_correct_at_best() -> None:
    net = models.chain([("Reciprocal", [], {})], [1, 1], [1, 1])
    verdict = door(net, one("0", "1", "(>= Y_0 10)")).confirm(at(0.0))
    assert isinstance(verdict, Witness)
    assert verdict.class_ is CORRECT
    assert "not finite" in verdict.reason


def test_a_sample_that_the_model_refuses() -> None:
    """Gather fails on an index out of range: the candidate is refused, nothing else happens."""
    nodes = [onnx.helper.make_node("Gather", ["table", "X"], ["Y"])]
    model = models.model(
        nodes, [models.tensor("X", [1], np.int64)], [models.tensor("Y", [1])], [models.constant("table", [1.0, 2.0])]
    )
    gather = door(model, one("0", "100", "(>= Y_0 1.5)"))
    assert isinstance(gather.confirm(at(50)), Rejection)
    assert isinstance(gather.confirm(at(1)), Witness)


def test_integer_inputs_are_whole() -> None:
    nodes = [onnx.helper.make_node("Cast", ["X"], ["Y"], to=onnx.TensorProto.FLOAT)]
    model = models.model(nodes, [models.tensor("X", [1, 1], np.int64)], [models.tensor("Y", [1, 1])])
    whole = door(model, one("0", "10", "(>= Y_0 3)"))
    verdict = whole.confirm(at(3.0))
    assert isinstance(verdict, Witness)
    assert verdict.inputs[0].dtype == np.int64
    assert isinstance(whole.confirm(at(3.5)), Rejection)


TWO = """
(vnnlib-version <2.0>)
(declare-network N
  (declare-input X float32 [1,1])
  (declare-output A float32 [1,1])
  (declare-output B float32 [1,1])
)
(assert (>= X[0,0] 0.0))
(assert (<= X[0,0] 1.0))
(assert (>= A[0,0] -0.25))
(assert (<= B[0,0] 0.1))
(assert (> B[0,0] 0.05))
"""


def test_two_outputs() -> None:
    two = door(models.two_outputs(), TWO)
    verdict = two.confirm(at(0.15))
    assert isinstance(verdict, Witness)
    assert verdict.class_ is EXACT
    assert [output.tolist() for output in verdict.outputs] == [[np.float32(-0.15)], [np.float32(0.075)]]
    edge = two.confirm(at(0.1))  # B is float32(0.05), which 2.0 compares with float32(0.05): strict stays strict
    assert isinstance(edge, Rejection)


def test_v1_needs_a_single_output() -> None:
    with pytest.raises(InputError, match="v1 properties need a single output"):
        door(models.two_outputs(), one("0", "1", "(>= Y_0 0)"))


def test_pinned_decimals_are_correct() -> None:
    verdict = door(models.identity(), one("0.1", "0.1", "(>= Y_0 0)")).confirm(at(0.1))
    assert isinstance(verdict, Witness)
    assert verdict.class_ is CORRECT


def test_float64_networks() -> None:
    verdict = door(models.identity(dtype=np.float64), one("0.1", "0.3", "(>= Y_0 0.3)")).confirm(
        at(0.3, dtype=np.float64)
    )
    assert isinstance(verdict, Witness)
    assert verdict.class_ is EXACT


def test_a_network_that_draws_random_numbers_has_no_witness() -> None:
    node = onnx.helper.make_node("RandomNormalLike", ["X"], ["Y"])
    info = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 1]) for name in "XY"]
    model = onnx.helper.make_model(
        onnx.helper.make_graph([node], "net", info[:1], info[1:]),
        opset_imports=[onnx.helper.make_opsetid("", 13)],
        ir_version=8,
    )
    verdict = door(model, one("0", "1", "(>= Y_0 -100)")).confirm(at(0.75))
    assert isinstance(verdict, Rejection)
    assert "random" in verdict.reason


@pytest.mark.parametrize("opset", [9, 15])
def test_what_a_session_remembers_of_a_point_does_not_confirm_it(opset: int) -> None:
    """onnxruntime moves the statistics of a normalisation in training mode where they are kept in the model."""
    training: dict[str, Any] = {"training_mode": 1} if opset > 13 else {}
    told = ["mean", "variance", "saved_mean", "saved_variance"][: 2 if opset > 13 else 4]
    nodes = [
        onnx.helper.make_node("Conv", ["X", "k"], ["c"]),
        onnx.helper.make_node("BatchNormalization", ["c", "one", "zero", "m", "v"], ["n", *told], **training),
        onnx.helper.make_node("ReduceMax", ["n"], ["Y"], keepdims=0),
    ]
    values: dict[str, Any] = {"k": [[[[0.5, -1.0]]]], "one": [1.0], "zero": [0.0], "m": [0.0], "v": [1.0]}
    constants = [models.constant(name, value) for name, value in values.items()]
    scalar = [models.tensor("Y", [])]
    model = models.model(nodes, [models.tensor("X", [1, 1, 1, 4])], scalar, constants, opset=opset)
    point = at(0.25, -0.5, 0.75, 0.5)
    fresh = float(load(model).reference.run_flat(point)[0])
    used = load(model).reference
    for _ in range(300):
        now = float(used.run_flat(point)[0])
    text = models.declare(4, 1) + models.box([-1] * 4, [1] * 4)
    for bound in (now, fresh):
        asked = f"(assert (>= Y_0 {bound - 1e-4:.6f}))(assert (<= Y_0 {bound + 1e-4:.6f}))\n"
        verdict = Door(parse(text + asked), [used]).confirm(point)
        if isinstance(verdict, Witness):  # a version that forgets: as every session of the judges gives it
            assert verdict.outputs[0] == pytest.approx(fresh)


def test_batch_normalisation_at_inference_is_confirmed() -> None:
    node = onnx.helper.make_node("BatchNormalization", ["X", "one", "zero", "zero", "one"], ["Y"], epsilon=0.0)
    constants = [models.constant(name, value) for name, value in {"one": [1.0], "zero": [0.0]}.items()]
    model = models.model([node], [models.tensor("X", [1, 1])], [models.tensor("Y", [1, 1])], constants)
    verdict = door(model, one("0", "1", "(>= Y_0 0.5)")).confirm(at(0.75))
    assert isinstance(verdict, Witness)
    assert verdict.class_ is EXACT
