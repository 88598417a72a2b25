"""Starts for fuzzing from the queries of a family: the centres of their boxes."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.network import load
from falsifier.query import read
from falsifier.spec import compile_query

Array = NDArray[Any]


def centres_of(arena: Path, part: str) -> tuple[Path, dict[str, Array]]:
    """The first network whose path has `part` in it, and the distinct centres `[s, n]` of its queries by the name of
    its input; of the first eight rows of an instances.csv that have it."""
    with (arena / "instances.csv").open() as file:
        rows = [r for r in csv.DictReader(file) if part in r["network"]][:8]
    network = arena / rows[0]["network"]
    centres = []
    for row in rows:
        targets = compile_query(read(arena / row["property"])).targets if arena / row["network"] == network else None
        if targets is not None:
            lower, upper = np.asarray(targets.lower[0]), np.asarray(targets.upper[0])
            centres.append((lower.astype(np.float64) + upper) / 2)
    return network, {load(network).reference.inputs[0].name: np.unique(np.stack(centres), axis=0)}
