"""Generated networks whose only NaN (or failure) lies in less than 10^-9 of the box: a function for each kind of fault.

`corner` faults need an affine feature within a little of its greatest value over the box, which only a neighbourhood of
one vertex gives; `point` faults need several coordinates to have exactly one value each; `equal` ones need them alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET = 18
VOLUME = 1e-10  # of the box, that corner faults take


@dataclass(frozen=True)
class Faulty:
    """A network, the ends of its inputs' ranges by name, and the share of the box in which it breaks (a bound)."""

    kind: str
    model: onnx.ModelProto
    ranges: dict[str, tuple[float, float]]
    volume: float


class Net:
    """Builds a graph name by name."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []

    def x(self, n: int, name: str = "X", dtype: int = TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, dtype, [1, n]))
        return name

    def image(self, shape: list[int], name: str = "X") -> str:
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    def const(self, values: Any, dtype: Any = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def __call__(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=f"n{len(self.nodes)}_{op}", **attributes))
        return name

    def affine(self, x: str, weight: Any, bias: Any) -> str:
        return self("Gemm", x, self.const(np.atleast_2d(weight)), self.const(np.atleast_1d(bias)), transB=1)

    def reduce(self, op: str, x: str, axis: int = 1) -> str:
        return self(op, x, self.const([axis], np.int64), keepdims=1)

    def model(self, y: str, dtype: int = TensorProto.FLOAT) -> onnx.ModelProto:
        self.nodes.append(helper.make_node("Identity", [y], ["Y"], name="out"))
        outputs = [helper.make_tensor_value_info("Y", dtype, None)]
        graph = helper.make_graph(self.nodes, "faulty", self.inputs, outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def corner(rng: np.random.Generator, n: int) -> tuple[NDArray[Any], float]:
    """Weights `[n]`, and the value that w . x exceeds in a share VOLUME of [-1, 1]^n around one vertex."""
    w = rng.uniform(0.5, 1.5, n) * rng.choice([-1.0, 1.0], n)
    log_cut = (math.log(VOLUME) + math.lgamma(n + 1) + np.log(2 * np.abs(w)).sum()) / n
    return w, float(np.abs(w).sum() - math.exp(log_cut))


def rare(net: Net, x: str, n: int) -> str:
    """A feature of x in [-1, 1]^n that is positive in a share VOLUME of it alone."""
    w, cut = corner(net.rng, n)
    return net.affine(x, w, -cut)


def scaled(net: Net, x: str, n: int, at: float) -> str:
    """A feature that exceeds `at` near one vertex alone, and is of that size elsewhere."""
    w, cut = corner(net.rng, n)
    return net.affine(x, w * at / cut, 0.0)


def _plain(net: Net, y: str, kind: str, volume: float = VOLUME, **ranges: tuple[float, float]) -> Faulty:
    return Faulty(kind, net.model(y), ranges or {"X": (-1.0, 1.0)}, volume)


# ---- corners
def vanishing_probability(net: Net) -> str:
    """-sum p log p, of a softmax that underflows in one corner."""
    n = 12
    w, cut = corner(net.rng, n)
    logits = net.affine(net.x(n), np.stack([w * 104.5 / cut, 0 * w]), [0.0, 0.0])
    p = net("Softmax", logits, axis=1)
    return net.reduce("ReduceSum", net("Mul", p, net("Log", p)))


def entropy_base_two(net: Net) -> str:
    """The same with a division by log 2, of probabilities by a sigmoid."""
    n = 14
    s = net("Sigmoid", scaled(net, net.x(n), n, 17.4))
    rest = net("Sub", net.const(1.0), s)
    return net("Mul", rest, net("Div", net("Log", rest), net.const(math.log(2))))


def zero_times_infinity(net: Net) -> str:
    n = 12
    x = net.x(n)
    gate = net("Relu", net("Neg", rare(net, x, n)))
    return net("Mul", gate, net("Exp", net("Mul", net("Sub", net.const(0.02), gate), net.const(1e5))))


def infinity_minus_infinity(net: Net) -> str:
    n = 14
    h = scaled(net, net.x(n), n, 88.73)
    return net("Sub", net("Exp", h), net("Exp", net("Mul", h, net.const(1.0005))))


def sinh_minus_cosh(net: Net) -> str:
    n = 12
    h = scaled(net, net.x(n), n, 89.42)
    return net("Sub", net("Sinh", h), net("Cosh", h))


def root_of_negative(net: Net) -> str:
    n = 14
    return net("Sqrt", net("Neg", rare(net, net.x(n), n)))


def root_of_difference_of_squares(net: Net) -> str:
    """A variance as E[x^2] - E[x]^2, with a constant that makes it nearly always positive."""
    n = 12
    x = net.x(n)
    h = net.affine(x, net.rng.normal(size=(16, n)), net.rng.normal(size=16))
    bad = net("Mul", net("Relu", rare(net, x, n)), net.const(1e6))
    mean = net.reduce("ReduceMean", h)
    squares = net.reduce("ReduceMean", net("Mul", h, h))
    return net("Div", h, net("Sqrt", net("Sub", net("Sub", squares, net("Mul", mean, mean)), bad)))


def fractional_power(net: Net) -> str:
    n = 14
    return net("Pow", net("Neg", rare(net, net.x(n), n)), net.const(1.5))


def softmax_by_hand(net: Net) -> str:
    n = 12
    w, cut = corner(net.rng, n)
    logits = net.affine(net.x(n), np.stack([w * 88.73 / cut, *(0.1 * net.rng.normal(size=(3, n)))]), np.zeros(4))
    e = net("Exp", logits)
    return net("Div", e, net.reduce("ReduceSum", e))


def log_softmax_by_hand(net: Net) -> str:
    """log of a softmax whose sum underflows to 0, less itself."""
    n = 14
    h = net("Neg", scaled(net, net.x(n), n, 104.0))
    e = net("Log", net("Exp", h))
    return net("Sub", e, net("Mul", e, net.const(2.0)))


def tiny_variance(net: Net) -> str:
    """Batch normalisation with a variance of 10^-38 and no epsilon, squared and compared."""
    n = 12
    h = net("Relu", rare(net, net.x(n), n))
    one = net.const([1.0])
    normal = net("BatchNormalization", h, one, net.const([0.0]), net.const([0.0]), net.const([1e-38]), epsilon=0.0)
    grown = net("Mul", normal, net("Mul", normal, net.const(1e6)))
    return net("Sub", grown, net("Mul", grown, net.const(0.5)))


def half_precision(net: Net) -> str:
    n = 12
    h = net("Cast", scaled(net, net.x(n), n, 65520.0), to=TensorProto.FLOAT16)
    h = net("Cast", h, to=TensorProto.FLOAT)
    return net("Sub", h, net("Mul", h, net.const(0.5)))


def half_precision_ratio(net: Net) -> str:
    """Softsign of what passed through half precision, by hand."""
    n = 12
    h = net("Cast", scaled(net, net.x(n), n, 65520.0), to=TensorProto.FLOAT16)
    h = net("Cast", h, to=TensorProto.FLOAT)
    return net("Div", h, net("Add", net.const(1.0), net("Abs", h)))


def arcsine(net: Net) -> str:
    n = 14
    return net("Asin", scaled(net, net.x(n), n, 1.0))


def arccosine_of_cosine(net: Net) -> str:
    """An angle whose cosine is guarded from below alone."""
    n = 12
    return net("Acos", net("Max", scaled(net, net.x(n), n, 1.0), net.const(-1.0)))


def log_one_plus(net: Net) -> str:
    n = 14
    return net("Log", net("Add", net.const(1.0), net("Neg", scaled(net, net.x(n), n, 1.0))))


def artanh(net: Net) -> str:
    n = 12
    return net("Atanh", scaled(net, net.x(n), n, 1.0001))


def arcosh(net: Net) -> str:
    n = 12
    return net("Acosh", net("Sub", net.const(1.0), rare(net, net.x(n), n)))


def dead_normaliser(net: Net) -> str:
    """Relu features divided by their sum, all of which are 0 in one corner."""
    n = 12
    x = net.x(n)
    w, cut = corner(net.rng, n)
    features = net("Relu", net.affine(x, np.stack([-w, -1.1 * w]), [cut, 1.1 * cut]))
    return net("Div", features, net.reduce("ReduceSum", features))


def loss_of_a_deep_network(net: Net) -> str:
    """Two hidden layers before a probability that vanishes about one vertex of the box alone."""
    n, h = 16, 24
    rng = net.rng
    layers = [
        (rng.normal(size=(h, n)) / math.sqrt(n), 0.1 * rng.normal(size=h)),
        (rng.normal(size=(h, h)) / math.sqrt(h), 0.1 * rng.normal(size=h)),
    ]
    head = rng.normal(size=(1, h))

    def feature(x: NDArray[Any]) -> NDArray[Any]:
        for weight, bias in layers:
            x = np.tanh(x @ weight.T + bias)
        return (x @ head.T)[:, 0]

    best = max(_climbed(feature, rng.choice([-1.0, 1.0], n)) for _ in range(8))
    x = net.x(n)
    for weight, bias in layers:
        x = net("Tanh", net.affine(x, weight, bias))
    logits = net.affine(x, np.concatenate([head * 106 / best, 0 * head]), np.zeros(2))
    p = net("Softmax", logits, axis=1)
    return net("Mul", p, net("Log", p))


def _climbed(feature: Callable[[NDArray[Any]], NDArray[Any]], x: NDArray[Any]) -> float:
    """The greatest value that flips of single coordinates reach from a vertex."""
    value = float(feature(x[None])[0])
    while True:
        flips = x * (1 - 2 * np.eye(len(x)))
        values = feature(flips)
        at = int(values.argmax())
        if values[at] <= value:
            return value
        x, value = flips[at], float(values[at])


# ---- points
def ratio_at_a_point(net: Net) -> str:
    n = 6
    centre = np.round(net.rng.uniform(-0.9, 0.9, n), 3)
    d = net("Sub", net.x(n), net.const(centre[None]))
    f = net.reduce("ReduceSum", net("Mul", d, d))
    return net("Div", f, f)


def ratio_of_an_affine_feature(net: Net) -> str:
    """w . x + b over itself, cut off so that only near 0 in two features at once it is not guarded."""
    n = 8
    x = net.x(n)
    a = net.affine(x, net.rng.normal(size=n), 0.31)
    b = net.affine(x, net.rng.normal(size=n), -0.17)
    s = net("Add", net("Abs", a), net("Abs", b))
    return net("Div", a, s)


def vanishing_norm(net: Net) -> str:
    n = 8
    x = net.x(n)
    return net("Div", x, net.reduce("ReduceL2", x))


def cosine_similarity(net: Net) -> str:
    n = 6
    x, z = net.x(n), net.x(n, "Z")
    dot = net.reduce("ReduceSum", net("Mul", x, z))
    return net("Div", dot, net("Mul", net.reduce("ReduceL2", x), net.reduce("ReduceL2", z)))


def unit_difference(net: Net) -> str:
    n = 4
    d = net("Sub", net.x(n), net.x(n, "Z"))
    return net("Div", d, net.reduce("ReduceL2", d))


def standardised(net: Net) -> str:
    """(x - mean) / deviation without an epsilon: constant inputs."""
    n = 8
    x = net.x(n)
    d = net("Sub", x, net.reduce("ReduceMean", x))
    return net("Div", d, net("Sqrt", net.reduce("ReduceMean", net("Mul", d, d))))


def signed_zero(net: Net) -> str:
    """1 / a + 1 / -a, in two coordinates at once."""
    n = 3
    x = net.x(n)
    a = net.reduce("ReduceMax", net("Abs", x))
    return net("Add", net("Reciprocal", a), net("Reciprocal", net("Neg", a)))


def underflow(net: Net) -> str:
    """Squares of small numbers that underflow, over themselves."""
    n = 4
    x = net("Mul", net.x(n), net.const(1e-19))
    s = net.reduce("ReduceSum", net("Mul", x, x))
    return net("Div", s, s)


def remainder_by_zero(net: Net) -> str:
    n = 4
    a = net.reduce(
        "ReduceMax", net("Abs", net("Sub", net.x(n), net.const(np.round(net.rng.uniform(-1, 1, (1, n)), 2))))
    )
    return net("Mod", net.const(1.5), a, fmod=1)


def product_of_factors(net: Net) -> str:
    """A product of many features over itself: one factor that vanishes is enough, guarded but for exact zeros."""
    n = 8
    x = net.x(n)
    f = net("Abs", net.affine(x, net.rng.normal(size=(2, n)), net.rng.normal(size=2) * 0.2))
    s = net.reduce("ReduceMax", f)
    return net("Mul", s, net("Reciprocal", s))


def empty_image(net: Net) -> str:
    """An image divided by its greatest value, after a convolution and a Relu."""
    kernel = net.const(np.abs(net.rng.normal(size=(2, 1, 3, 3))))
    h = net("Relu", net("Conv", net.image([1, 1, 6, 6]), kernel))
    return net("Div", h, net("ReduceMax", h, net.const([1, 2, 3], np.int64), keepdims=1))


def integer_division(net: Net) -> str:
    """Two integers that have to be exactly right."""
    net.inputs.append(helper.make_tensor_value_info("X", TensorProto.INT64, [1, 2]))
    wanted = net.rng.integers(1000, 90000, (1, 2))
    d = net("Abs", net("Sub", "X", net.const(wanted, np.int64)))
    s = net("ReduceSum", d, net.const([1], np.int64), keepdims=1)
    return net("Cast", net("Div", net.const([[7]], np.int64), s), to=TensorProto.FLOAT)


Maker = Callable[[Net], str]
KINDS: dict[str, tuple[Maker, dict[str, tuple[float, float]]]] = {
    maker.__name__: (maker, ranges)
    for maker, ranges in (
        *((m, {"X": (-1.0, 1.0)}) for m in (
            vanishing_probability, entropy_base_two, zero_times_infinity, infinity_minus_infinity, sinh_minus_cosh,
            root_of_negative, root_of_difference_of_squares, fractional_power, softmax_by_hand, log_softmax_by_hand,
            tiny_variance, half_precision, half_precision_ratio, arcsine, arccosine_of_cosine, log_one_plus, artanh,
            arcosh, dead_normaliser, loss_of_a_deep_network, ratio_at_a_point, ratio_of_an_affine_feature,
            vanishing_norm, standardised, signed_zero, underflow, remainder_by_zero, product_of_factors,
        )),
        *((m, {"X": (-1.0, 1.0), "Z": (-1.0, 1.0)}) for m in (cosine_similarity, unit_difference)),
        (empty_image, {"X": (0.0, 1.0)}),
        (integer_division, {"X": (0.0, 1e6)}),
    )
}  # fmt: skip


def faulty(kind: str, rng_seed: int = 0) -> Faulty:
    """A network of one kind."""
    maker, ranges = KINDS[kind]
    net = Net(np.random.default_rng([rng_seed, sorted(KINDS).index(kind)]))
    return Faulty(kind, net.model(maker(net)), ranges, VOLUME)
