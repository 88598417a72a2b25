"""VNN-LIB 2.0 queries with answers known by construction, over tiny random networks: for `generated_v2.py` and tests.

A satisfiable one is built around its witness: points of the region are drawn, and what is asked of the best of them is
nearly what it attains, so that drawing points anew seldom answers it. An unsatisfiable one asks for what interval
arithmetic, or the query's own algebra, rules out. Nothing of the package is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
DRAWN = 4000  # points, of which the best becomes the witness
SHARE = 0.03  # of the way from the best point back to the median: what is asked


@dataclass(frozen=True)
class Planted:
    """A query, its networks as (name, bytes of the model), and its answer: sat or unsat."""

    kind: str
    name: str
    text: str
    models: dict[str, bytes]
    expected: str


class Net:
    """Y = W2 relu(W1 relu(W0 X)), with its hidden tensors h0 and h1."""

    def __init__(self, rng: np.random.Generator, n: int, m: int, width: int = 8) -> None:
        sizes = (n, width, width, m)
        self.n, self.m, self.width = n, m, width
        self.weights = [
            rng.normal(size=(a, b)).astype(np.float32) * np.float32((2 / a) ** 0.5) for a, b in pairwise(sizes)
        ]
        self.biases = [rng.normal(size=b).astype(np.float32) * np.float32(0.3) for b in sizes[1:]]

    def __call__(self, x: Floats) -> tuple[Floats, Floats]:
        """h1 `[b, width]` and Y `[b, m]` of points `[b, n]`."""
        h = x
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            h = np.maximum(h @ weight.astype(np.float64) + bias, 0)
        return h, h @ self.weights[-1].astype(np.float64) + self.biases[-1]

    def most(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Upper bounds of h1 and of Y in a box, by interval arithmetic."""
        most = []
        for weight, bias in zip(self.weights, self.biases, strict=True):
            centre, radius = (low + high) / 2, (high - low) / 2
            centre, radius = centre @ weight + bias, radius @ np.abs(weight)
            most.append(centre + radius)
            low, high = np.maximum(centre - radius, 0), np.maximum(centre + radius, 0)
        return np.maximum(most[-2], 0), most[-1]

    def model(self) -> bytes:
        from onnx import TensorProto, helper, numpy_helper

        nodes, constants = [], []
        at = "X"
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            last = i == len(self.weights) - 1
            constants += [numpy_helper.from_array(weight, f"W{i}"), numpy_helper.from_array(bias, f"b{i}")]
            nodes.append(helper.make_node("Gemm", [at, f"W{i}", f"b{i}"], ["Y" if last else f"z{i}"]))
            if not last:
                nodes.append(helper.make_node("Relu", [f"z{i}"], [f"h{i}"]))
            at = f"h{i}"
        ends = [helper.make_tensor_value_info(t, TensorProto.FLOAT, [1, d]) for t, d in (("X", self.n), ("Y", self.m))]
        graph = helper.make_graph(nodes, "tiny", ends[:1], ends[1:], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        return bytes(model.SerializeToString())


def number(value: float) -> str:
    """A decimal as 2.0 writes it."""
    return np.format_float_positional(round(float(value), 6), trim="0")


def declared(name: str, net: Net, relation: str = "", hidden: bool = False) -> str:
    inner = f'(declare-hidden H_{name} float32 [1,{net.width}] "h1") ' if hidden else ""
    return (
        f"(declare-network {name} {relation}(declare-input X_{name} float32 [1,{net.n}]) {inner}"
        f"(declare-output Y_{name} float32 [1,{net.m}]))\n"
    )


def text_of(declarations: str, formulas: Sequence[str]) -> str:
    return f"(vnnlib-version <2.0>)\n{declarations}" + "".join(f"(assert {f})\n" for f in formulas)


def boxed(name: str, low: Floats, high: Floats) -> list[str]:
    pairs = enumerate(zip(low, high, strict=True))
    return [f"(and (>= X_{name}[0,{i}] {number(a)}) (<= X_{name}[0,{i}] {number(b)}))" for i, (a, b) in pairs]


def box(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """Ends on sixty-fourths, which every type holds."""
    centre, half = rng.integers(-64, 65, n), rng.integers(16, 65, n)
    return (centre - half) / 64, (centre + half) / 64


def drawn(rng: np.random.Generator, low: Floats, high: Floats, count: int = DRAWN) -> Floats:
    return low + rng.random((count, len(low))) * (high - low)


def attained(values: Floats) -> tuple[float, int]:
    """What to ask for so that the best point has it, and few others: a threshold, and the best point."""
    best = int(np.argmax(values))
    return float(values[best] - SHARE * (values[best] - np.median(values)) - 1e-4), best


# --- satisfiable ---


def polynomial_region(rng: np.random.Generator) -> Planted:
    """An output over a spherical shell."""
    net = Net(rng, 4, 3)
    low, high = -np.ones(4) * 2, np.ones(4) * 2
    centre, inner, outer = rng.integers(-32, 33, 4) / 64, 0.9, 1.0
    x = rng.normal(size=(DRAWN, 4))
    x = centre + x / np.linalg.norm(x, axis=1, keepdims=True) * rng.uniform(inner, outer, (DRAWN, 1))
    ask, _ = attained(net(x)[1][:, 0])
    parts = " ".join(f"(* (- X_f[0,{i}] {number(c)}) (- X_f[0,{i}] {number(c)}))" for i, c in enumerate(centre))
    formulas = [*boxed("f", low, high), f"(<= (+ {parts}) {outer**2})", f"(>= (+ {parts}) {inner**2:.6f})"]
    return _sat("polynomial_region", {"f": net}, declared("f", net), [*formulas, f"(>= Y_f[0,0] {number(ask)})"])


def polynomial_outputs(rng: np.random.Generator) -> Planted:
    """The product of two outputs, and the sum of squares of two."""
    net = Net(rng, 5, 3)
    low, high = box(rng, 5)
    y = net(drawn(rng, low, high))[1]
    first = y[:, 0] * y[:, 1]
    ask, best = attained(first)
    squares = float(y[best, 1] ** 2 + y[best, 2] ** 2)
    formulas = [
        f"(> (* Y_f[0,0] Y_f[0,1]) {number(ask)})",
        f"(<= (+ (* Y_f[0,1] Y_f[0,1]) (* Y_f[0,2] Y_f[0,2])) {number(squares + 0.5)})",
    ]
    return _sat("polynomial_outputs", {"f": net}, declared("f", net), [*boxed("f", low, high), *formulas])


def polynomial_mixed(rng: np.random.Generator) -> Planted:
    """Products of inputs and outputs, in one of three alternatives; the others contradict the box."""
    net = Net(rng, 4, 2)
    low, high = box(rng, 4)
    x = drawn(rng, low, high)
    y = net(x)[1]
    ask, _ = attained(x[:, 0] * y[:, 0] - x[:, 1] * x[:, 2])
    wanted = f"(>= (- (* X_f[0,0] Y_f[0,0]) (* X_f[0,1] X_f[0,2])) {number(ask)})"
    other = f"(and (>= X_f[0,3] {number(high[3] + 1)}) (!= Y_f[0,1] 0.0))"
    formula = f"(or {other} (and {wanted} (!= Y_f[0,0] Y_f[0,1])) {other})"
    return _sat("polynomial_mixed", {"f": net}, declared("f", net), [*boxed("f", low, high), formula])


def linear_ties(rng: np.random.Generator) -> Planted:
    """Inputs tied by linear equations, one of which follows two others."""
    net = Net(rng, 5, 2)
    low, high = np.full(3, -1.0), np.full(3, 1.0)
    x = drawn(rng, low, high)
    full = np.concatenate([x, x[:, :1] * 0.5 + 0.25, x[:, 1:2] - 2 * x[:, 2:3]], axis=1)
    ask, _ = attained(net(full)[1][:, 0])
    formulas = [
        *boxed("f", low, high),
        "(== X_f[0,3] (+ (* 0.5 X_f[0,0]) 0.25))",
        "(== (+ X_f[0,4] (* 2.0 X_f[0,2])) X_f[0,1])",
        f"(>= Y_f[0,0] {number(ask)})",
    ]
    return _sat("linear_ties", {"f": net}, declared("f", net), formulas)


def flat_zero(rng: np.random.Generator) -> Planted:
    """A hidden element that is exactly 0, an output that is not, and another that is large."""
    while True:
        net = Net(rng, 4, 2)
        low, high = box(rng, 4)
        h, y = net(drawn(rng, low, high))
        zero = (h == 0).mean(axis=0)
        wanted = np.flatnonzero((zero > 0.05) & (zero < 0.7))
        if len(wanted):
            break
    unit = int(wanted[0])
    ask, _ = attained(np.where(h[:, unit] == 0, y[:, 0], -np.inf) if zero[unit] > 0.5 else y[h[:, unit] == 0, 0])
    formulas = [f"(== H_f[0,{unit}] 0.0)", "(!= Y_f[0,1] 0.0)", f"(>= Y_f[0,0] {number(ask)})"]
    return _sat("flat_zero", {"f": net}, declared("f", net, hidden=True), [*boxed("f", low, high), *formulas])


def deep(rng: np.random.Generator) -> Planted:
    """Forty ors of two, whose product is never formed, beside the same in ands sixty deep."""
    net = Net(rng, 4, 4)
    low, high = box(rng, 4)
    y = net(drawn(rng, low, high))[1]
    ask, best = attained(y[:, 0] - y[:, 1])
    ors = []
    for _ in range(40):
        i, j = rng.integers(0, 4, 2)
        true = f"(<= Y_f[0,{i}] {number(y[best, i] + rng.uniform(0.1, 1))})"
        false = f"(>= Y_f[0,{j}] {number(y[:, j].max() + 50)})"
        ors.append(f"(or {true} {false})" if rng.random() < 0.5 else f"(or {false} {true})")
    nested = f"(>= (- Y_f[0,0] Y_f[0,1]) {number(ask)})"
    for i in range(60):
        nested = f"(and {ors[i % 40]} {nested})"
    return _sat("deep", {"f": net}, declared("f", net), [*boxed("f", low, high), *ors, nested])


def equal_copies(rng: np.random.Generator) -> Planted:
    """Two copies that share all inputs but one, which rises while the output falls."""
    net = Net(rng, 4, 2)
    low, high = box(rng, 4)
    x = drawn(rng, low, high)
    step = rng.random(DRAWN) * (high[0] - x[:, 0])
    moved = x.copy()
    moved[:, 0] += step
    ask, _ = attained(net(x)[1][:, 0] - net(moved)[1][:, 0])
    formulas = [
        *boxed("f", low, high),
        *(f"(== X_f[0,{i}] X_g[0,{i}])" for i in range(1, 4)),
        "(<= X_f[0,0] X_g[0,0])",
        f"(<= X_g[0,0] {number(high[0])})",
        f"(> Y_f[0,0] (+ Y_g[0,0] {number(ask)}))",
    ]
    return _sat("equal_copies", {"f": net}, declared("f", net) + declared("g", net, "(equal-to f) "), formulas)


def isomorphic_pair(rng: np.random.Generator) -> Planted:
    """Two networks on the same inputs whose outputs differ somewhere."""
    f, g = Net(rng, 4, 3), Net(rng, 4, 3)
    low, high = box(rng, 4)
    x = drawn(rng, low, high)
    difference = f(x)[1] - g(x)[1]
    column = int(rng.integers(0, 3))
    ask, _ = attained(difference[:, column])
    alternatives = [
        f"(>= (- Y_f[0,{i}] Y_g[0,{i}]) {number(ask if i == column else difference[:, i].max() + 50)})"
        for i in range(3)
    ]
    formulas = [*boxed("f", low, high), *(f"(== X_g[0,{i}] X_f[0,{i}])" for i in range(4))]
    names = declared("f", f) + declared("g", g, "(isomorphic-to f) ")
    return _sat("isomorphic_pair", {"f": f, "g": g}, names, [*formulas, f"(or {' '.join(alternatives)})"])


def independent_pair(rng: np.random.Generator) -> Planted:
    """Two networks of different shapes, their outputs multiplied, an input of one bounded by an output of the other."""
    f, g = Net(rng, 3, 2), Net(rng, 5, 1, width=6)
    ends = box(rng, 3), box(rng, 5)
    x, u = (drawn(rng, *e) for e in ends)
    y, v = f(x)[1], g(u)[1]
    ask, best = attained(y[:, 0] * v[:, 0] + x[:, 0])
    formulas = [
        *boxed("f", *ends[0]),
        *boxed("g", *ends[1]),
        f"(>= (+ (* Y_f[0,0] Y_g[0,0]) X_f[0,0]) {number(ask)})",
        f"(<= X_g[0,1] (+ Y_f[0,1] {number(u[best, 1] - y[best, 1] + 0.05)}))",
    ]
    return _sat("independent_pair", {"f": f, "g": g}, declared("f", f) + declared("g", g), formulas)


def hidden(rng: np.random.Generator) -> Planted:
    """A hidden element that is large where an output is small."""
    net = Net(rng, 5, 2)
    low, high = box(rng, 5)
    h, y = net(drawn(rng, low, high))
    unit = int(np.argmax(h.std(axis=0)))
    ask, best = attained(h[:, unit] - y[:, 0])
    formulas = [
        f"(>= H_f[0,{unit}] (+ Y_f[0,0] {number(ask)}))",
        f"(<= Y_f[0,0] {number(y[best, 0] + 0.2)})",
    ]
    return _sat("hidden", {"f": net}, declared("f", net, hidden=True), [*boxed("f", low, high), *formulas])


def hidden_pair(rng: np.random.Generator) -> Planted:
    """Hidden elements of two copies, compared over tied inputs."""
    net = Net(rng, 4, 2)
    low, high = box(rng, 4)
    x = drawn(rng, low, high)
    mirrored = x.copy()
    mirrored[:, 0] = -mirrored[:, 0]
    a, b = net(x)[0], net(mirrored)[0]
    unit = int(np.argmax((a - b).std(axis=0)))
    ask, _ = attained(a[:, unit] - b[:, unit])
    formulas = [
        *boxed("f", low, high),
        "(== X_g[0,0] (- X_f[0,0]))",
        *(f"(== X_g[0,{i}] X_f[0,{i}])" for i in range(1, 4)),
        f"(>= (- H_f[0,{unit}] H_g[0,{unit}]) {number(ask)})",
    ]
    names = declared("f", net, hidden=True) + declared("g", net, "(equal-to f) ", hidden=True)
    return _sat("hidden_pair", {"f": net}, names, formulas)


# --- unsatisfiable ---


def beyond_reach(rng: np.random.Generator) -> Planted:
    """An output above its interval bound, in every alternative."""
    net = Net(rng, 4, 3)
    low, high = box(rng, 4)
    most = net.most(low, high)[1]
    formula = " ".join(f"(>= Y_f[0,{i}] {number(most[i] + 0.01)})" for i in range(3))
    return _unsat("beyond_reach", {"f": net}, declared("f", net), [*boxed("f", low, high), f"(or {formula})"])


def empty_region(rng: np.random.Generator) -> Planted:
    """Squares of inputs whose sum would have to be less than it can be."""
    net = Net(rng, 3, 1)
    low, high = box(rng, 3)
    least = float(np.where((low <= 0) & (high >= 0), 0, np.minimum(low**2, high**2)).sum())
    squares = " ".join(f"(* X_f[0,{i}] X_f[0,{i}])" for i in range(3))
    formulas = [*boxed("f", low, high), f"(<= (+ {squares}) {number(least - 0.01)})", "(!= Y_f[0,0] 0.5)"]
    return _unsat("empty_region", {"f": net}, declared("f", net), formulas)


def diagonal(rng: np.random.Generator) -> Planted:
    """Two copies on the same input, one output less than the other."""
    net = Net(rng, 4, 2)
    low, high = box(rng, 4)
    formulas = [*boxed("f", low, high), *(f"(== X_f[0,{i}] X_g[0,{i}])" for i in range(4)), "(< Y_f[0,1] Y_g[0,1])"]
    return _unsat("diagonal", {"f": net}, declared("f", net) + declared("g", net, "(equal-to f) "), formulas)


def negative_hidden(rng: np.random.Generator) -> Planted:
    """A rectified tensor below 0, or above its interval bound."""
    net = Net(rng, 4, 1)
    low, high = box(rng, 4)
    most = net.most(low, high)[0]
    formula = f"(or (<= H_f[0,0] -0.001) (< (+ H_f[0,1] H_f[0,2]) 0.0) (>= H_f[0,3] {number(most[3] + 0.01)}))"
    return _unsat("negative_hidden", {"f": net}, declared("f", net, hidden=True), [*boxed("f", low, high), formula])


def negative_square(rng: np.random.Generator) -> Planted:
    """A square of a difference of two networks' outputs below 0."""
    f, g = Net(rng, 3, 1), Net(rng, 3, 1)
    difference = "(- Y_f[0,0] Y_g[0,0])"
    formulas = [*boxed("f", *box(rng, 3)), *boxed("g", *box(rng, 3)), f"(<= (* {difference} {difference}) -0.01)"]
    return _unsat("negative_square", {"f": f, "g": g}, declared("f", f) + declared("g", g), formulas)


def _sat(kind: str, nets: dict[str, Net], declarations: str, formulas: Sequence[str]) -> Planted:
    return Planted(kind, "", text_of(declarations, formulas), {k: n.model() for k, n in nets.items()}, "sat")


def _unsat(kind: str, nets: dict[str, Net], declarations: str, formulas: Sequence[str]) -> Planted:
    return Planted(kind, "", text_of(declarations, formulas), {k: n.model() for k, n in nets.items()}, "unsat")


SAT: tuple[Callable[[np.random.Generator], Planted], ...] = (
    polynomial_region,
    polynomial_outputs,
    polynomial_mixed,
    linear_ties,
    flat_zero,
    deep,
    equal_copies,
    isomorphic_pair,
    independent_pair,
    hidden,
    hidden_pair,
)
UNSAT: tuple[Callable[[np.random.Generator], Planted], ...] = (
    beyond_reach,
    empty_region,
    diagonal,
    negative_hidden,
    negative_square,
)


def planted(each: int, each_unsat: int, rng_seed: int = 0) -> list[Planted]:
    """So many queries of every kind."""
    out: list[Planted] = []
    for makers, count in ((SAT, each), (UNSAT, each_unsat)):
        for number_of_kind, make in enumerate(makers):
            for i in range(count):
                made = make(np.random.default_rng([rng_seed, number_of_kind, i, len(makers)]))
                out.append(replace(made, name=f"{made.kind}_{i}"))
    return out
