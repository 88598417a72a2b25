"""Whether gradients are the slopes of the outputs: adjoints broken on purpose are noticed, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, numpy_helper
from small_networks import AFFINE, KINKED, SMOOTH, read

from falsifier.falsify import Prepared
from falsifier.network.doctor import examine
from falsifier.network.lowering import Lowered, lower
from falsifier.network.onnxruntime_engine import OnnxruntimeEngine
from falsifier.network.operators import PrimitiveRule, elementary, linear, pointwise
from falsifier.network.operators.elementwise import elementwise
from falsifier.network.program import Builder, Primitive, Value
from falsifier.network.slope_check import contradicted, is_judged
from falsifier.network.torch_engine import TorchEngine
from falsifier.verdict import Verdict

Gradients = list[Value | None]
QUERY = "(declare-const X_0 Real)(declare-const X_1 Real)(declare-const Y_0 Real)" + "".join(
    f"(assert (>= X_{i} -1))(assert (<= X_{i} 1))" for i in range(2)
)


def layers(*activations: str, inputs: int = 4, width: int = 16, kind: str = "float") -> ModelProto:
    """Random layers, each with an activation."""
    rng = np.random.default_rng(0)
    text, name, rows = "", "x", inputs
    arrays = []
    for i, activation in enumerate(activations):
        text += f"z{i} = MatMul ({name}, w{i}) a{i} = {activation} (z{i}) "
        weight = rng.normal(size=(rows, width)) / rows**0.5
        arrays.append(numpy_helper.from_array(weight.astype("f4" if kind == "float" else "f8"), f"w{i}"))
        name, rows = f"a{i}", width
    model = read(f"net ({kind}[1,{inputs}] x) => ({kind}[1,{width}] y) {{ {text} y = Neg ({name}) }}")
    model.graph.initializer.extend(arrays)
    return model


def ends(lowered: Lowered, low: float = -1, high: float = 1) -> tuple[NDArray[Any], NDArray[Any]]:
    return np.full(lowered.n, low), np.full(lowered.n, high)


class Counted:
    """An engine that counts the lanes of its runs."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.forward, self.gradients = engine, 0, 0
        self.lane_bytes = engine.lane_bytes

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def outputs(self, x: Any) -> Any:
        self.forward += len(x)
        return self.engine.outputs(x)

    def ascend(self, x: Any, *rest: Any) -> Any:
        self.gradients += len(x)
        return self.engine.ascend(x, *rest)


def scaled(by: float) -> Callable[..., Gradients]:
    """An adjoint that passes what flows times a number, whatever the slope."""

    def adjoint(build: Builder, primitive: Primitive, gradients: Any) -> Gradients:
        return [elementwise(build, "Mul", gradients[0], by)]

    return adjoint


def turned(rule: Any) -> Callable[..., Gradients]:
    """The other sign."""

    def adjoint(build: Builder, primitive: Primitive, gradients: Any) -> Gradients:
        parts = rule.adjoint(build, primitive, gradients)
        return [None if part is None else elementwise(build, "Neg", part) for part in parts]

    return adjoint


def nothing(build: Builder, primitive: Primitive, gradients: Any) -> Gradients:
    return [None for _ in primitive.inputs]


BROKEN = {
    "a Relu that lets everything through": (pointwise, "Relu", scaled(1.0), ("Relu", "Relu")),
    "a Tanh that knows no slope": (elementary, "Tanh", scaled(2.0), ("Tanh", "Relu")),
    "a Sigmoid with half its slope": (elementary, "Sigmoid", scaled(0.1), ("Relu", "Sigmoid")),
    "a product with the wrong sign": (linear, "MatMul", turned(linear.PRIMITIVES["MatMul"]), ("Relu",)),
    "a Sin that gives nothing": (elementary, "Sin", nothing, ("Sin", "Relu")),
}


@pytest.mark.parametrize("box", [(-1, 1), (0.3, 0.31)])
@pytest.mark.parametrize("name", BROKEN)
def test_broken_adjoints_are_noticed(monkeypatch: pytest.MonkeyPatch, name: str, box: tuple[float, float]) -> None:
    module, op, adjoint, activations = BROKEN[name]
    lowered = lower(layers(*activations))
    assert is_judged(OnnxruntimeEngine(lowered), lowered)
    assert not contradicted(OnnxruntimeEngine(lowered), *ends(lowered, *box))
    monkeypatch.setitem(module.PRIMITIVES, op, PrimitiveRule(module.PRIMITIVES[op].torch, adjoint))
    assert contradicted(OnnxruntimeEngine(lowered), *ends(lowered, *box))
    assert contradicted(TorchEngine(lowered, "cpu", threads=1), *ends(lowered, *box))  # the same adjoint


@pytest.mark.parametrize("box", [(-2, 2), (-0.001, 0.001), (-3e38, 3e38)])
@pytest.mark.parametrize("name", [*AFFINE, *KINKED, *SMOOTH])
def test_right_gradients_are_never_contradicted(name: str, box: tuple[float, float]) -> None:
    lowered = lower({**AFFINE, **KINKED, **SMOOTH}[name])
    engine = OnnxruntimeEngine(lowered)
    if engine.differentiable and is_judged(engine, lowered):
        assert not contradicted(engine, *ends(lowered, *box))


@pytest.mark.parametrize(
    "model",
    [
        layers("Relu", "Relu", "Relu", width=64),
        layers("Tanh", "Sigmoid", "Softmax", kind="double"),
        read("net (float[1,4] x) => (float[1,4] y) <float k = {1e8}> { z = Add (x, k) y = Sub (z, k) }"),  # stairs
        read("net (float[1,4] x) => (float[1,4] y) <float k = {4000.0}> { z = Mul (x, k) y = Sigmoid (z) }"),
        read("net (float[1,4] x) => (float[1,4] y) { z = Sin (x) a = Abs (z) y = Sqrt (a) }"),
        read("net (float[1,4] x) => (float[1,4] y) <float k = {3e5}> { z = Mul (x, k) y = Sin (z) }"),
        read("net (float[1,4] x) => (float[1,4] y) <float k = {-9.0}> { z = Add (x, k) y = Relu (z) }"),
        read("net (float[1,1] x) => (float[1,1] y) <float k = {-0.5}> { z = Mul (x, k) y = Relu (z) }"),
        read("net (float[1,1] x) => (float[1,1] y) <float k = {-99.0}> { z = Mul (x, k) y = Sigmoid (z) }"),
        read("net (float[1,1] x) => (float[1,1] y) <float k = {-0.5}> { z = Mul (x, k) r = Relu (z) y = Exp (r) }"),
        read("net (float[1,4] x) => (int64[1,1] y) { y = ArgMax <axis = 1> (x) }"),
    ],
)
@pytest.mark.parametrize("box", [(-1, 1), (0.25, 0.26), (0, 1)])
def test_neither_kinks_nor_stairs_nor_what_saturates_speak_against_a_gradient(
    model: ModelProto, box: tuple[float, float]
) -> None:
    lowered = lower(model)
    assert not contradicted(OnnxruntimeEngine(lowered), *ends(lowered, *box))


@pytest.mark.parametrize(
    "body",
    [
        "z = Round (x) y = Mul (z, x)",
        "z = Sign (x) y = Add (z, x)",
        "i = Cast <to = 7> (x) f = Cast <to = 1> (i) y = Add (f, x)",
        "g = Greater (x, k) f = Cast <to = 1> (g) y = Add (f, x)",
        "h = Cast <to = 10> (x) y = Cast <to = 1> (h)",
    ],
)
def test_gradients_that_are_no_slopes_on_purpose_are_not_judged(body: str) -> None:
    lowered = lower(read(f"net (float[1,4] x) => (float[1,4] y) <float k = {{0.3}}> {{ {body} }}"))
    assert not is_judged(OnnxruntimeEngine(lowered), lowered)


def test_what_a_look_costs() -> None:
    lowered = lower(layers("Relu", "Relu"))
    engine = Counted(OnnxruntimeEngine(lowered))
    assert not contradicted(engine, *ends(lowered))
    assert (engine.gradients, engine.forward) == (4, 16)
    engine.lane_bytes = 1 << 20
    assert not is_judged(engine, lowered)


def test_a_search_does_without_gradients_that_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """And still answers. The doctor says why."""
    body = "t = Tanh (x) y = MatMul (t, w)"
    model = read(f"net (float[1,2] x) => (float[1,1] y) <float[2,1] w = {{1.0, 2.0}}> {{ {body} }}")
    query = QUERY + "(assert (>= Y_0 0.7123))(assert (<= Y_0 0.7124))"
    assert Prepared(model, query).problems.batched.differentiable
    assert examine(model).gradient == "gradients are finite and not all zero, by adjoint"
    rule = elementary.PRIMITIVES["Tanh"]
    monkeypatch.setitem(elementary.PRIMITIVES, "Tanh", PrimitiveRule(rule.torch, scaled(-1.0)))
    assert not Prepared(model, query).problems.batched.differentiable
    assert Prepared(model, query).search(np.inf, max_evaluations=20_000).verdict is Verdict.SAT
    diagnosis = examine(model)
    assert diagnosis.engine == "onnxruntime"
    assert diagnosis.gradient == "gradients are not used: differences of the outputs contradict them"
