"""VNN-LIB 2.0 queries whose inputs lie in a small part of their box, with answers known by construction: for
`generated_v2.py --regions` and tests.

The regions are polytopes of less than a millionth of the box, orderings, simplexes, equations, balls, shells and
products. What is asked of an output is nearly the best of many vertices, found by walks along faces towards rising
outputs, so that a point of the region is not enough. Nothing of the package is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from planted_polytope import WALKS, Polytope, asked, best_of, slope
from planted_v2 import Floats, Net, Planted, boxed, declared, text_of

WIDTH = 24  # units of a hidden layer
THIN = 2e-5  # half the width of a slab, times the root of the dimensions


def decimals(values: Floats, digits: int = 4) -> Floats:
    """Numbers as the text has them."""
    return np.round(values, digits)


def number(value: float) -> str:
    return np.format_float_positional(round(float(value), 9), trim="0")


def linear(weights: Floats, name: str = "X_f") -> str:
    parts = [f"(* {number(w)} {name}[0,{i}])" for i, w in enumerate(weights) if w]
    return f"(+ {' '.join(parts)})" if len(parts) > 1 else parts[0]


def total(n: int, name: str = "X_f") -> str:
    return f"(+ {' '.join(f'{name}[0,{i}]' for i in range(n))})"


def wanted(ask: float) -> str:
    return f"(>= Y_f[0,0] {number(round(ask, 6))})"


def dimensions(rng: np.random.Generator, most: int = 100, least: int = 5) -> int:
    return int(np.round(least * (most / least) ** rng.random()))


# --- satisfiable ---


def _slabs(
    rng: np.random.Generator, n: int, half: float, digits: int = 8
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Slabs `low <= rows @ x <= high` about a point well inside the box [-1, 1]: rows, low, high, point, widths."""
    k = int(rng.integers(2, max(3, n // 2)))
    rows = decimals(rng.normal(size=(k, n)), 3)
    inside = rng.uniform(-0.5, 0.5, n)
    value = rows @ inside
    low, high = decimals(value - half, digits), decimals(value + half, digits)
    return rows, low, high, inside, high - low


def thin_polytope(rng: np.random.Generator, strict: bool = False, kind: str = "thin_polytope") -> Planted:
    """Slabs of which each leaves a hundredth of a percent of the box."""
    n = dimensions(rng)
    net = Net(rng, n, 2, WIDTH)
    rows, low, high, inside, _ = _slabs(rng, n, THIN * n**0.5)
    ones = np.ones(n)
    polytope = Polytope(np.concatenate([rows, -rows]), np.r_[low, -high], -ones, ones, inside)
    less, more = ("<", ">") if strict else ("<=", ">=")
    formulas = [
        f"(and ({more} {linear(row)} {number(a)}) ({less} {linear(row)} {number(b)}))"
        for row, a, b in zip(rows, low, high, strict=True)
    ]
    ask = best_of(rng, net, polytope)
    return _planted(kind, net, [*boxed("f", -ones, ones), *formulas, wanted(ask)])


def strict_polytope(rng: np.random.Generator) -> Planted:
    """The same with strict signs."""
    return thin_polytope(rng, True, "strict_polytope")


def ordering(rng: np.random.Generator) -> Planted:
    """x_0 <= x_1 <= ...: one in n! points of the box."""
    n = dimensions(rng, 60, 8)
    rows = np.eye(n, k=1)[:-1] - np.eye(n)[:-1]
    polytope = Polytope(rows, np.zeros(n - 1), np.zeros(n), np.ones(n), (np.arange(n) + 0.5) / n)
    while True:  # the best of all steps from 0 to 1 is neither all 0 nor all 1
        net = Net(rng, n, 2, WIDTH)
        steps = net(np.tri(n + 1, n, -1)[:, ::-1])[1][:, 0]
        if 0 < np.argmax(steps) < n:
            break
    formulas = [f"(<= X_f[0,{i}] X_f[0,{i + 1}])" for i in range(n - 1)]
    return _planted(
        "ordering", net, [*boxed("f", np.zeros(n), np.ones(n)), *formulas, wanted(best_of(rng, net, polytope))]
    )


def simplex(rng: np.random.Generator) -> Planted:
    """Shares of a whole, and a part of them that is not too large."""
    n = dimensions(rng, 100, 10)
    net = Net(rng, n, 2, WIDTH)
    some = (rng.random(n) < 0.5).astype(float)
    some[0] = 1.0
    polytope = Polytope(
        np.stack([np.ones(n), -np.ones(n), -some]),
        np.array([0.999, -1.0, -0.9]),
        np.zeros(n),
        np.ones(n),
        np.full(n, 0.9995 / n),
    )
    formulas = [f"(<= {total(n)} 1.0)", f"(>= {total(n)} 0.999)", f"(<= {linear(some)} 0.9)"]
    return _planted(
        "simplex", net, [*boxed("f", np.zeros(n), np.ones(n)), *formulas, wanted(best_of(rng, net, polytope))]
    )


def equation(rng: np.random.Generator) -> Planted:
    """Inputs between 0 and 1 that sum to a number, as alternating and as neighbouring ones."""
    n = 2 * dimensions(rng, 40, 4)
    net = Net(rng, n, 2, WIDTH)
    ones, signs = np.ones(n), np.where(np.arange(n) % 2, -1.0, 1.0)
    inside = np.full(n, 0.25)
    rows = np.stack([ones, -ones, signs, -signs])
    polytope = Polytope(rows, np.r_[n / 4, -n / 4, 0, 0], np.zeros(n), np.ones(n), inside)
    even = " ".join(f"X_f[0,{i}]" for i in range(0, n, 2))
    odd = " ".join(f"X_f[0,{i}]" for i in range(1, n, 2))
    formulas = [f"(== {total(n)} {number(n / 4)})", f"(== (+ {even}) (+ {odd}))"]
    return _planted(
        "equation", net, [*boxed("f", np.zeros(n), np.ones(n)), *formulas, wanted(best_of(rng, net, polytope))]
    )


def alternatives(rng: np.random.Generator) -> Planted:
    """Polytopes of their own in each of four disjuncts, of which one holds a witness."""
    n = dimensions(rng, 40)
    net = Net(rng, n, 2, WIDTH)
    ones, parts = np.ones(n), []
    ask_out_of_reach = float(net.most(-ones, ones)[1][0] + 1)
    good = int(rng.integers(0, 4))
    for i in range(4):
        rows, low, high, inside, _ = _slabs(rng, n, THIN * n**0.5)
        polytope = Polytope(np.concatenate([rows, -rows]), np.r_[low, -high], -ones, ones, inside)
        ask = best_of(rng, net, polytope) if i == good else ask_out_of_reach
        slabs = [
            f"(>= {linear(r)} {number(a)}) (<= {linear(r)} {number(b)})"
            for r, a, b in zip(rows, low, high, strict=True)
        ]
        parts.append(f"(and {' '.join(slabs)} {wanted(ask)})")
    return _planted("alternatives", net, [*boxed("f", -ones, ones), f"(or {' '.join(parts)})"])


def double_polytope(rng: np.random.Generator) -> Planted:
    """Slabs so thin that only float64 tells their sides apart, on a network in float64."""
    n = dimensions(rng, 40)
    net = Net(rng, n, 2, WIDTH)
    rows, low, high, inside, _ = _slabs(rng, n, 1e-8, 9)
    ones = np.ones(n)
    polytope = Polytope(np.concatenate([rows, -rows]), np.r_[low, -high], -ones, ones, inside)
    formulas = [
        f"(and (>= {linear(r)} {number(a)}) (<= {linear(r)} {number(b)}))"
        for r, a, b in zip(rows, low, high, strict=True)
    ]
    ask = best_of(rng, net, polytope)
    names = declared("f", net).replace("float32", "float64")
    text = text_of(names, [*boxed("f", -ones, ones), *formulas, wanted(ask)])
    return Planted("double_polytope", "", text, {"f": _converted(net, "float64")}, "sat")


def whole_numbers(rng: np.random.Generator) -> Planted:
    """Integers between 0 and 9 in slabs that few of them meet."""
    n = dimensions(rng, 24, 6)
    net = Net(rng, n, 2, WIDTH)
    net.weights[0] = net.weights[0] * np.float32(0.2)
    rows = rng.integers(-5, 6, (2, n)).astype(float)
    rows[:, 0] = 1
    start = rng.integers(0, 10, n).astype(float)
    floors = rows @ start
    found = _whole_points(rng, rows, floors, start)
    ask = asked(net, found.astype(float))
    formulas = [
        f"(and (>= {linear(r)} {number(a)}) (<= {linear(r)} {number(a + 1)}))"
        for r, a in zip(rows, floors, strict=True)
    ]
    names = declared("f", net).replace("X_f float32", "X_f int64").replace("Y_f float32", "Y_f real")
    whole = [f.replace(".0", "") for f in [*boxed("f", np.zeros(n), np.full(n, 9.0)), *formulas]]
    text = text_of(names.replace("real", "float32"), [*whole, wanted(ask)])
    return Planted("whole_numbers", "", text, {"f": _converted(net, "int64")}, "sat")


def _whole_points(rng: np.random.Generator, rows: Floats, floors: Floats, start: Floats) -> Floats:
    """Integer points of slabs of width 1: a random walk by pairs of steps from one of them."""
    x, out = start, [start]
    for _ in range(20_000):
        moved = x.copy()
        for at in rng.integers(0, len(x), 3):
            moved[at] += rng.choice([-1, 1])
        value = rows @ moved
        if np.all((moved >= 0) & (moved <= 9)) and np.all((value >= floors) & (value <= floors + 1)):
            x = moved
            out.append(x)
    return np.array(out)


def ball(rng: np.random.Generator) -> Planted:
    """A ball of a third of the box's width, where the box has up to 40 dimensions."""
    n = dimensions(rng, 40, 6)
    net = Net(rng, n, 2, WIDTH)
    centre, radius = decimals(rng.uniform(-0.4, 0.4, n), 3), 0.3
    x = _on_sphere(rng, net, centre, radius * 0.999)
    ones = np.ones(n)
    return _planted(
        "ball", net, [*boxed("f", -ones, ones), f"(<= {_squares(centre)} {number(radius**2)})", wanted(asked(net, x))]
    )


def shell(rng: np.random.Generator) -> Planted:
    """Between two spheres a thousandth apart, on one side of a plane."""
    n = dimensions(rng, 40, 6)
    net = Net(rng, n, 2, WIDTH)
    centre = decimals(rng.uniform(-0.3, 0.3, n), 3)
    normal = decimals(rng.normal(size=n), 3)
    x = _on_sphere(rng, net, centre, 0.6995, normal)
    ones, floor = np.ones(n), number(float(normal @ centre))
    formulas = [f"(<= {_squares(centre)} 0.49)", f"(>= {_squares(centre)} 0.4886)", f"(>= {linear(normal)} {floor})"]
    return _planted("shell", net, [*boxed("f", -ones, ones), *formulas, wanted(asked(net, x))])


def products(rng: np.random.Generator) -> Planted:
    """Pairs of inputs whose products are nearly given: curves side by side."""
    pairs = int(rng.integers(3, 13))
    n = 2 * pairs
    net = Net(rng, n, 2, WIDTH)
    level = decimals(rng.uniform(0.1, 0.5, pairs), 3)
    a = rng.uniform(level, 1, (4000, pairs))
    x = np.empty((4000, n))
    x[:, 0::2], x[:, 1::2] = a, level / a
    formulas = []
    for i, c in enumerate(level):
        product = f"(* X_f[0,{2 * i}] X_f[0,{2 * i + 1}])"
        formulas += [f"(>= {product} {number(c - 5e-4)})", f"(<= {product} {number(c + 5e-4)})"]
    return _planted("products", net, [*boxed("f", np.zeros(n), np.ones(n)), *formulas, wanted(asked(net, x))])


def _squares(centre: Floats) -> str:
    parts = [f"(* (- X_f[0,{i}] {number(c)}) (- X_f[0,{i}] {number(c)}))" for i, c in enumerate(centre)]
    return f"(+ {' '.join(parts)})"


def _on_sphere(
    rng: np.random.Generator, net: Net, centre: Floats, radius: float, normal: Floats | None = None
) -> Floats:
    """Points of a sphere, on one side of a plane through its centre, each after steps towards a rising output."""
    direction = rng.normal(size=(WALKS, len(centre)))
    for step in range(30):
        x = centre + radius * direction / np.linalg.norm(direction, axis=1, keepdims=True)
        rise = np.stack([slope(net, point) for point in x])
        rise /= np.linalg.norm(rise, axis=1, keepdims=True) + 1e-12
        direction = direction / np.linalg.norm(direction, axis=1, keepdims=True) + rise / (1 + step)
        if normal is not None:
            below = np.minimum(direction @ normal, 0)
            direction -= below[:, None] * normal / (normal @ normal) * 1.0001
    x = centre + radius * direction / np.linalg.norm(direction, axis=1, keepdims=True)
    return np.asarray(x if normal is None else x[x @ normal >= centre @ normal])


# --- unsatisfiable ---


def cycle(rng: np.random.Generator) -> Planted:
    """x_0 <= x_1 <= ... <= x_0 - 0.01."""
    n = dimensions(rng, 30)
    net = Net(rng, n, 2, WIDTH)
    formulas = [f"(<= X_f[0,{i}] X_f[0,{i + 1}])" for i in range(n - 1)]
    formulas.append(f"(<= X_f[0,{n - 1}] (- X_f[0,0] 0.01))")
    return _planted("cycle", net, [*boxed("f", np.zeros(n), np.ones(n)), *formulas, "(>= Y_f[0,0] -1000.0)"], "unsat")


def overfull(rng: np.random.Generator) -> Planted:
    """Parts of a whole that together are more than it, each of them possible, in each of two alternatives."""
    n = dimensions(rng, 60, 6)
    net = Net(rng, n, 2, WIDTH)
    half = (np.arange(n) % 2).astype(float)
    odd, even = linear(half), linear(1 - half)
    either = f"(or (and (>= {odd} 0.6) (>= {even} 0.5)) (and (>= {odd} 0.55) (>= {even} 0.55)))"
    formulas = [f"(<= {total(n)} 1.0)", either]
    return _planted(
        "overfull", net, [*boxed("f", np.zeros(n), np.ones(n)), *formulas, "(>= Y_f[0,0] -1000.0)"], "unsat"
    )


def combination(rng: np.random.Generator) -> Planted:
    """Comparisons of which a positive combination says 0 >= 0.01 or so, and no two contradict each other."""
    n = dimensions(rng, 40, 8)
    net = Net(rng, n, 2, WIDTH)
    k = int(rng.integers(3, 6))
    rows = decimals(rng.normal(size=(k, n)), 3)
    weights = decimals(rng.uniform(0.5, 2, k), 1)
    last = -(weights @ rows)
    value = rows @ rng.uniform(-0.3, 0.3, n)
    floors = decimals(value, 3)
    formulas = [f"(>= {linear(row)} {number(c)})" for row, c in zip(rows, floors, strict=True)]
    formulas.append(f"(>= {linear(decimals(last, 6))} {number(-float(weights @ floors) + 0.02)})")
    ones = np.ones(n)
    return _planted("combination", net, [*boxed("f", -ones, ones), *formulas, "(>= Y_f[0,0] -1000.0)"], "unsat")


def _planted(kind: str, net: Net, formulas: Sequence[str], expected: str = "sat") -> Planted:
    return Planted(kind, "", text_of(declared("f", net), formulas), {"f": net.model()}, expected)


def _converted(net: Net, kind: str) -> bytes:
    """The model of a network in float64, or with int64 inputs that it casts."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    model = onnx.load_from_string(net.model())
    graph = model.graph
    if kind == "int64":
        graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
        cast = helper.make_node("Cast", ["X"], ["x"], to=TensorProto.FLOAT)
        graph.node[0].input[0] = "x"
        graph.node.insert(0, cast)
    else:
        for constant in graph.initializer:
            wide = numpy_helper.to_array(constant).astype(np.float64)
            constant.CopyFrom(numpy_helper.from_array(wide, constant.name))
        for value in (*graph.input, *graph.output):
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    return bytes(model.SerializeToString())


SAT: tuple[Callable[[np.random.Generator], Planted], ...] = (
    thin_polytope,
    strict_polytope,
    ordering,
    simplex,
    equation,
    alternatives,
    double_polytope,
    whole_numbers,
    ball,
    shell,
    products,
)
UNSAT: tuple[Callable[[np.random.Generator], Planted], ...] = (cycle, overfull, combination)


def planted_regions(each: int, each_unsat: int, rng_seed: int = 0) -> list[Planted]:
    """So many queries of every kind."""
    out: list[Planted] = []
    for makers, count in ((SAT, each), (UNSAT, each_unsat)):
        for number_of_kind, make in enumerate(makers):
            for i in range(count):
                made = make(np.random.default_rng([rng_seed, number_of_kind, i, len(makers), 1]))
                out.append(replace(made, name=f"{made.kind}_{i}"))
    return out
