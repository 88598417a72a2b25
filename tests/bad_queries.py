"""Mistakes in 2.0 queries and in the networks given for them, each with what the one line about it must say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import models
import numpy as np
from several_networks import VERSION, asserts, network

F, G = network("f", n=2), network("g", n=2)
EQUAL, ISOMORPHIC = network("g", "(equal-to f) ", n=2), network("g", "(isomorphic-to f) ", n=2)
BOX = asserts("(and (>= X_f[0,0] 0.0) (<= X_f[0,0] 1.0))", "(and (>= X_f[0,1] 0.0) (<= X_f[0,1] 1.0))")
SAME = asserts("(== X_g[0,0] X_f[0,0])", "(== X_g[0,1] X_f[0,1])")
ASKED = asserts("(>= Y_f[0,0] 0.5)")
ONE, TWO = VERSION + F + BOX + ASKED, VERSION + F + EQUAL + BOX + SAME + ASKED
HIDDEN = '(declare-hidden H float32 [1,2] "t0") '


@dataclass(frozen=True)
class Mistake:
    """A query, the networks that are given, and a pattern of the message."""

    text: str
    said: str
    given: tuple[str, ...] = ("f=net.onnx",)


def one(formula: str, said: str, declared: str = F) -> Mistake:
    """A mistake in one assert of a query about one network, or in its declaration."""
    return Mistake(VERSION + declared + BOX + asserts(formula), said)


MISTAKES: dict[str, Mistake] = {
    # names and indices, by the line of the text
    "index too large": one(
        "(<= X_f[0,2] 1.0)", r"prop.vnnlib:5: Index out of bounds .*'X_f\[0,2\]'; Index 2 .* size 2"
    ),
    "negative index": one(
        "(<= X_f[0,-1] 1.0)", r"prop.vnnlib:5: index out of bounds 'X_f\[0,-1\]'; the shape is \[1, 2\]"
    ),
    "too few indices": one("(<= X_f[0] 1.0)", r":5: Not enough indices .*'X_f\[0\]'; Expected 2 indices"),
    "too many indices": one("(<= Y_f[0,0,0] 1.0)", r":5: Too many indices .*'Y_f\[0,0,0\]'; Expected 2 indices"),
    "no index": one("(<= X_f 1.0)", r":5: Not enough indices .*'X_f\[\]'"),
    "name of 1.0": one("(<= X_0 1.0)", r":5: Undeclared variable 'X_0'"),
    "name of a network": one("(<= f 1.0)", r":5: Undeclared variable 'f'"),
    # types
    "whole number": one("(<= X_f[0,0] 1)", r":5: Type mismatch .*'1'; .*'F32'.* wants a number like 1\.0"),
    "exponent": one("(<= X_f[0,0] 1.5e-3)", r":5:\d+: .*'e'.*2.0 has no exponents: write the decimal out"),
    "sign of 1.0": one("(= X_f[0,0] 1.0)", r":5:10: .*'='.* write =="),
    "types mixed": Mistake(
        VERSION + F + network("g", n=2, dtype="float64") + BOX + asserts("(<= X_f[0,0] X_g[0,0])"),
        r":6: Type mismatch .*'X_g'; Expected type 'F32' .* has type 'F64'",
        ("f=net.onnx", "g=net.onnx"),
    ),
    "unknown type": one(
        "(<= X_f[0,0] 1.0)",
        r"X_f has the unknown type 'float33'; the types are real, float16",
        F.replace("float32", "float33", 1),
    ),
    "type of the model": one(
        "(<= X_f[0,0] 1.0)",
        r"X_f is declared float64, the ONNX tensor has float32: declare it float32",
        F.replace("float32", "float64"),
    ),
    # declarations
    "variable twice": Mistake(
        VERSION + F + F.replace("f ", "g ", 1) + BOX, r":3: Duplicate variable declaration 'X_f'"
    ),
    "network twice": Mistake(VERSION + F + G.replace("g ", "f ", 1) + BOX, r"declares two networks named f"),
    "equal to nothing": Mistake(
        VERSION + F + network("g", "(equal-to h) ", n=2) + BOX, r":3: .*'h' not found for equal-to"
    ),
    "equal to a later one": Mistake(
        VERSION + network("f", "(equal-to g) ", n=2) + G + BOX, r":2: .*'g' not found for equal-to"
    ),
    "equal to itself": Mistake(
        VERSION + F + network("g", "(equal-to g) ", n=2) + BOX, r":3: Chained network equivalence"
    ),
    "equal and isomorphic": Mistake(
        VERSION + F + network("g", "(equal-to f) (isomorphic-to f) ", n=2) + BOX + SAME,
        "declared both equal-to f and isomorphic-to f: keep one",
        ("f=net.onnx", "g=net.onnx"),
    ),
    "equal in another shape": Mistake(
        VERSION + F + network("g", "(equal-to f) ", n=3) + BOX,
        r":3: Shape mismatch for variable number 0 between networks 'g' and 'f'",
    ),
    "isomorphic in another shape": Mistake(
        VERSION + F + network("g", "(isomorphic-to f) ", m=3, n=2) + BOX, r":3: Shape mismatch .*'g' and 'f'"
    ),
    "no assert": Mistake(VERSION + F, "asserts nothing"),
    "no version": Mistake(ONE.removeprefix(VERSION), r"prop.vnnlib:1: the version statement is missing; begin with"),
    "declaration after an assert": Mistake(
        ONE + G, r"prop.vnnlib:6:2: only asserts may follow .*'declare-network'; move or remove it"
    ),
    # networks that are given
    "network missing": Mistake(
        VERSION + F + ISOMORPHIC + BOX + SAME + ASKED, r"no model is given for network g: add --network g=FILE"
    ),
    "network superfluous": Mistake(ONE, r"declares no network 'g', only f", ("f=net.onnx", "g=net.onnx")),
    "another copy": Mistake(TWO, r"g is equal to f but another model is given for it", ("f=net.onnx", "g=other.onnx")),
    "only the copy's": Mistake(TWO, r"no model is given for network f: add --network f=FILE", ("g=net.onnx",)),
    "nameless among several": Mistake(
        VERSION + F + ISOMORPHIC + BOX + SAME + ASKED, r"give each as NAME=FILE", ("net.onnx", "g=net.onnx")
    ),
    "name unknown": Mistake(ONE, r"declares no network 'h', only f", ("h=net.onnx",)),
    "given twice": Mistake(ONE, r"network f is given 2 times: give each network once", ("f=net.onnx", "f=net.onnx")),
    "name without a file": Mistake(ONE, r"network f is given without a file: write f=FILE", ("f=",)),
    "none given": Mistake(TWO, r"give its network with --network FILE, several as --network NAME=FILE each", ()),
    "isomorphic in another type": Mistake(
        (VERSION + F + ISOMORPHIC + BOX + SAME + ASKED).replace("float32", "real"),
        r"g is isomorphic to f, but its tensor X .* has float64 where X has float32",
        ("f=net.onnx", "g=double.onnx"),
    ),
    # what the model does not have
    "too many inputs": one(
        "(<= X_f[0,0] 1.0)",
        r"net.onnx: the model has 1 input, the query declares 2",
        F.replace("(declare-output", "(declare-input W float32 [1]) (declare-output"),
    ),
    "wrong size": one(
        "(<= X_f[0,0] 1.0)", r"net.onnx: input 'X' has shape \[1, 2\], the query declares \[1, 3\]", network("f", n=3)
    ),
    "no such tensor": one("(<= X_f[0,0] 1.0)", r"'nowhere'", network("f", n=2, hidden=HIDDEN.replace("t0", "nowhere"))),
    "hidden of another size": one(
        "(<= X_f[0,0] 1.0)", r"H has shape \[1, 5\]", network("f", n=2, hidden=HIDDEN.replace("[1,2]", "[1,5]"))
    ),
    "too many outputs": one(
        "(<= X_f[0,0] 1.0)",
        r"network f declares 2 outputs, its model has 1",
        F.replace("(declare-output", "(declare-output V float32 [1]) (declare-output"),
    ),
    "output of another size": one(
        "(<= X_f[0,0] 1.0)", r"Y_f has shape \[1, 3\], the ONNX tensor Y has \[1, 1\]", network("f", n=2, m=3)
    ),
    "hidden of another type": one(
        "(<= X_f[0,0] 1.0)",
        r"H is declared int64, the ONNX tensor has float32",
        network("f", n=2, hidden=HIDDEN.replace("float32", "int64")),
    ),
    "hidden in the other network": Mistake(
        VERSION + F + network("g", "(isomorphic-to f) ", n=2, hidden=HIDDEN) + BOX + SAME + ASKED,
        r"other.onnx: the model has no tensor 't0', which the query declares hidden; it has Y",
        ("f=net.onnx", "g=other.onnx"),
    ),
    # regions
    "input without bounds": Mistake(
        VERSION + F + ISOMORPHIC + BOX + ASKED,
        r"the input X_g\[0,0\] has no lower bound \(and 1 more input",
        ("f=net.onnx", "g=net.onnx"),
    ),
}

UNKNOWN = ("input without bounds",)
"""Those that are no fault of the file: a results file says `unknown`."""


def models_for(folder: Path) -> None:
    """y = relu(x0 + x1), the same with another weight, and the same in float64; `t0` is what goes into the relu."""
    relu: Callable[[], models.Step] = lambda: ("Relu", [], {})  # noqa: E731
    models.save(
        models.chain([models.gemm([[1, 1], [1, 0]]), relu(), models.gemm([[1, 1]], name="2")], [1, 2], [1, 1]),
        folder / "net.onnx",
    )
    models.save(models.affine([[1, 2]]), folder / "other.onnx")
    matrix = models.constant("W", np.ones((2, 1)), np.float64)
    models.save(models.chain([("MatMul", [matrix], {})], [1, 2], [1, 1], np.float64), folder / "double.onnx")
