"""Queries over several tiny networks and over hidden tensors, for tests: answers are worked out by hand."""

from __future__ import annotations

import models
import onnx

VERSION = "(vnnlib-version <2.0>)\n"


def network(name: str, relation: str = "", n: int = 1, m: int = 1, dtype: str = "float32", hidden: str = "") -> str:
    """A declaration with input X_NAME `[1,n]` and output Y_NAME `[1,m]`."""
    return (
        f"(declare-network {name} {relation}(declare-input X_{name} {dtype} [1,{n}]) {hidden}"
        f"(declare-output Y_{name} {dtype} [1,{m}]))\n"
    )


def asserts(*formulas: str) -> str:
    """One assert for each formula."""
    return "".join(f"(assert {formula})\n" for formula in formulas)


def inside(variable: str, low: str, high: str) -> str:
    """Bounds on one element, as asserts."""
    return asserts(f"(>= {variable} {low})", f"(<= {variable} {high})")


def bent() -> onnx.ModelProto:
    """X[1,1] -> t0 = (X, X - 2) -> t1 = max(t0, 0) -> Y = t1_0 - 3 t1_1: rises to 2 at 2, falls to -1 at 3.5."""
    return models.chain(
        [models.gemm([[1], [1]], [0, -2]), ("Relu", [], {}), models.gemm([[1, -3]], name="2")], [1, 1], [1, 1]
    )


HIDDEN = '(declare-hidden H float32 [1,2] "t1") '

# two copies of `bent`, the first input at least the second: X_f = 3 and X_g = 2 show that it is not monotone
FALLS = (
    VERSION
    + network("f")
    + network("g", "(equal-to f) ")
    + inside("X_f[0,0]", "0.0", "3.0")
    + asserts("(>= X_g[0,0] 0.0)", "(>= X_f[0,0] X_g[0,0])", "(< Y_f[0,0] Y_g[0,0])")
)
# the same input for both: they never differ
DIAGONAL = (
    VERSION
    + network("f")
    + network("g", "(equal-to f) ")
    + inside("X_f[0,0]", "0.0", "3.0")
    + asserts("(== X_f[0,0] X_g[0,0])", "(< Y_f[0,0] Y_g[0,0])")
)
