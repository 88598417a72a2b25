"""Points moved into what is asked of inputs alone: what comes back satisfies the query's text, in exact arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from query_trees import satisfied

from falsifier.query import parse
from falsifier.query.tree import Query
from falsifier.spec import Spec, compile_query
from falsifier.spec.projection import Region, region_of

LANES = 40
SQUARES = "(+ " + " ".join(f"(* X[{i}] X[{i}])" for i in range(6)) + ")"
ORDERED = " ".join(f"(assert (<= X[{i}] X[{i + 1}]))" for i in range(5))
SUM = "(+ " + " ".join(f"X[{i}]" for i in range(6)) + ")"
THREE = "(+ X[0] X[1] X[2])"
REGIONS = {
    "slab": f"(assert (and (>= {SUM} 0.5) (<= {SUM} 0.50001)))",
    "strict": f"(assert (and (> {SUM} 0.5) (< {SUM} 0.50001)))",
    "ordering": ORDERED,
    "ordering on a slab": f"{ORDERED} (assert (and (>= {SUM} 0.5) (<= {SUM} 0.50001)))",
    "a corner": f"(assert (>= {SUM} 5.9999))",
    "three that meet near a point": f"(assert (and (>= {SUM} 0.3) (<= {THREE} 0.1) (<= (+ X[3] X[4] X[5]) 0.201)))",
    "tied": f"(assert (== X[5] (+ X[4] 0.25))) (assert (and (>= {SUM} 0.5) (<= {SUM} 0.50001)))",
    "ball": f"(assert (<= {SQUARES} 0.04))",
    "shell": f"(assert (and (<= {SQUARES} 0.25) (>= {SQUARES} 0.2499)))",
    "product": "(assert (and (>= (* X[0] X[1]) 0.25) (<= (* X[0] X[1]) 0.2501)))",
    "curve and plane": f"(assert (<= {SQUARES} 0.3)) (assert (and (>= {SUM} 0.5) (<= {SUM} 0.5001)))",
}


def text_of(assertions: str, n: int = 6, kind: str = "float32", low: str = "-1.0", high: str = "1.0") -> Query:
    return parse(
        f"(vnnlib-version <2.0>) (declare-network N (declare-input X {kind} [{n}]) (declare-output Y real [1]))"
        + "".join(f"(assert (and (>= X[{i}] {low}) (<= X[{i}] {high})))" for i in range(n))
        + assertions
    )


def region(spec: Spec) -> Region:
    found = region_of(spec)
    assert found is not None
    return found


def drawn(spec: Spec, target: NDArray[np.int64], seed: int = 0) -> NDArray[Any]:
    """Uniform points and corners of the targets' boxes."""
    assert spec.targets is not None
    rows = target if len(spec.targets.lower) > 1 else np.zeros_like(target)
    lower, upper = spec.targets.lower[rows], spec.targets.upper[rows]
    rng = np.random.default_rng(seed)
    unit = np.where(rng.random((len(rows), 1)) < 0.5, rng.random(lower.shape), rng.integers(0, 2, lower.shape))
    return np.asarray(np.clip((lower + unit * (upper - lower)).astype(spec.dtype), lower, upper))


def share_inside(query: Query, spec: Spec, points: NDArray[Any]) -> float:
    """Of points, those that satisfy a query of inputs alone."""
    assert spec.domain is not None
    full = spec.domain.embed(points)
    return float(np.mean([satisfied(query, [*map(float, x), 0.0]) for x in full]))


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("name", REGIONS)
def test_points_end_inside(name: str, kind: str) -> None:
    query = text_of(REGIONS[name], kind=kind)
    spec = compile_query(query, np.dtype(kind))
    target = np.zeros(LANES, np.int64)
    points = drawn(spec, target)
    moved = region(spec).settled(points, target)
    assert share_inside(query, spec, moved) == 1.0
    assert spec.targets is not None
    assert (moved >= spec.targets.lower).all()
    assert (moved <= spec.targets.upper).all()
    np.testing.assert_array_equal(region(spec).settled(moved, target), moved)
    if share_inside(query, spec, points) < 1:
        assert len(np.unique(moved, axis=0)) > LANES / 4  # they did not gather in one place


def test_every_target_has_a_region_of_its_own() -> None:
    parts = [f"(and (>= {SUM} {c}) (<= {SUM} {c + 0.001}) (>= Y[0] {c}))" for c in (-2.0, 0.5, 3.0)]
    spec = compile_query(text_of(f"(assert (or {' '.join(parts)}))"), np.float32)
    target = np.arange(LANES) % 3
    moved = region(spec).settled(drawn(spec, target), target)
    total = moved.astype(np.float64).sum(axis=1)
    low = np.array([-2.0, 0.5, 3.0])[target]
    assert (total >= low).all()
    assert (total <= low + 0.001).all()


def test_integers_stay_integers() -> None:
    total = "(+ (* 3 X[0]) (* 5 X[1]) (* -4 X[2]) (* 7 X[3]))"
    query = text_of(f"(assert (and (>= {total} 20) (<= {total} 21)))", 4, "int64", "0", "9")
    spec = compile_query(query, np.float32, types=[np.dtype(np.int64)])
    target = np.zeros(LANES, np.int64)
    moved = region(spec).settled(drawn(spec, target), target)
    assert (moved == np.round(moved)).all()
    assert share_inside(query, spec, moved) == 1.0


def test_other_inputs_are_not_touched() -> None:
    spec = compile_query(text_of("(assert (<= (+ X[1] X[2]) -1.5))"), np.float32)
    target = np.zeros(LANES, np.int64)
    points = drawn(spec, target)
    moved = region(spec).settled(points, target)
    np.testing.assert_array_equal(np.delete(moved, [1, 2], axis=1), np.delete(points, [1, 2], axis=1))
    assert (moved[:, 1] + moved[:, 2] <= -1.5).all()


def test_there_is_none_where_boxes_are_all_there_is() -> None:
    assert region_of(compile_query(text_of("(assert (>= Y[0] 0.5))"), np.float32)) is None
    assert region_of(compile_query(text_of("(assert (<= X[0] 0.5))"), np.float32)) is None


def test_slopes_lose_what_leads_out() -> None:
    spec = compile_query(text_of(REGIONS["slab"]), np.float32)
    target = np.zeros(LANES, np.int64)
    inside = region(spec).settled(drawn(spec, target), target)
    slope = np.random.default_rng(1).normal(size=inside.shape).astype(np.float32)
    along = region(spec).along(inside, slope, target)
    strays = np.abs(along.sum(axis=1)) / np.abs(along).sum(axis=1)
    assert np.median(np.abs(slope.sum(axis=1)) / np.abs(slope).sum(axis=1)) > 0.1
    assert strays.max() < 1e-2
    assert (np.vecdot(along, slope) > 0).all()


def test_centres_lie_inside() -> None:
    for name in REGIONS:
        query = text_of(REGIONS[name])
        spec = compile_query(query, np.float32)
        found = region(spec)
        (centre,) = found.centres(np.zeros(1, np.int64))
        assert np.isfinite(centre).all(), name
        assert (found.lack(centre[None], np.zeros(1, np.int64)) == 0).all(), name
