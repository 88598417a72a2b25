"""NaN, infinities and failures in less than 10^-9 of the box are found within a counted number of evaluations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fuzz_networks
import models
import numpy as np
import pytest
from numpy.typing import NDArray

from falsifier.arrays import Rng
from falsifier.fuzz.build import build
from falsifier.fuzz.run import run
from falsifier.fuzz.settings import Settings

Array = NDArray[Any]


def evaluations_to_find(kind: str, rng_seed: int, most: int) -> int:
    """Evaluations until the NaN (or the failure) of a generated network was confirmed; `most` if it was not."""
    faulty = fuzz_networks.faulty(kind, rng_seed)
    fuzzer = build(Settings(faulty.model, ranges=faulty.ranges, lanes=256))
    found: list[int] = []

    def on_hit(point: Array, oldest: int) -> bool:
        finding = fuzzer.objective.confirm(point, oldest)
        if finding is not None and finding.details["kind"] in ("nan", "error"):
            found.append(loop.progress.evaluations)
        return finding is not None

    if fuzzer.objective.confirm(fuzzer.space.starts[0], 0) is not None:
        return 1  # at the centre
    loop = fuzzer.loop(on_hit)
    while not found and loop.progress.evaluations < most:
        loop.step()
    return found[0] if found else most


@pytest.mark.parametrize("kind", sorted(fuzz_networks.KINDS))
def test_rare_faults_are_found(kind: str) -> None:
    assert evaluations_to_find(kind, 0, 150_000) < 150_000


@pytest.mark.parametrize("kind", ["vanishing_probability", "ratio_at_a_point", "half_precision", "integer_division"])
def test_chance_alone_does_not_find_them(kind: str) -> None:
    """So that the test above says something."""
    faulty = fuzz_networks.faulty(kind, 0)
    fuzzer = build(Settings(faulty.model, ranges=faulty.ranges))
    for turn in range(4):
        assert not fuzzer.run(fuzzer.space.uniform(Rng(turn), 10_000)).broken.any()


def test_a_session_goes_on_to_other_causes(tmp_path: Path) -> None:
    """An infinity that is everywhere does not hide the NaN that is rare."""
    c = models.constant
    model = models.chain(
        [("Reciprocal", [], {}), ("Mul", [c("zero", [0.0])], {}), ("Add", [c("one", [1.0])], {})], [1, 1], [1, 1]
    )
    report = run(build(Settings(model, max_evaluations=20_000, seconds=1e9, out=tmp_path / "s", lanes=256)))
    assert {h.finding.details["kind"] for h in report.hits.values()} == {"nan"}  # 1 / 0 is inf, 0 * inf is NaN
    (hit,) = report.hits.values()
    assert hit.finding.details["tensor"] == "t1"
    assert ["t0", "inf"] in hit.finding.details["broken_tensors"]
    assert np.all(hit.point == 0)
