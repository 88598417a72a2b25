"""Instances with planted witnesses, harder than published sets: to rank starts, schedules and moves of the search.

    python benchmarks/planted.py FOLDER [--shapes and6 or9] [--seeds 0 1 2] [--rounds 20] [--hunts 10]

Small networks are trained so that a known point of the box satisfies the query by a small margin while points that
attacks and this tool's own climbs find elsewhere are trained away, round by round, and then what its search finds; the
shapes are listed in `planted_shapes.py`. Writes the networks, the queries and `instances.csv` in the columns family,
network, property, timeout_s, expected, tools_that_found_it, published_witness; the planted points go to
`witnesses.json` beside it, which no search should read. The same rng seeds give the same instances. Prints JSON: per
instance the margin at its planted point, computed by onnxruntime on the written file, the evaluations of the searches,
and the seconds of training. An instance whose point fails is left out and counted.

A query may be satisfiable at other points too: what counts is whether a search finds one. `search_strength.py FOLDER/
instances.csv` tells. Needs torch.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from planted_shapes import SHAPES, Shape, linear_rows, query

from falsifier.arrays import Rng
from falsifier.budget import Budget

COLUMNS = ("family", "network", "property", "timeout_s", "expected", "tools_that_found_it", "published_witness")


def margin_at(model: bytes, shape: Shape, point: NDArray[np.float32]) -> float:
    """The margin of a point `[n]` by onnxruntime; above 0 for strict atoms."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (outputs,) = session.run(None, {session.get_inputs()[0].name: point[None]})
    matrix, offset = linear_rows(shape)
    slack = matrix @ np.asarray(outputs, dtype=np.float64).reshape(-1) + offset
    return float(slack.max() if shape.kind == "or" else slack.min())


def climbed(model: bytes, text: str, starts: NDArray[np.float32], rng_seed: int) -> NDArray[np.float32]:
    """The tops `[b, n]` of the search's dilated climbs from starts `[b, n]`, the disjuncts in turn."""
    from falsifier.falsify import Prepared
    from falsifier.objective import Reduction
    from falsifier.search.dilation import dilated_climb
    from falsifier.search.run import Run

    problems = Prepared(model, text).problems
    rng = Rng(rng_seed)
    run = Run.start(problems, Budget(), rng, lambda _: False)
    run.until = math.inf
    target = np.sort(np.arange(len(starts)) % problems.batched.t)
    reduction = Reduction.HARD if rng_seed % 8 == 7 else Reduction.HINGE
    return np.asarray(dilated_climb(run, problems.batched, target, starts, 80, rng, reduction).best)


def _flat(witness: Any) -> Any:
    """The inputs of a witness as a tensor `[n]`."""
    import torch

    return torch.cat([torch.as_tensor(np.asarray(values)).reshape(-1) for values in witness.inputs])


def make(shape: Shape, rng_seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Train and write one instance; its figures."""
    import torch
    from planted_training import Planted, train

    from falsifier import falsify
    from falsifier.network.from_torch import export

    hunted: list[int] = []

    def written(planted: Planted) -> tuple[bytes, str]:
        sides = ([format(v, ".9g") for v in side.tolist()] for side in (planted.lower, planted.upper))
        return export(planted.module, torch.zeros(1, shape.inputs)), query(shape, *sides)

    def hunt(planted: Planted, i: int) -> torch.Tensor | None:
        found = falsify(*written(planted), timeout=1e6, max_evaluations=options.evaluations, rng_seed=i)
        hunted.append(found.evaluations)
        return None if found.witness is None else _flat(found.witness)

    def climb(planted: Planted, starts: torch.Tensor, i: int) -> torch.Tensor:
        return torch.as_tensor(climbed(*written(planted), starts.numpy(), i))

    start = time.monotonic()
    planted = train(shape, rng_seed, options.rounds, options.steps, options.hunts, hunt, climb)
    name = f"{shape.name}_s{rng_seed}"
    model, text = written(planted)
    point = planted.witness.numpy().astype(np.float32)
    margin = margin_at(model, shape, point)
    figures: dict[str, Any] = {"name": name, "margin": margin, "seconds": round(time.monotonic() - start, 1)}
    figures["hunts"] = hunted
    figures["kept"] = bool(margin > 0 if shape.strict else margin >= 0)
    if figures["kept"]:
        (options.folder / "network").mkdir(parents=True, exist_ok=True)
        (options.folder / "property").mkdir(exist_ok=True)
        (options.folder / "network" / f"{name}.onnx").write_bytes(model)
        (options.folder / "property" / f"{name}.vnnlib").write_text(text)
        figures["witness"] = [float(v) for v in point]
    return figures


def main() -> None:
    """Parse the arguments, train, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where to write")
    names = [shape.name for shape in SHAPES]
    parser.add_argument("--shapes", nargs="*", default=names, choices=names, metavar="SHAPE", help=", ".join(names))
    parser.add_argument("--seeds", type=int, nargs="*", default=[0], help="rng seeds, one instance of each shape each")
    parser.add_argument("--rounds", type=int, default=20, help="rounds of attacks and training")
    parser.add_argument("--steps", type=int, default=120, help="steps of training per round")
    parser.add_argument("--hunts", type=int, default=10, help="finds of the search itself that are trained away")
    parser.add_argument("--evaluations", type=int, default=50_000, help="of each of these searches")
    options = parser.parse_args()
    made = []
    for rng_seed in options.seeds:
        for shape in SHAPES:
            if shape.name in options.shapes:
                made.append(make(shape, rng_seed, options) | {"family": shape.name})
                print(made[-1]["name"], made[-1]["margin"], made[-1]["seconds"], file=sys.stderr, flush=True)
    kept = [figures for figures in made if figures["kept"]]
    options.folder.mkdir(parents=True, exist_ok=True)
    with (options.folder / "instances.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for figures in kept:
            paths = (f"network/{figures['name']}.onnx", f"property/{figures['name']}.vnnlib")
            table.writerow([f"planted_{figures['family']}", *paths, 60, "sat", 0, "exact"])
    witnesses = {figures["name"]: figures.pop("witness") for figures in kept}
    (options.folder / "witnesses.json").write_text(json.dumps(witnesses) + "\n")
    report = {"benchmark": "planted", "units": {"seconds": "s of training"}, "left_out": len(made) - len(kept)}
    print(json.dumps(report | {"instances": made}, indent=1))


if __name__ == "__main__":
    main()
