"""RNN, GRU, LSTM in every form that onnxruntime computes, unrolled, with gradients through time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from operator_checks import batch, check, check_outputs
from operator_graphs import between, check_at, draw, graph_model, lanes, whole

from falsifier.errors import UnsupportedError
from falsifier.network.lowering import lower
from falsifier.network.operators import recurrent

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
DIRECTIONS = ["forward", "reverse", "bidirectional"]
STEPS, BATCH, INPUTS, HIDDEN = 3, 2, 2, 3

every_kind = pytest.mark.parametrize(("op", "direction"), [(op, direction) for op in GATES for direction in DIRECTIONS])


def network(
    op: str,
    direction: str = "forward",
    operands: Sequence[str] = ("x", "w", "r", "b"),
    inputs: dict[str, Any] | None = None,
    before: Sequence[onnx.NodeProto] = (),
    extra: dict[str, Any] | None = None,
    opset: int = 21,
    **attributes: Any,
) -> onnx.ModelProto:
    """One recurrent node with weights of fixed draw."""
    ways, gates = 2 if direction == "bidirectional" else 1, GATES[op]
    weights = {
        "w": 0.5 * draw(ways, gates * HIDDEN, INPUTS),
        "r": 0.5 * draw(ways, gates * HIDDEN, HIDDEN, rng_seed=1),
        "b": 0.5 * draw(ways, 2 * gates * HIDDEN, rng_seed=2),
        **(extra or {}),
    }
    outputs = ["y", "h", "c"][: 3 if op == "LSTM" else 2]
    node = helper.make_node(op, operands, outputs, direction=direction, hidden_size=HIDDEN, **attributes)
    constants = {name: a for name, a in weights.items() if name in operands}
    given = inputs or {"x": [STEPS, BATCH, INPUTS]}
    return graph_model([*before, node], given, constants, outputs=outputs, opset=opset)


def states(op: str, direction: str) -> dict[str, list[int]]:
    ways = 2 if direction == "bidirectional" else 1
    return {name: [ways, BATCH, HIDDEN] for name in (["h0", "c0"] if op == "LSTM" else ["h0"])}


@every_kind
def test_directions(op: str, direction: str) -> None:
    check(network(op, direction))
    check(network(op, direction, operands=["x", "w", "r"], opset=7))


@every_kind
def test_initial_states(op: str, direction: str) -> None:
    shapes = states(op, direction)
    operands = ["x", "w", "r", "b", "", *shapes]
    check(network(op, direction, operands, {"x": [STEPS, BATCH, INPUTS], **shapes}))
    constants = {name: draw(*shape, rng_seed=4) for name, shape in shapes.items()}
    model = network(op, direction, operands, extra=constants)
    check_outputs(model, batch(model))


@every_kind
def test_lengths(op: str, direction: str) -> None:
    """Beyond its length a sequence keeps its state and gives zeros; backwards it starts at its own end."""
    operands = ["x", "w", "r", "b", "n"]
    check(network(op, direction, operands, extra={"n": np.array([2, 3], np.int32)}))
    shapes = {"x": [STEPS, BATCH, INPUTS], "i": [BATCH]}
    model = network(op, direction, operands, shapes, [whole("i", "n", onnx.TensorProto.INT32)])
    lengths = between(np.array([[1, 3], [2, 2]]))
    check_at(model, lanes(draw(2, STEPS, BATCH, INPUTS), lengths))


@pytest.mark.parametrize("op", GATES)
def test_clipping(op: str) -> None:
    check(network(op, clip=0.3))


@pytest.mark.parametrize(
    "name", ["Affine", "Elu", "HardSigmoid", "LeakyRelu", "Relu", "ScaledTanh", "Softplus", "Softsign"]
)
@pytest.mark.parametrize("op", GATES)
def test_activations(op: str, name: str) -> None:
    defaults = {"RNN": [], "GRU": ["Sigmoid"], "LSTM": ["Sigmoid", "Tanh"]}[op]
    names = [*defaults[:1], name, *defaults[1:]]
    options: dict[str, Any] = {}
    if name in ("Affine", "Elu", "HardSigmoid", "LeakyRelu", "ScaledTanh"):
        options["activation_alpha"] = [0.7]
    if name in ("Affine", "HardSigmoid", "ScaledTanh"):
        options["activation_beta"] = [0.4]
    check(network(op, activations=names, **options))


def test_activations_take_their_parameters_in_turn() -> None:
    names = ["HardSigmoid", "ScaledTanh", "Affine"]
    check(network("LSTM", activations=names, activation_alpha=[0.3, 0.8, 1.1], activation_beta=[0.4, 0.7, 0.1]))


def test_an_unknown_activation_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="activation 'Mystery'"):
        lower(network("RNN", activations=["Mystery"]))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_linear_before_reset(direction: str) -> None:
    check(network("GRU", direction, linear_before_reset=1))


def test_coupled_input_and_forget_gates() -> None:
    check(network("LSTM", input_forget=1))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_peepholes(direction: str) -> None:
    ways = 2 if direction == "bidirectional" else 1
    operands = ["x", "w", "r", "b", "", "", "", "p"]
    check(network("LSTM", direction, operands, extra={"p": draw(ways, 3 * HIDDEN)}))


@pytest.mark.parametrize("op", GATES)
def test_batch_first(op: str) -> None:
    """onnxruntime does not compute this layout: it is the other one, transposed."""
    model = network(op, "bidirectional", inputs={"x": [BATCH, STEPS, INPUTS]}, layout=1)
    lowered = lower(model)
    shapes = [(BATCH, STEPS, 2, HIDDEN)] + [(BATCH, 2, HIDDEN)] * (2 if op == "LSTM" else 1)
    assert [tuple(v.shape) for v in lowered.output_values if v is not None] == shapes

    from falsifier.network.onnxruntime_engine import OnnxruntimeEngine

    x = draw(2, BATCH, STEPS, INPUTS)
    usual = OnnxruntimeEngine(lower(network(op, "bidirectional")), 1).outputs(lanes(x.transpose(0, 2, 1, 3)))
    size = STEPS * 2 * BATCH * HIDDEN
    expected = [usual[:, :size].reshape(-1, STEPS, 2, BATCH, HIDDEN).transpose(0, 3, 1, 2, 4)]
    expected += [
        part.reshape(-1, 2, BATCH, HIDDEN).transpose(0, 2, 1, 3)
        for part in np.split(usual[:, size:], len(shapes) - 1, axis=1)
    ]
    np.testing.assert_allclose(OnnxruntimeEngine(lowered, 1).outputs(lanes(x)), lanes(*expected), rtol=1e-6)


def test_a_single_step() -> None:
    for op in GATES:
        check(network(op, inputs={"x": [1, 1, INPUTS]}))


def test_a_long_sequence_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="a sequence of 1025 steps"):
        lower(network("RNN", inputs={"x": [recurrent.MOST_STEPS + 1, 1, INPUTS]}))
