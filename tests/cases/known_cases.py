"""Instances with answers worked out by hand: for each fault that users have met, the smallest input that shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import models
import onnx

SAT, NOT_SAT, UNSAT = "sat", "not sat", "unsat"  # "not sat": `unknown` or `timeout`; `unsat` where a case says so


@dataclass(frozen=True)
class Case:
    name: str
    model: Callable[[], onnx.ModelProto]
    query: str
    expected: str
    class_: str = "exact"  # of the witness, on sat


def _query(n: int, m: int, bounds: str, *assertions: str) -> str:
    return models.declare(n, m) + bounds + "".join(f"(assert {a})\n" for a in assertions)


# ---- how the text's assertions combine
def _sums() -> onnx.ModelProto:
    return models.affine([[1, 0], [1, 1]])


UNIT2 = models.box([0, 0], [1, 1])
EITHER = "(or (and (>= Y_0 0.9)) (and (<= Y_0 0.1)))"
COMBINING = [
    Case("conjunct after the or, impossible", _sums, _query(2, 2, UNIT2, EITHER, "(>= Y_1 2.5)"), NOT_SAT),
    Case("conjunct after the or", _sums, _query(2, 2, UNIT2, EITHER, "(>= Y_1 1.8)"), SAT),
    Case("conjunct before the or", _sums, _query(2, 2, UNIT2, "(>= Y_1 1.8)", EITHER), SAT),
    Case(
        "boxes belong to their clauses",
        lambda: models.affine([[1, 0]]),
        _query(
            2,
            1,
            models.box([-10, -10], [10, 10]),
            "(or (and (>= X_0 1)(<= X_0 2)(<= Y_0 -100)) (and (>= X_1 3)(<= X_1 4)(>= Y_0 9.5)))",
        ),
        SAT,
    ),
]

# ---- boxes
WIDE, NARROW = models.box([0], [10]), models.box([0], [1])


def _same() -> onnx.ModelProto:
    return models.affine([[1]])


def _sum3() -> onnx.ModelProto:
    return models.affine([[1, 1, 1]])


BOXES = [
    Case(
        "a violation 4e-5 outside the box",
        lambda: models.affine([[100]], [-0.83]),
        _query(1, 1, models.box(["0.0082591"], ["0.0082597"]), "(>= Y_0 0.0)"),
        NOT_SAT,
    ),
    Case(
        "the edge of the box between two float32 values",
        models.identity,
        _query(1, 1, models.box(["0.1"], ["0.3"]), "(>= Y_0 0.3)"),
        SAT,
        "correct",
    ),
    Case("pinned inputs", _sum3, _query(3, 1, models.box([0, 0.5, -0.25], [1, 0.5, -0.25]), "(>= Y_0 1.2)"), SAT),
    Case("all inputs pinned", _sum3, _query(3, 1, models.box([1, 0.5, -0.25], [1, 0.5, -0.25]), "(>= Y_0 1.2)"), SAT),
    Case(
        "all inputs pinned, not violated",
        _sum3,
        _query(3, 1, models.box([0, 0.5, -0.25], [0, 0.5, -0.25]), "(>= Y_0 1.2)"),
        UNSAT,
    ),
    Case("bounds given twice", _same, _query(1, 1, WIDE + NARROW, "(>= Y_0 2.0)"), NOT_SAT),
    Case("bounds given twice, the narrow first", _same, _query(1, 1, NARROW + WIDE, "(>= Y_0 2.0)"), NOT_SAT),
    Case("empty box", _same, _query(1, 1, models.box([0.6], [0.4]), "(>= Y_0 0.0)"), UNSAT),
    Case(
        "one clause with an empty box",
        _same,
        _query(
            1,
            1,
            NARROW,
            "(or (and (>= X_0 0.6)(<= X_0 0.4)(>= Y_0 0.0)) (and (>= X_0 0.8)(<= X_0 0.9)(>= Y_0 0.85)))",
        ),
        SAT,
    ),
]

# ---- what a model does to its leading axis
SIDES = models.box([-1, -1], [1, 1])
MINUS = models.gemm([[1, -1]])
FOUR_D, ROW = [1, 2, 1, 1], [1, 2]


def _through(*ops: models.Step, shape: list[int]) -> Callable[[], onnx.ModelProto]:
    return lambda: models.chain(list(ops), shape, [1, 1])


RESHAPE: models.Step = ("Reshape", [models.constant("s", [1, -1], "int64")], {})
SOFTMAX_0: list[models.Step] = [
    ("Reshape", [models.constant("s0", [-1, 1], "int64")], {}),
    ("Softmax", [], {"axis": 0}),
    ("Reshape", [models.constant("s1", [-1, 2], "int64")], {}),
    MINUS,
]
BATCHING = [
    Case(
        "a constant batch of 1 in Reshape",
        _through(RESHAPE, MINUS, shape=FOUR_D),
        _query(2, 1, SIDES, "(>= Y_0 1.9)"),
        SAT,
    ),
    Case(
        "Flatten from axis 0",
        _through(("Flatten", [], {"axis": 0}), MINUS, shape=FOUR_D),
        _query(2, 1, SIDES, "(>= Y_0 1.9)"),
        SAT,
    ),
    Case(
        "a mean over axis 0",
        _through(("ReduceMean", [], {"axes": [0], "keepdims": 1}), MINUS, shape=ROW),
        _query(2, 1, SIDES, "(>= Y_0 1.9)"),
        SAT,
    ),
    Case(
        "a softmax over axis 0",
        _through(*SOFTMAX_0, shape=ROW),
        _query(2, 1, models.box([-3, -3], [3, 3]), "(>= Y_0 0.99)"),
        SAT,
    ),
]


# ---- layouts
def _convolution(**attributes: object) -> Callable[[], onnx.ModelProto]:
    kernel = models.constant("K", [[[[1, 2], [3, 4]]]])
    return lambda: models.chain([("Conv", [kernel], attributes), ("Flatten", [], {})], [1, 1, 2, 2], [1, 4])


def _channels_last() -> onnx.ModelProto:
    kernel = models.constant("K", [[[[0]], [[1]], [[0]]]])
    return models.chain(
        [("Transpose", [], {"perm": [0, 3, 1, 2]}), ("Conv", [kernel], {}), ("Flatten", [], {})], [1, 2, 2, 3], [1, 4]
    )


ONES4 = models.box([0] * 4, [1] * 4)
LAYOUTS = [
    *(
        case
        for padding in ({"pads": [0, 0, 1, 1]}, {"auto_pad": "SAME_UPPER"})
        for case in (
            Case(f"padding at the end, {padding}", _convolution(**padding), _query(4, 4, ONES4, "(>= Y_0 9.5)"), SAT),
            Case(
                f"padding at the end, not violated, {padding}",
                _convolution(**padding),
                _query(4, 4, ONES4, "(>= Y_3 4.5)"),
                NOT_SAT,
            ),
        )
    ),
    Case(
        "channels last",
        _channels_last,
        _query(12, 4, models.box([0] * 12, [0, 1] + [0] * 10), "(>= Y_0 0.9)"),
        SAT,
    ),
]

# ---- numbers
SIGNED = models.box([-1], [1])


def _root() -> onnx.ModelProto:
    return models.chain([("Sqrt", [], {})], [1, 1], [1, 1])


def _negative_relu() -> onnx.ModelProto:
    return models.chain([models.gemm([[1]]), ("Relu", [], {}), ("Neg", [], {})], [1, 1], [1, 1])


def _dead() -> onnx.ModelProto:
    return models.chain([models.gemm([[1000, 1000]], [-1998]), ("Relu", [], {})], [1, 2], [1, 1])


NUMBERS = [
    Case("NaN in half of the box", _root, _query(1, 1, SIGNED, "(>= Y_0 0.99)"), SAT),
    Case("NaN satisfies nothing", _root, _query(1, 1, SIGNED, "(<= Y_0 -1)"), NOT_SAT),
    Case("equality counts", _negative_relu, _query(1, 1, SIGNED, "(>= Y_0 0.0)"), SAT),
    Case("no tolerance", _negative_relu, _query(1, 1, SIGNED, "(>= Y_0 1e-30)"), NOT_SAT),
    Case("no gradient in nearly all of the box", _dead, _query(2, 1, UNIT2, "(>= Y_0 0.5)"), SAT),
]

# ---- texts
TWO_OUTPUTS = """(vnnlib-version <2.0>)
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
HARD_TO_READ = (
    "; sample spec\r\n(declare-const X_0 Real)\r\n(declare-const X_1 Real)\t; second\r\n(declare-const Y_0 Real)\r\n"
    "(assert (<= -1e-17 X_0))\r\n(assert(<= X_0 +1.0E0))\r\n( assert ( >= X_1 -.5 ) )\r\n(assert (<= X_1 1.))\r\n"
    "(assert (or(and(>= Y_0 1.4)(>= 2 Y_0))(>= -3 Y_0)))"
)
PLAIN = _query(2, 1, models.box(["-1e-17", "-0.5"], ["1.0", "1.0"]), "(or (and (>= Y_0 1.4) (<= Y_0 2)) (<= Y_0 -3))")


def _plus() -> onnx.ModelProto:
    return models.affine([[1, 1]])


TEXTS = [
    Case("two outputs", models.two_outputs, TWO_OUTPUTS, SAT),
    Case("hard to read", _plus, HARD_TO_READ, SAT),
    Case("the same in plain form", _plus, PLAIN, SAT),
]

CASES = [*COMBINING, *BOXES, *BATCHING, *LAYOUTS, *NUMBERS, *TEXTS]
