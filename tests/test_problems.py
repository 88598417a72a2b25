"""Outputs that are decisions: the scores behind them say the same as the outputs, and how far a point is from it.

And networks that are flat nearly everywhere: they are searched all the same.
"""

from __future__ import annotations

import models
import numpy as np
import pytest
from onnx import parser

from falsifier import falsify
from falsifier.budget import Budget
from falsifier.network import decisions, load
from falsifier.problem import Problem
from falsifier.problems import Problems, compiled
from falsifier.query.read import parse
from falsifier.verdict import Verdict

LAYER = (
    "float[3,4] a = {1.0,-1.0,0.5,2.0, -0.5,1.0,1.0,-1.0, 1.5,0.5,-2.0,0.25}",
    "float[4] b = {0.5,-0.25,0.75,-1.0}",
)
NETWORKS = {
    "largest": ("int64[1]", "", "y = ArgMax <axis = 1, keepdims = 0> (s)"),
    "least": ("int64[1,1]", "", "y = ArgMin <axis = 1> (s)"),
    "last of equals": ("int64[1,1]", "", "r = Relu (s) y = ArgMax <axis = 1, select_last_index = 1> (r)"),
    "first of equals": ("int64[1,1]", "", "r = Relu (s) y = ArgMax <axis = 1> (r)"),
    "classes of a softmax": (
        "int64[1,1]",
        "float[1] t = {200.0}",
        "z = Mul (s, t) p = Softmax (z) y = ArgMax <axis = 1> (p)",
    ),
    "best of three": ("int64[1,3]", "int64[1] k = {3}", "v, y = TopK (s, k)"),
    "least of two": ("int64[1,2]", "int64[1] k = {2}", "v, y = TopK <largest = 0> (s, k)"),
    "labels": ("int64[1]", "int64[4] t = {3, 0, 2, 1}", "i = ArgMax <axis = 1, keepdims = 0> (s) y = Gather (t, i)"),
    "rows": ("int64[2]", "int64[2] d = {2, 2}", "m = Reshape (s, d) y = ArgMax <axis = 1, keepdims = 0> (m)"),
    "columns": ("int64[2]", "int64[2] d = {2, 2}", "m = Reshape (s, d) y = ArgMax <axis = 0, keepdims = 0> (m)"),
    "exceeds": ("float[1,4]", "float[1,4] t = {0.5,0.0,1.0,-1.0}", "g = Greater (s, t) y = Cast <to = 1> (g)"),
    "at most": ("float[1,4]", "float t = {0.0}", "r = Relu (s) g = LessOrEqual (r, t) y = Cast <to = 1> (g)"),
    "each other": (
        "float[1,2]",
        "int64[2] d = {2, 2}",
        "l, r = Split <axis = 1> (s, d) g = GreaterOrEqual (l, r) y = Cast <to = 1> (g)",
    ),
    "two of them": (
        "float[1,2]",
        "int64[2] d = {2, 2}, float t = {0.0}",
        "g = Greater (s, t) l, r = Split <axis = 1> (g, d) o = Xor (l, r) n = Not (l) c = And (o, n) "
        "y = Cast <to = 1> (c)",
    ),
    "steps": (
        "float[1,4]",
        "float t = {0.0}, float u = {1.0}, float v = {-1.0}",
        "g = Less (s, t) y = Where (g, u, v)",
    ),
    "is it class 2": (
        "float[1,1]",
        "int64 two = {2}",
        "i = ArgMax <axis = 1> (s) e = Equal (i, two) y = Cast <to = 1> (e)",
    ),
    "moved": (
        "float[1,4]",
        "int64[3] d = {1, 2, 2}, float[2,1] t = {0.5, -0.5}, "
        "int64[1] last = {-1}, int64[1] past = {-9}, int64[1] c = {1}",
        "r = Reshape (s, d) g = Greater (r, t) m = Transpose <perm = [0, 2, 1]> (g) u = Slice (m, last, past, c, last) "
        "f = Cast <to = 1> (u) y = Flatten (f)",
    ),
    "beside scores": (
        "float[1,5]",
        "",
        "i = ArgMax <axis = 1> (s) f = Cast <to = 1> (i) y = Concat <axis = 1> (f, s)",
    ),
}  # fmt: skip
ATOMS = [
    "(and (>= Y_0 1.0) (<= Y_0 1.0))",
    "(or (and (<= Y_0 0.5)) (and (>= Y_0 2.0)))",
    "(and (>= Y_0 2.5))",
    "(and (<= Y_0 1.0) (>= X_0 0.0))",
    "(or (and (<= Y_0 1.0) (>= Y_0 5.0)) (and (>= Y_0 -7.0) (<= X_1 0.5)))",
]


def problems(shape: str, constants: str, body: str, atom: str) -> tuple[Problem, Problem]:
    """On the original, and on the scores."""
    known = ", ".join(filter(None, (*LAYER, constants)))
    text = f"net (float[1,3] x) => ({shape} y) <{known}> {{ h = MatMul (x, a) s = Add (h, b) {body} }}"
    network = load(parser.parse_model(f'<ir_version: 8, opset_import: ["" : 13]>\n{text}'))
    query = parse(query_of(3, network.reference.m, atom))
    made = Problems(lambda rounding: compiled(query, network, None, rounding), network, Budget(), "cpu")
    return made.single, made.batched


def query_of(n: int, m: int, *atoms: str) -> str:
    names = [f"(declare-const {c}_{i} Real)" for c, count in (("X", n), ("Y", m)) for i in range(count)]
    box = [f"(assert (>= X_{i} -1.0))(assert (<= X_{i} 1.0))" for i in range(n)]
    return "\n".join([*names, *box, *(f"(assert {atom})" for atom in atoms)])


@pytest.mark.parametrize("atom", ATOMS)
@pytest.mark.parametrize("kind", NETWORKS)
def test_scores_satisfy_a_target_where_the_decision_does(kind: str, atom: str) -> None:
    single, batched = problems(*NETWORKS[kind], atom)
    assert single.t == batched.t
    if atom in ATOMS[:2]:
        assert batched.engine.m > single.engine.m
    points = np.random.default_rng(0).uniform(-1, 1, (400, 3)).astype(np.float32)
    for target in range(single.t):
        aim = np.full(len(points), target)
        expected = single.evaluate(points, aim).margin >= 0
        assert ((batched.evaluate(points, aim).margin >= 0) == expected).mean() > 0.99, target


def test_decisions_are_looked_for_where_something_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    monkeypatch.setattr(decisions, "decision", lambda build, y, at: looked.append(at))
    _, batched = problems(*NETWORKS["exceeds"], "(or (and (>= Y_2 1.0)) (and (>= (+ Y_0 Y_1 Y_3) 1.0)))")
    assert looked == [2]
    assert batched.engine.m == 4


WRITTEN = "m = ReduceMax <axes = [1]> (z) u = Sub (z, m) e = Exp (u) f = ReduceSum (e, one) p = Div (e, f) "


@pytest.mark.parametrize("softmax", ["p = Softmax <axis = 1> (z) ", WRITTEN])
@pytest.mark.parametrize("decides", ["y = ArgMax <axis = 1> (p)", "r = Reshape (p, d) y = ArgMax <axis = 0> (r)"])
def test_a_class_is_judged_by_scores_from_before_a_softmax(softmax: str, decides: str) -> None:
    """Of which all but one entry are 0."""
    constants = "float[1] t = {1000.0}, int64[1] one = {1}, int64[1] d = {4}"
    body = f"z = Mul (s, t) {softmax}{decides}"
    _, batched = problems("int64[1,1]", constants, body, "(and (>= Y_0 3.0) (<= Y_0 3.0))")
    points = np.random.default_rng(0).uniform(-1, 1, (64, 3)).astype(np.float32)
    margin = batched.evaluate(points, np.zeros(64, np.int64)).margin
    assert len(np.unique(margin)) == 64
    assert np.abs(margin).max() > 10


INPUTS = 60
ROW = np.random.default_rng(1).normal(size=(INPUTS, 1))
REACH = 0.9 * float(np.abs(ROW).sum())
"""What a combination of the inputs is to exceed: nine tenths of what it can be. Few points of the box come near."""

FLAT: dict[str, tuple[list[models.Step], str]] = {
    "class": (
        [
            ("Gemm", [models.constant("w", np.c_[ROW, 0 * ROW]), models.constant("b", [-REACH, 0])], {}),
            ("ArgMax", [], {"axis": 1}),
            ("Cast", [], {"to": 1}),
        ],
        "(<= Y_0 0.5)",
    ),
    "sigmoid of parts": (
        [
            ("Gemm", [models.constant("w", -1000 * ROW), models.constant("b", [1000 * REACH])], {}),
            ("Exp", [], {}),
            ("Add", [models.constant("one", 1.0)], {}),
            ("Reciprocal", [], {}),
        ],
        "(>= Y_0 0.5)",
    ),
    "narrow layer": (
        [
            ("Gemm", [models.constant("w", ROW * [1, 1.1]), models.constant("b", [-REACH, -1.1 * REACH])], {}),
            ("Relu", [], {}),
            ("Gemm", [models.constant("v", [[1.0], [1.0]]), models.constant("c", [0.0])], {}),
        ],
        "(>= Y_0 0.01)",
    ),
}


@pytest.mark.parametrize("kind", FLAT)
def test_what_is_flat_nearly_everywhere_is_searched_all_the_same(kind: str) -> None:
    steps, atom = FLAT[kind]
    model = models.chain(steps, [1, INPUTS], [1, 1])
    result = falsify(model, parse(query_of(INPUTS, 1, atom)), timeout=600, max_evaluations=2000)
    assert result.verdict is Verdict.SAT
