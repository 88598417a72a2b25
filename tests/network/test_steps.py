"""Sign(Sign(x) + c) as one comparison: the same values, fewer nodes, and only where it is that."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from small_networks import read

from falsifier.network.lowering import lower
from falsifier.network.onnx_graph import write_graph
from falsifier.network.onnxruntime_engine import OnnxruntimeEngine
from falsifier.network.reference import Reference

X = np.array([[-3.0, -1e-45, -0.0, 0.0, 1e-45, 2.0, np.inf, -np.inf]], np.float32)


def network(shift: str, out: str = "t") -> onnx.ModelProto:
    return read(
        f"""net (float[1,8] x) => (float[1,8] y) <float c = {{{shift}}}, float one = {{1.0}}> {{
        s = Sign (x)
        d = Add (s, c)
        t = Sign (d)
        y = Mul ({out}, {"one" if out == "t" else "t"})
        }}"""
    )


def operators(model: onnx.ModelProto) -> list[str]:
    lowered = lower(model)
    return [
        node.op_type
        for node in onnx.load_from_string(write_graph(lowered.program, [lowered.x], [lowered.y]).model).graph.node
    ]


@pytest.mark.parametrize("shift", ["0.1", "-0.1", "0.9", "1.0", "-1.5", "0.0"])
def test_values_are_the_originals(shift: str) -> None:
    model = network(shift)
    expected = Reference(model.SerializeToString()).run_flat(X[0])
    np.testing.assert_array_equal(OnnxruntimeEngine(lower(model)).outputs(X)[0], expected)


@pytest.mark.parametrize(("shift", "changed"), [("0.1", True), ("-0.1", True), ("1.0", False), ("-1.5", False)])
def test_only_a_small_shift_is_a_comparison(shift: str, changed: bool) -> None:
    found = operators(network(shift))
    assert ("Sign" not in found) == changed
    assert ("Where" in found) == changed


def test_an_inner_sign_stays_for_others() -> None:
    assert operators(network("0.1", "s")).count("Sign") == 1


def test_the_gradient_is_as_before() -> None:
    """Straight through, near 0 where there is a window."""
    engine = OnnxruntimeEngine(lower(network("0.1")))
    x = np.array([[-3.0, -0.1, 0.1, 2.0, 0.0, 0.2, 5.0, -5.0]] * 2, np.float32)
    _, gradient = engine.vjp(x, np.ones((2, 8), np.float32), np.array([np.inf, 0.2], np.float32))
    np.testing.assert_array_equal(gradient, [[1] * 8, [0, 1, 1, 0, 1, 1, 0, 0]])
