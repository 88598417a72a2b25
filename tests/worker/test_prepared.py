"""An instance prepared and warmed is searched like any other, and nothing of its query is evaluated before that."""

from __future__ import annotations

import math
import time
from typing import Any

import models
import numpy as np
import pytest
from numpy.typing import NDArray

from falsifier.errors import EngineError, UnsupportedError
from falsifier.falsify import Prepared, falsify
from falsifier.network import Network
from falsifier.network.reference import Reference
from falsifier.network.session import Session
from falsifier.verdict import Verdict

_WEIGHT = np.random.default_rng(3).standard_normal((8, 4))
_READOUT = np.random.default_rng(4).standard_normal((3, 8))


def network() -> bytes:
    layers = [models.gemm(_WEIGHT, name="1"), ("Relu", [], {}), models.gemm(_READOUT, name="2")]
    return bytes(models.chain(layers, [1, 4], [1, 3]).SerializeToString())


def query(atom: str) -> str:
    return models.declare(4, 3) + models.box([5.0] * 4, [6.0] * 4) + f"(assert {atom})\n"


ATOMS = ["(>= Y_0 -1000)", "(>= Y_0 1000)", "(>= Y_0 Y_1)", "(and (<= Y_0 Y_1) (<= Y_0 Y_2) (>= Y_1 0.1))"]


@pytest.mark.parametrize("rng_seed", [0, 5])
@pytest.mark.parametrize("atom", ATOMS)
def test_the_search_is_the_same(atom: str, rng_seed: int) -> None:
    cold = falsify(network(), query(atom), timeout=60, max_evaluations=1500, rng_seed=rng_seed)
    prepared = Prepared(network(), query(atom))
    prepared.warm()
    warm = prepared.search(time.monotonic() + 60, max_evaluations=1500, rng_seed=rng_seed)
    told = [result.to_json() | {"seconds": None, "stages": None} for result in (cold, warm)]
    assert told[0] == told[1]
    evaluations = [{name: record["evaluations"] for name, record in r.stages.items()} for r in (cold, warm)]
    assert evaluations[0] == evaluations[1]


@pytest.mark.parametrize("atom", ATOMS)
def test_warming_evaluates_nothing_of_the_query(atom: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The query's box is [5, 6]^4: whatever runs before the search stays in the unit box."""
    seen: list[float] = []

    def noting(run: Any) -> Any:
        def wrapped(self: Any, feed: dict[str, NDArray[Any]]) -> Any:
            seen.extend(float(np.max(array)) for array in feed.values() if array.shape[-1:] == (4,))
            return run(self, feed)

        return wrapped

    monkeypatch.setattr(Reference, "_run", noting(Reference._run))
    monkeypatch.setattr(Session, "run", noting(Session.run))
    prepared = Prepared(network(), query(atom))
    prepared.warm()
    assert seen
    assert max(seen) <= math.nextafter(1, 2) + 1e-6
    seen.clear()
    prepared.search(time.monotonic() + 60, max_evaluations=200)
    assert max(seen) >= 5  # what is looked at is what runs


def test_an_empty_input_set_needs_no_engine() -> None:
    prepared = Prepared(network(), models.declare(4, 3) + models.box([2.0] * 4, [1.0] * 4) + "(assert (>= Y_0 0))\n")
    prepared.warm()
    assert prepared.search(time.monotonic() + 60).verdict is Verdict.UNSAT


@pytest.mark.parametrize("error", [UnsupportedError("too much"), EngineError("too much"), MemoryError("too much")])
def test_what_is_in_the_way_is_told_by_the_search(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Network) -> None:
        raise error

    monkeypatch.setattr(Network, "reference", property(fail))
    prepared = Prepared(network(), query(ATOMS[0]))
    prepared.warm()
    result = prepared.search(time.monotonic() + 60)
    assert result.verdict is Verdict.UNKNOWN
    assert "too much" in result.reason_text
