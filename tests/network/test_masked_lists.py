"""What masks choose: lists as long as the input says, put back or added up, as PyTorch's exporters write them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto
from operator_checks import check_gradient, check_outputs
from small_networks import read

from falsifier.errors import UnsupportedError
from falsifier.network.lowering import lower

CONSTANTS = (
    "int64[1] z = {0}, int64[1] one = {1}, int64[1] flat = {-1}, int64[1] last = {2}, int64 first = {0}, "
    "float zero = {0}, float half = {0.5}, float two = {2}"
)
X = np.random.default_rng(0).uniform(0.2, 1, (5, 6)) * np.random.default_rng(1).choice([-1, 1], (5, 6))
X[-1] = -np.abs(X[-1])  # where nothing is chosen
MASK = "m = Greater (x, zero) n = NonZero (m) t = Transpose (n)"


def net(*steps: str) -> ModelProto:
    """x `[2, 3]` to y."""
    return read(f"net (float[2,3] x) => (float y) <{CONSTANTS}> {{\n" + "\n".join(steps) + "\n}", 17)


COUNT = "r = Reshape (m, flat) i = Cast <to = 7> (r) c = ReduceSum (i, z)"
"""How many entries are chosen, as dynamo asks for it."""

MODELS = {
    "z[x > 0] = 0.5, told how many": net(
        MASK, COUNT, "e = Expand (half, c) u = Reshape (e, flat)", "y = ScatterND (x, t, u)"
    ),
    "z[x > 0] = x[x > 0] ** 2": net(
        MASK, "g = GatherND (x, t) p = Pow (g, two)", COUNT, "u = Expand (p, c)", "y = ScatterND (x, t, u)"
    ),
    "as long as another NonZero of the mask": net(
        MASK,
        "g = GatherND (x, t) d = Mul (g, two) s = Shape (x) b = Expand (m, s) k = NonZero (b) o = Transpose (k)",
        "l = Shape (o) h = Gather <axis = 0> (l, first) e = Unsqueeze (h, z) u = Slice (d, z, e, z)",
        "y = ScatterND (x, o, u)",
    ),
    "numbers as a mask": net(
        "v = Relu (x) n = NonZero (v) t = Transpose (n) g = GatherND (x, t) u = Tanh (g)", "y = ScatterND (x, t, u)"
    ),
    "rows": net(
        "a = ReduceMax <axes = [1], keepdims = 0> (x) m = Greater (a, zero) n = NonZero (m) t = Transpose (n)",
        "g = GatherND (x, t) u = Neg (g) y = ScatterND (x, t, u)",
    ),
    "columns": net(
        "a = ReduceMax <axes = [0], keepdims = 0> (x) m = Greater (a, zero) n = NonZero (m)",
        "w = Add (n, z) s = Shape (w) e = Expand (one, s) f = Unsqueeze (e, flat) v = Unsqueeze (n, flat)",
        "t = Concat <axis = -1> (f, v) g = GatherND (x, t) u = Mul (g, two) y = ScatterND (x, t, u)",
    ),
    "sum": net(MASK, "g = GatherND (x, t) p = Mul (g, g) y = ReduceSum (p)"),
    "mean": net(MASK, "g = GatherND (x, t) y = ReduceMean <keepdims = 0> (g)"),
}


@pytest.mark.parametrize("name", MODELS)
def test_lists_that_a_mask_chooses(name: str) -> None:
    check_outputs(MODELS[name], X.astype(np.float32), engines="onnxruntime")
    lower(MODELS[name])


@pytest.mark.parametrize("name", ["z[x > 0] = x[x > 0] ** 2", "columns", "mean"])
def test_their_gradients(name: str) -> None:
    check_outputs(MODELS[name], X.astype(np.float32), engines="torch")
    check_gradient(MODELS[name], X[[0, 1, 4]])


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ([MASK, "y = GatherND (x, t)"], "tensor 'y', from NonZero: how many results there are depends on the input"),
        ([MASK, "g = GatherND (x, t) y = ReduceMax (g)"], "ReduceMax of a list that NonZero makes"),
        (
            [MASK, "o = Less (x, half) k = NonZero (o) q = Transpose (k) g = GatherND (x, q) y = ScatterND (x, t, g)"],
            "in several ways",
        ),
        (
            [
                MASK,
                "g = GatherND (x, t) s = ReduceSum (x) i = Cast <to = 7> (s) j = Reshape (i, one) y = Expand (g, j)",
            ],
            "the target shape depends",
        ),
        ([MASK, "g = GatherND (x, t) u = NonZero (g) y = Cast <to = 1> (u)"], "NonZero of a list"),
        ([MASK, 'g = GatherND (x, t) y = ScatterND <reduction = "add"> (x, t, g)'], "a scatter of entries"),
    ],
)
def test_what_has_a_length_of_its_own_is_refused_in_one_line(steps: list[str], why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        lower(net(*steps))
