"""Counts of comparisons: their gap is at least 0 exactly where the count is one that is asked for, and leads there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, numpy_helper
from small_networks import read

from falsifier.falsify import Prepared
from falsifier.network.decisions import Decisions
from falsifier.network.lowering import lower
from falsifier.network.onnxruntime_engine import OnnxruntimeEngine
from falsifier.network.torch_engine import TorchEngine
from falsifier.verdict import Verdict

Array = NDArray[Any]

SUM = "t = ReduceSum <keepdims = 0> (c) Y = Reshape (t, shape)"
WAYS = {
    "above": f"g = Greater (x, zero) c = Cast <to = 1> (g) {SUM}",
    "not above": f"g = Greater (x, zero) n = Not (g) c = Cast <to = 1> (n) {SUM}",
    "at most another": f"a, b = Split <axis = 1> (x) g = LessOrEqual (a, b) c = Cast <to = 7> (g) {SUM}",
    "either": f"g = Less (x, zero) h = Greater (x, half) o = Or (g, h) c = Cast <to = 1> (o) {SUM}",
    "both": f"g = Greater (x, zero) h = LessOrEqual (x, half) o = And (g, h) c = Cast <to = 1> (o) {SUM}",
    "a class": f"r = Reshape (x, pairs) m = ArgMax <axis = 1, keepdims = 0> (r) {SUM.replace('(c)', '(m)')}",
    "a mean": "g = Greater (x, zero) c = Cast <to = 1> (g) t = ReduceMean <keepdims = 0> (c) Y = Reshape (t, shape)",
    "signs": f"g = GreaterOrEqual (x, zero) c = Where (g, up, down) {SUM}",
    "one hot": "r = Reshape (x, pairs) m = ArgMax <axis = 1, keepdims = 0> (r) l = Less (m, none) p = Add (m, two) "
    "w = Where (l, p, m) u = Unsqueeze (w, last) e = Equal (u, both) f = Cast <to = 7> (e) "
    f"q = Transpose <perm = [2, 0, 1]> (f) k = Slice (q, from, to) c = Cast <to = 1> (k) {SUM}",
    "of a row": "g = Greater (x, zero) c = Cast <to = 1> (g) r = Reshape (c, pairs) "
    "rows = Constant <value_ints = [2]> () "
    "s = ReduceSum <keepdims = 0> (r, rows) f = Flatten <axis = 0> (s) Y = Gather <axis = 1> (f, one)",
}
CONSTANTS = (
    "float zero = {0.0}, float half = {0.5}, float up = {1.0}, float down = {-1.0}, int64[1] shape = {-1}, "
    "int64[3] pairs = {1, 2, 4}, int64 none = {0}, int64 two = {2}, int64[1] last = {2}, int64[2] both = {0, 1}, "
    "int64[1] from = {0}, int64[1] to = {1}, int64[1] one = {1}"
)


def model(body: str, inputs: int = 8) -> ModelProto:
    head = f"net (float[1,{inputs}] x) => (float[A] Y) <{CONSTANTS}>"
    return read(f"{head} {{ {body} }}")


@dataclass(frozen=True)
class Asked:
    at: tuple[int, ...]
    weights: tuple[float, ...]
    floors: tuple[tuple[float, float], ...]


QUESTIONS = [
    *(((1.0, c - 0.5),) for c in range(-1, 9)),  # at least c
    *(((-1.0, -c - 0.5),) for c in range(-1, 9)),  # at most c
    ((1.0, 2.0), (-1.0, -3.0)),  # 2 or 3
    ((1.0, 0.3), (-1.0, -0.8)),
]


@pytest.mark.parametrize("way", WAYS)
def test_the_gap_is_at_least_0_exactly_where_the_count_is_asked_for(way: str) -> None:
    lowered = lower(model(WAYS[way]))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 8)).astype(np.float32)
    x[::3] = rng.choice([-1.0, 0.0, 0.5, 1.0], size=x[::3].shape)  # ties, and scores at their bound
    decisions = Decisions(lowered, np.ones(1, bool))
    assert decisions.outputs.all()
    questions = [Asked((0,), (1.0,), floors) for floors in QUESTIONS]
    further, places, strict = decisions.with_gaps(questions)
    outputs = OnnxruntimeEngine(further).outputs(x)
    torch = TorchEngine(further, "cpu", threads=1)
    np.testing.assert_allclose(torch.outputs(torch.asarray(x)).numpy(), outputs, atol=1e-6)
    assert not any(strict)
    checked = 0
    for question, place in zip(questions, places, strict=True):
        holds = np.all([sign * outputs[:, 0] >= bound for sign, bound in question.floors], axis=0)
        if isinstance(place, bool):
            assert (holds == place).all()
            continue
        assert place is not None
        checked += 1
        np.testing.assert_array_equal(outputs[:, place] >= 0, holds)
    assert checked > 2


def test_agreement_with_another_tensor() -> None:
    """A mask among the inputs; what is neither 0 nor 1 there never agrees."""
    body = "a, b = Split <axis = 1> (x) g = Greater (a, half) i = Cast <to = 6> (g) w = Cast <to = 6> (b) "
    lowered = lower(model(body + f"e = Equal (i, w) c = Cast <to = 7> (e) {SUM}"))
    x = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 2.0], size=(300, 8)).astype(np.float32)
    further, places, _ = Decisions(lowered, np.ones(1, bool)).with_gaps(
        [Asked((0,), (1.0,), ((1.0, float(c)),)) for c in range(1, 5)]
    )
    outputs = OnnxruntimeEngine(further).outputs(x)
    for c, place in zip(range(1, 5), places, strict=True):
        assert isinstance(place, int)
        np.testing.assert_array_equal(outputs[:, place] >= 0, outputs[:, 0] >= c)


def test_the_gradient_moves_what_is_missing() -> None:
    """Five of eight are asked for: two are there, the next three are pushed, the others left alone."""
    further, places, _ = Decisions(lower(model(WAYS["above"])), np.ones(1, bool)).with_gaps(
        [Asked((0,), (1.0,), ((1.0, 5.0),))]
    )
    x = np.array([[3.0, 1.0, -1.0, -2.0, -3.0, -4.0, -5.0, -6.0]], np.float32)
    y, gradient = OnnxruntimeEngine(further).vjp(x, np.eye(2, dtype=np.float32)[1:])
    assert places == [1]
    np.testing.assert_allclose(y, [[2.0, -6 / 5]], rtol=1e-6)
    np.testing.assert_allclose(gradient, [[0, 0, 0.2, 0.2, 0.2, 0, 0, 0]], rtol=1e-6)


@pytest.mark.parametrize(
    "body",
    [
        f"g = Greater (x, zero) c = Cast <to = 1> (g) d = Mul (c, x) {SUM.replace('(c)', '(d)')}",  # not a count
        f"g = Greater (x, zero) h = Cast <to = 1> (g) w = Mul (h, weights) {SUM.replace('(c)', '(w)')}",  # weighed
        f"r = Reshape (x, quads) m = ArgMax <axis = 1, keepdims = 0> (r) {SUM.replace('(c)', '(m)')}",  # four classes
    ],
)
def test_other_sums_are_no_counts(body: str) -> None:
    body = "weights = Constant <value_floats = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> () " + body
    lowered = lower(model("quads = Constant <value_ints = [1, 4, 2]> () " + body))
    assert not Decisions(lowered, np.ones(1, bool)).outputs.any()


def test_a_search_finds_counts_that_no_drawn_point_has() -> None:
    """All 24 of 24 pixels above a bound, each a sum of 24 inputs."""
    rng = np.random.default_rng(0)
    made = model("z = MatMul (x, w) g = Greater (z, zero) c = Cast <to = 1> (g) " + SUM, 24)
    made.graph.initializer.append(numpy_helper.from_array(np.linalg.qr(rng.normal(size=(24, 24)))[0].astype("f4"), "w"))
    names = [f"(declare-const X_{i} Real)" for i in range(24)] + ["(declare-const Y_0 Real)"]
    box = [f"(assert (>= X_{i} -1))(assert (<= X_{i} 1))" for i in range(24)]
    query = "\n".join([*names, *box, "(assert (>= Y_0 24))"])
    assert Prepared(made, query).search(np.inf, max_evaluations=12_000).verdict is Verdict.SAT
