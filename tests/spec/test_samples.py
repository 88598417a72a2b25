"""Targets made from arrays are those that the same question as text compiles to."""

from __future__ import annotations

import numpy as np
import pytest
from analytic_engine import AnalyticEngine
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from falsifier.campaign.sample_query import Declared, query_tree
from falsifier.problem import Problem
from falsifier.query import parse
from falsifier.query.write import write
from falsifier.spec import Rounding, Spec, compile_query
from falsifier.spec.samples import Comparison, Region, sample_spec

LINEAR = [[1.0, -0.5, 0.25], [0.5, 2.0, -1.0], [-1.0, 1.0, 0.5]]
FLOAT32 = np.dtype(np.float32)
COMPARISONS = {
    "another class": [Comparison(1, 0, 0.0, strict=False), Comparison(2, 0, 0.0, strict=False)],
    "a margin": [Comparison(0, 1, -0.3, strict=True), Comparison(2, 1, -0.3, strict=True)],
    "a range": [Comparison(None, 2, 0.1, strict=True), Comparison(2, None, 0.7, strict=True)],
}


def text(region: Region, comparisons: list[Comparison]) -> str:
    return write(query_tree(Declared((3,), (3,), "float32", version_2=False), region, comparisons, "samples"))


def boxes(spec: Spec) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The box over all inputs."""
    assert spec.domain is not None
    assert spec.targets is not None
    lower, upper = spec.domain.base.copy(), spec.domain.base.copy()
    lower[spec.domain.free], upper[spec.domain.free] = spec.targets.lower[0], spec.targets.upper[0]
    return lower, upper


@pytest.mark.parametrize("kind", COMPARISONS)
@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(-4, 4), min_size=3, max_size=3), st.sampled_from([0.0, 1e-9, 0.1, 1.0]), st.booleans())
def test_arrays_and_text_say_the_same(kind: str, centre: list[float], radius: float, inward: bool) -> None:
    region = Region(np.array(centre) - radius, np.array(centre) + radius)
    rounding = Rounding.INWARD if inward else Rounding.NEAREST
    comparisons = COMPARISONS[kind]
    mine = sample_spec(region, comparisons, 3, FLOAT32, rounding)
    other = compile_query(parse(text(region, comparisons)), FLOAT32, rounding)
    for a, b in zip(boxes(mine), boxes(other), strict=True):
        np.testing.assert_array_equal(a, b)
    assert mine.targets is not None
    assert other.targets is not None
    np.testing.assert_array_equal(mine.targets.exact, other.targets.exact)
    if mine.domain is None or mine.domain.f == 0:
        return
    points = np.linspace(mine.targets.lower[0], mine.targets.upper[0], 5).astype(np.float32)
    points = np.clip(points, mine.targets.lower[0], mine.targets.upper[0])
    one, two = (Problem(spec, AnalyticEngine(LINEAR, dtype=np.float32)).screen(points) for spec in (mine, other))
    np.testing.assert_array_equal(one, two)
