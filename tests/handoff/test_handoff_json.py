"""The hand-off as JSON: a golden file, the way back, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from falsifier.errors import InputError
from falsifier.falsify import Prepared
from falsifier.handoff.handoff import Handoff, NearMiss, OpenDisjunct, from_json, read
from falsifier.instance import Instance, NamedNetwork
from falsifier.testing.adapters import small_instance

GOLDEN = Path(__file__).parents[1] / "golden" / "handoff.json"
HANDOFF = Handoff(
    Instance((NamedNetwork("f", Path("/data/f.onnx")),), Path("/data/property.vnnlib"), 116.0),
    90.5,
    (OpenDisjunct(0, -0.25), OpenDisjunct(2, None)),
    (NearMiss(0, -0.25, np.array([0.5, -1.0])),),
    evaluations=12000,
    rng_seed=3,
    device="cpu",
    require="exact",
    attack="the time limit was reached",
)


def test_the_golden_file() -> None:
    assert HANDOFF.to_json() == json.loads(GOLDEN.read_text())


def test_it_reads_back(tmp_path: Path) -> None:
    HANDOFF.write(tmp_path / "handoff.json")
    again = read(tmp_path / "handoff.json")
    assert replace(again, near=()) == replace(HANDOFF, near=())
    assert [(m.disjunct, m.margin, m.point.tolist()) for m in again.near] == [(0, -0.25, [0.5, -1.0])]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "something"}, "is no hand-off"),
        ({"version": 2}, "version 2, this release reads version 1"),
        ({"near": [{"disjunct": 0, "margin": -1.0, "point": [float("inf")]}]}, "not a whole hand-off.*not finite"),
        ({"open": [{}]}, "not a whole hand-off"),
    ],
)
def test_what_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_json(HANDOFF.to_json() | change)


def test_it_carries_on_what_a_search_left(tmp_path: Path) -> None:
    """y = relu(x) on [0, 2]: y >= 3, or y <= 0.5 with x >= 1. The nearest points are at the ends."""
    instance = small_instance(tmp_path, "holds in parts")
    prepared = Prepared([(None, instance.networks[0].path)], instance.query)
    result = prepared.search(float("inf"), max_evaluations=2000)
    handoff = Handoff.of(instance, result, 5.0, device="cpu")
    assert [o.disjunct for o in handoff.open] == [0, 1]
    assert [o.margin for o in handoff.open] == pytest.approx([-1.0, -0.5])
    assert [m.disjunct for m in handoff.near] == [1, 0]
    assert [m.margin for m in handoff.near] == pytest.approx([-0.5, -1.0])
    assert [m.point.tolist() for m in handoff.near] == [[1.0], [2.0]]
    assert handoff.evaluations == result.evaluations


def test_a_lone_network_gets_the_name_that_the_query_declares(tmp_path: Path) -> None:
    instance = small_instance(tmp_path, "holds")
    instance.query.write_text(
        "(vnnlib-version <2.0>)\n(declare-network net (declare-input X real [1,1]) (declare-output Y real [1,1]))\n"
        "(assert (>= X[0,0] 0.0))\n(assert (<= X[0,0] 2.0))\n(assert (>= Y[0,0] 2.5))\n"
    )
    result = Prepared([(None, instance.networks[0].path)], instance.query).search(float("inf"), max_evaluations=100)
    assert Handoff.of(instance, result, 1.0).instance.networks[0].name == "net"
