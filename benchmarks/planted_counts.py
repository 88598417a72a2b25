"""Instances whose output counts pixels: those of a score above a bound, or those that agree with a mask.

    python benchmarks/planted_counts.py FOLDER [--size 12 16] [--eps 0.02 0.05 0.1] [--share 0.3]

A random convolutional network gives each pixel of an image one score. `above` counts the positive ones, of which many
are asked for; `agree` classifies each pixel and counts those that agree with a mask among the inputs (what the network
gives at the centre of the box), of which few are asked for: a segmentation. What is asked lies `share` of the way from
the best of many climbs, on smoothed counts of several widths, back to the best of many random points. Writes models,
queries and FOLDER/instances.csv for `search_strength.py FOLDER/instances.csv`.
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from planted_flat import query_of, write_list

Array = NDArray[Any]

CHANNELS = (1, 8, 8, 1)
WIDTHS = (0.02, 0.1, 0.5, 2.0)  # of smoothed counts, in deviations of the scores
CLIMBS, STEPS, DRAWN = 16, 120, 4000
TAILS = {
    "above": "b = Greater (s, none) c = Cast <to = 1> (b) t = ReduceSum <keepdims = 0> (c) Y = Reshape (t, one)",
    "agree": "b = Less (s, none) k = Where (b, away, there) m = Cast <to = 6> (k) w = Cast <to = 6> (mask) "
    "e = Equal (m, w) c = Cast <to = 7> (e) t = ReduceSum <keepdims = 0> (c) f = Cast <to = 1> (t) "
    "Y = Reshape (f, one)",
}


def scores_of(rng: np.random.Generator, size: int) -> tuple[str, list[Any]]:
    """What gives the scores `s` of an image `x`, in ONNX text, and its weights."""
    from onnx import numpy_helper

    text, name, arrays = "", "x", []
    for i, (a, b) in enumerate(pairwise(CHANNELS)):
        last = i == len(CHANNELS) - 2
        text += f"z{i} = Conv <pads = [1, 1, 1, 1]> ({name}, w{i}, b{i}) "
        text += f"s = Identity (z{i}) " if last else f"h{i} = Relu (z{i}) "
        weight = rng.normal(size=(b, a, 3, 3)) * (2 / (9 * a)) ** 0.5
        bias = rng.normal(size=b) * 0.2
        arrays += [numpy_helper.from_array(v.astype(np.float32), n) for v, n in ((weight, f"w{i}"), (bias, f"b{i}"))]
        name = f"h{i}"
    return text, arrays


def model(head: str, tail: str, result: str, inputs: str, arrays: list[Any]) -> Any:
    from onnx import parser

    constants = "float none = {0.0}, float away = {0.0}, float there = {1.0}, int64[1] one = {1}"
    text = f"net ({inputs}) => ({result}) <{constants}> {{ {head} {tail} }}"
    made = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 13]>\n{text}')
    made.graph.initializer.extend(arrays)
    return made


def made(kind: str, rng: np.random.Generator, size: int, eps: float, share: float) -> tuple[Any, str]:
    """A model and a query on it."""
    from falsifier.network.lowering import lower
    from falsifier.network.onnxruntime_engine import OnnxruntimeEngine

    pixels = size * size
    head, arrays = scores_of(rng, size)
    image = f"float[1,1,{size},{size}]"
    engine = OnnxruntimeEngine(lower(model(head, "S = Identity (s)", f"{image} S", f"{image} x", arrays)), 1)
    centre = rng.uniform(0, 1, (1, pixels)).astype(np.float32)
    here = engine.outputs(centre)[0]
    sign = np.ones(pixels) if kind == "above" else np.where(here >= 0, -1.0, 1.0)
    lower_end, upper = centre - np.float32(eps), centre + np.float32(eps)

    def count(x: Array) -> Array:
        """What is to be many: pixels above, or pixels that have left their class."""
        return np.asarray((engine.outputs(x) * sign > 0).sum(axis=1))

    drawn = rng.uniform(lower_end, upper, (DRAWN, pixels)).astype(np.float32)
    start = max(int(count(part).max()) for part in np.array_split(drawn, 8))
    best = start
    for width in np.array(WIDTHS) * here.std():
        x = rng.uniform(lower_end, upper, (CLIMBS, pixels)).astype(np.float32)
        for step in range(STEPS):
            y = engine.outputs(x) * sign
            best = max(best, int((y > 0).sum(axis=1).max()))
            slope = 1 / np.cosh(np.clip(y / width, -40, 40)) ** 2 * sign
            gradient = engine.vjp(x, slope)[1]
            move = np.sign(gradient) * eps * np.float32(0.3 * (1 - step / STEPS) ** 2 + 0.002)
            x = np.clip(x + move, lower_end, upper).astype(np.float32)
    level = int(np.ceil(best - share * (best - start)))
    box = [(float(a), float(b)) for a, b in zip(lower_end[0], upper[0], strict=True)]
    if kind == "agree":
        box += [(v, v) for v in (sign < 0).astype(float)]
        atom = f"(<= Y_0 {pixels - level}.0)"
        inputs = f"float[1,2,{size},{size}] xx"
        head = f"x, mask = Split <axis = 1> (xx) {head}"
    else:
        atom, inputs = f"(>= Y_0 {level}.0)", f"{image} x"
    print(f"{kind} {size} {eps}: {int(count(centre)[0])} at the centre, {start} drawn, {best} climbed, {level} asked")
    return model(head, TAILS[kind], "float[1] Y", inputs, arrays), boxed(query_of(len(box), 1, [atom]), box)


def boxed(query: str, box: list[tuple[float, float]]) -> str:
    """The query with bounds of its inputs in place of -1 and 1."""
    for i, (a, b) in enumerate(box):
        query = query.replace(f"(>= X_{i} -1.0)", f"(>= X_{i} {float(a)!r})").replace(
            f"(<= X_{i} 1.0)", f"(<= X_{i} {float(b)!r})"
        )
    return query


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", type=int, nargs="+", default=[12, 16], help="of the images")
    parser.add_argument("--eps", type=float, nargs="+", default=[0.02, 0.05, 0.1], help="half widths of the box")
    parser.add_argument("--share", type=float, default=0.3)
    parser.add_argument("--rng-seed", type=int, default=0)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for number, kind in enumerate(TAILS):
        for size in options.size:
            for i, eps in enumerate(options.eps):
                rng = np.random.default_rng([options.rng_seed, number, size, i])
                network, query = made(kind, rng, size, eps, options.share)
                name = f"{kind}_{size}_{i}"
                (options.folder / f"{name}.onnx").write_bytes(network.SerializeToString())
                (options.folder / f"{name}.vnnlib").write_text(query)
                rows.append([kind, f"{name}.onnx", f"{name}.vnnlib", 60, "sat"])
    write_list(options.folder, rows)


if __name__ == "__main__":
    main()
