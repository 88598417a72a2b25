"""Networks, queries and calls that the tests of further witnesses share."""

from __future__ import annotations

from typing import Any

import models
import numpy as np
from numpy.typing import NDArray

from falsifier import Refinement, Result, Verdict, falsify
from falsifier.falsify import Prepared
from falsifier.refinement import flat
from falsifier.witness.outcome import Witness

CAP = 8_000  # evaluations
Report = list[Result]


def linear(weight: Any, bias: Any = None) -> bytes:
    data: bytes = models.affine(weight, bias).SerializeToString()
    return data


def several(n: int, least: list[float]) -> str:
    """One disjunct Y_i >= least[i] for every output, on [-1, 1]^n."""
    parts = " ".join(f"(and (>= Y_{i} {value}))" for i, value in enumerate(least))
    return models.declare(n, len(least)) + models.box([-1] * n, [1] * n) + f"(assert (or {parts}))\n"


def found(network: Any, query: str, wish: Refinement, told: Report | None = None, **more: Any) -> Result:
    report = told.append if told is not None else None
    options = {"timeout": 120.0, "max_evaluations": CAP, **more}
    result = falsify(network, query, refinement=wish, report=report, **options)
    assert result.verdict is Verdict.SAT
    for one in result.witnesses:  # all of them are the door's
        assert isinstance(Prepared(network, query).door.replay(one.witness.inputs), Witness)  # type: ignore[union-attr]
    return result


def points(result: Result) -> NDArray[np.float64]:
    return np.stack([flat(one.witness).astype(np.float64) for one in result.witnesses])


def one_of(n: int, least: float) -> str:
    """Y_0 >= least on [-1, 1]^n, n outputs."""
    return models.declare(n, n) + models.box([-1] * n, [1] * n) + f"(assert (>= Y_0 {least}))\n"


def box_of(name: str, n: int) -> list[str]:
    return [f"({relation} {name}[0,{i}] {end})" for i in range(n) for relation, end in ((">=", "-1.0"), ("<=", "1.0"))]


def program(cost: Any, rows: Any, most: Any, free: Any) -> float:
    """The least cost . x with rows @ x <= most."""
    from scipy.optimize import linprog

    value: float = linprog(cost, A_ub=rows, b_ub=most, bounds=free).fun
    return value
