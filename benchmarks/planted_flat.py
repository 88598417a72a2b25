"""Instances whose outputs are flat nearly everywhere, and which have witnesses: classes and comparisons of scores,
saturated activations written out with exponentials, narrow layers that are off as a whole.

    python benchmarks/planted_flat.py FOLDER [--inputs 20 80] [--each 3] [--share 0.3] [--kinds class label]

Under each lies a random network of two hidden layers. What is asked for lies `share` of the way from the best of many
climbs on its scores back to the best of many random points, so that drawing points seldom answers it. Writes models,
queries and FOLDER/instances.csv for `search_strength.py --instances FOLDER/instances.csv`. Every best climb is run
through onnxruntime and its answer judged by hand; one that rounding takes the witness from is drawn anew.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Gain = Callable[[Floats], tuple[Floats, Floats]]
"""Scores `[b, m]` -> what is to rise `[b]`, and its slope by the scores `[b, m]`."""

WIDTH, SCORES = 48, 8
CLIMBS, STEPS, DRAWN = 48, 150, 20_000
STEEP = 4000.0  # what the way from the best random point to the best climb is stretched to


class Net:
    """Scores = W2 relu(W1 relu(W0 x)), on [-1, 1]."""

    def __init__(self, rng: np.random.Generator, inputs: int, scores: int) -> None:
        sizes = (inputs, WIDTH, WIDTH, scores)
        self.inputs = inputs
        self.weights = [rng.normal(size=(a, b)) * (2 / a) ** 0.5 for a, b in pairwise(sizes)]
        self.biases = [rng.normal(size=b) * 0.3 for b in sizes[1:]]

    def scores(self, x: Floats) -> tuple[Floats, list[Floats]]:
        """Scores, and what each hidden layer gave."""
        hidden = []
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = np.maximum(x @ weight + bias, 0)
            hidden.append(x)
        return x @ self.weights[-1] + self.biases[-1], hidden

    def best(self, rng: np.random.Generator, gain: Gain) -> tuple[float, Floats]:
        """The largest gain of many climbs, and where."""
        x = rng.uniform(-1, 1, (CLIMBS, self.inputs))
        most, where = -np.inf, x[0]
        for step in range(STEPS):
            scores, hidden = self.scores(x)
            value, slope = gain(scores)
            if value.max() > most:
                most, where = float(value.max()), x[value.argmax()].copy()
            for weight, active in zip(self.weights[:0:-1], hidden[::-1], strict=True):
                slope = (slope @ weight.T) * (active > 0)
            x = np.clip(x + np.sign(slope @ self.weights[0].T) * (0.2 * (1 - step / STEPS) ** 2 + 0.001), -1, 1)
        return most, where

    def level(self, rng: np.random.Generator, gain: Gain, share: float) -> tuple[float, float, Floats]:
        """What is asked of a gain, the way from random points to the best climb, and where that is."""
        most, where = self.best(rng, gain)
        drawn = float(gain(self.scores(rng.uniform(-1, 1, (DRAWN, self.inputs)))[0])[0].max())
        return most - share * (most - drawn), max(most - drawn, 1e-3), where


def _hot(count: int, at: Any) -> Floats:
    hot: Floats = np.eye(count)[at]
    return hot


def least_of(wanted: list[int]) -> Gain:
    """The least of some scores."""

    def gain(s: Floats) -> tuple[Floats, Floats]:
        at = np.array(wanted)[s[:, wanted].argmin(axis=1)]
        return s[np.arange(len(s)), at], _hot(s.shape[1], at)

    return gain


def lead(one: int, sign: float) -> Gain:
    """By how much a score leads all others, or the best of the others leads it."""

    def gain(s: Floats) -> tuple[Floats, Floats]:
        others = s.copy()
        others[:, one] = -np.inf
        at = others.argmax(axis=1)
        slope = sign * (_hot(s.shape[1], one) - _hot(s.shape[1], at))
        return (s * slope).sum(axis=1), slope

    return gain


@dataclass(frozen=True)
class Made:
    """What follows the scores `s` in ONNX text, the type and shape of Y, what is asked, and a place that has it."""

    net: Net
    tail: str
    output: str
    atoms: list[str]
    witness: Floats


SOFTMAX = "z = Mul (s, k) top = ReduceMax <axes = [1]> (z) d = Sub (z, top) e = Exp (d) f = ReduceSum (e, axis) "
COMMON = "one = Constant <value = float {1.0}> () axis = Constant <value_ints = [1]> () "
FIRST = "zero = Constant <value_ints = [0]> () many = Constant <value_ints = [N]> () t = Slice (s, zero, many, axis) "


def made(kind: str, rng: np.random.Generator, inputs: int, share: float) -> Made:
    """One instance of a kind."""
    if kind.startswith("narrow"):
        return _narrow(rng, inputs, share, int(kind.removeprefix("narrow")))
    net = Net(rng, inputs, SCORES)
    sampled = net.scores(rng.uniform(-1, 1, (DRAWN, inputs)))[0].argmax(axis=1)
    often = np.bincount(sampled, minlength=SCORES)
    if kind in ("class", "first", "label", "softmax", "softmax_order", "softmax_class"):
        one, sign = int(often.argmin()), 1.0
        gain = lead(one, sign)
    elif kind == "other_class":
        one, sign = int(often.argmax()), -1.0
        gain = lead(one, sign)
    else:
        one, sign = 0, 1.0
        gain = least_of([0, 1] if kind in ("both", "two_sigmoids") else [0])
    level, way, witness = net.level(rng, gain, share)
    net.biases[-1][one] -= sign * level
    if kind in ("both", "two_sigmoids"):
        net.biases[-1][1] -= level
    k = f"k = Constant <value = float {{{STEEP / way}}}> () "
    is_class = [f"(<= Y_0 {one}.0)", f"(>= Y_0 {one}.0)"]
    sigmoid = COMMON + k + "z = Mul (t, k) n = Neg (z) e = Exp (n) d = Add (e, one) "
    first, pair = FIRST.replace("[N]", "[1]"), FIRST.replace("[N]", "[2]")
    names = (rng.permutation(SCORES) + 10).tolist()
    listed = ", ".join(map(str, names))
    labelled = f"names = Constant <value_ints = [{listed}]> () i = ArgMax <axis = 1> (s) Y = Gather (names, i)"
    cases: dict[str, tuple[str, str, list[str]]] = {
        "class": ("Y = ArgMax <axis = 1> (s)", "int64[1,1]", is_class),
        "other_class": (
            "Y = ArgMax <axis = 1> (s)",
            "int64[1,1]",
            [f"(or (and (<= Y_0 {one - 0.5})) (and (>= Y_0 {one + 0.5})))"],
        ),
        "first": ("three = Constant <value_ints = [3]> () v, Y = TopK (s, three)", "int64[1,3]", is_class),
        "label": (labelled, "int64[1,1]", [f"(<= Y_0 {names[one]}.0)", f"(>= Y_0 {names[one]}.0)"]),
        "both": (
            f"{COMMON}{pair}none = Constant <value = float {{0.0}}> () g = Greater (t, none) "
            "a, b = Split <axis = 1> (g) c = And (a, b) Y = Cast <to = 1> (c)",
            "float[1,1]",
            ["(>= Y_0 0.5)"],
        ),
        "sigmoid": (
            sigmoid.replace("z = Mul", f"{first}z = Mul") + "Y = Div (one, d)",
            "float[1,1]",
            ["(>= Y_0 0.5)"],
        ),
        "two_sigmoids": (
            sigmoid.replace("z = Mul", f"{pair}z = Mul") + "q = Div (one, d) Y = ReduceMean <axes = [1]> (q)",
            "float[1,1]",
            ["(>= Y_0 0.75)"],
        ),
        "tanh": (
            f"{COMMON}{k}{first}two = Constant <value = float {{2.0}}> () m = Constant <value = float {{-2.0}}> () "
            "z = Mul (t, k) n = Mul (z, m) e = Exp (n) d = Add (e, one) q = Div (two, d) Y = Sub (q, one)",
            "float[1,1]",
            ["(>= Y_0 0.0)"],
        ),
        "softmax": (f"{COMMON}{k}{SOFTMAX}Y = Div (e, f)", f"float[1,{SCORES}]", [f"(>= Y_{one} 0.5)"]),
        "softmax_order": (
            f"{COMMON}{k}{SOFTMAX}Y = Div (e, f)",
            f"float[1,{SCORES}]",
            [f"(>= Y_{one} Y_{j})" for j in range(SCORES) if j != one],
        ),
        "softmax_class": (f"{COMMON}{k}{SOFTMAX}p = Div (e, f) Y = ArgMax <axis = 1> (p)", "int64[1,1]", is_class),
    }
    return Made(net, *cases[kind], witness)


KINDS = (
    *("class", "other_class", "first", "label", "both", "sigmoid", "two_sigmoids", "tanh"),
    *("softmax", "softmax_order", "softmax_class", "narrow4", "narrow8", "narrow16"),
)


def _narrow(rng: np.random.Generator, inputs: int, share: float, units: int) -> Made:
    """Relus that are off but near corners of their own; the first one is asked for, the others count against it."""
    net = Net(rng, inputs, units)
    levels = [net.level(rng, least_of([unit]), share) for unit in range(units)]
    net.biases[-1] -= np.array([level for level, _, _ in levels])
    weights = np.r_[1.0, -np.abs(rng.normal(size=units - 1)) * 0.5]
    listed = ", ".join(f"{w:.7f}" for w in weights)
    tail = f"w = Constant <value = float[{units},1] {{{listed}}}> () h = Relu (s) Y = MatMul (h, w)"
    return Made(net, tail, "float[1,1]", ["(>= Y_0 0.001)"], levels[0][2])


def model_of(one: Made) -> Any:
    """The network as an ONNX model."""
    from onnx import numpy_helper, parser

    body = "z0 = Gemm (X, W0, b0) h0 = Relu (z0) z1 = Gemm (h0, W1, b1) h1 = Relu (z1) s = Gemm (h1, W2, b2) "
    text = f"net (float[1,{one.net.inputs}] X) => ({one.output} Y) {{ {body}{one.tail} }}"
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 13]>\n{text}')
    for letter, arrays in (("W", one.net.weights), ("b", one.net.biases)):
        for i, array in enumerate(arrays):
            model.graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), f"{letter}{i}"))
    return model


def query_of(inputs: int, outputs: int, atoms: list[str]) -> str:
    """VNN-LIB 1.0 text."""
    names = [f"(declare-const {c}_{i} Real)" for c, count in (("X", inputs), ("Y", outputs)) for i in range(count)]
    box = [f"(assert (>= X_{i} -1.0))\n(assert (<= X_{i} 1.0))" for i in range(inputs)]
    return "\n".join([*names, *box, *(f"(assert {atom})" for atom in atoms)]) + "\n"


def outputs_where_it_holds(one: Made, model: Any) -> int:
    """How many outputs the model has where its witness satisfies the query, else 0."""
    from falsifier.network.reference import Reference
    from falsifier.query.evaluate import Arithmetic, holds
    from falsifier.query.read import parse

    reference = Reference(model.SerializeToString())
    x = one.witness.astype(np.float32)
    y = reference.run_flat(x)
    query = parse(query_of(x.size, y.size, one.atoms))
    return y.size if holds(query, [x, y], Arithmetic.EXACT) else 0


def write_list(folder: Path, rows: list[list[Any]]) -> None:
    """FOLDER/instances.csv of rows of family, network, property, time limit and answer."""
    with (folder / "instances.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["family", "network", "property", "timeout_s", "expected"])
        writer.writerows(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--inputs", type=int, nargs="+", default=[20, 80])
    parser.add_argument("--each", type=int, default=3, help="instances of a kind and number of inputs")
    parser.add_argument("--share", type=float, default=0.3)
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--rng-seed", type=int, default=0)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for kind in options.kinds:
        for inputs in options.inputs:
            rng = np.random.default_rng([options.rng_seed, KINDS.index(kind), inputs])
            made_of_kind = 0
            while made_of_kind < options.each:
                one = made(kind, rng, inputs, options.share)
                model = model_of(one)
                outputs = outputs_where_it_holds(one, model)
                if not outputs:
                    continue
                name = f"{kind}_{inputs}_{made_of_kind}"
                (options.folder / f"{name}.onnx").write_bytes(model.SerializeToString())
                (options.folder / f"{name}.vnnlib").write_text(query_of(inputs, outputs, one.atoms))
                rows.append([kind, f"{name}.onnx", f"{name}.vnnlib", 60, "sat"])
                made_of_kind += 1
    write_list(options.folder, rows)


if __name__ == "__main__":
    main()
