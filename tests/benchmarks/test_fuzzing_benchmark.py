"""The fuzzing experiments: statistics against values by hand, specifications that are what they say, a small run."""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np
import pytest
from batch_fuzzing import experiments, fuzz
from fuzzing_specifications import FAMILIES, Family, specifications
from fuzzing_statistics import compared, effect, grid, table

from falsifier.search.recipes import our_recipe, paper_recipe

pytest.importorskip("scipy", reason="the extra [experiments]")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_effects_have_the_papers_thresholds() -> None:
    assert [effect(d, 0.01) for d in (5.9, -6.0, 9.0, -13.0)] == ["equal", "small", "medium", "large"]
    assert effect(50, 0.06) == "equal"


def test_a_table_says_who_is_greater() -> None:
    samples = {"a": [10.0, 11, 12, 13, 14], "b": [100.0, 101, 102, 103, 104], "c": [10.0, 11, 12, 13, 15]}
    found = compared(samples)
    assert found[0].p == pytest.approx(2 / 252)  # the least p-value of five against five
    lines = table(samples, found).splitlines()
    assert lines[1].split() == ["a", ".", "<L", "=", "12.0"]
    assert lines[2].split()[:4] == ["b", ">L", ".", ">L"]


def test_a_grid_compares_modes_at_one_scale() -> None:
    samples = {"iso-0.1": [1.0, 2, 3, 4, 5], "iso-0.2": [9.0] * 5, "ani-0.1": [101.0, 102, 103, 104, 105]}
    found = compared(samples, lambda a, b: a[-3:] == b[-3:])
    assert [(c.a, c.b, c.effect) for c in found] == [("iso-0.1", "ani-0.1", "large")]
    lines = grid(samples, found).splitlines()
    assert lines[1].split() == ["iso", "3.0", "9.0"]
    assert lines[3].startswith("iso-0.1 < ani-0.1: large")
    assert lines[4] == "1 of 1 pairs at one s differ"


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """A list whose family is the bundled example."""
    path = tmp_path / "instances.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["family", "network", "property", "expected"])
        for name in ("violated", "robust"):
            writer.writerow(["digits", EXAMPLES / "digits.onnx", EXAMPLES / f"digits_{name}.vnnlib", "sat"])
    return path


def test_rows_are_filled_up_with_labels(digits: Path) -> None:
    given = specifications(digits, Family("digits", "digits"), 7)
    assert (given.count, given.rows) == (7, 2)
    problem = given.problem()
    centres = ((problem.targets.lower + problem.targets.upper) / 2)[problem.targets.box]
    assert (
        problem.evaluate(centres, np.arange(problem.t)).margin[given.group >= 2] < 0
    ).all()  # the label is the class
    assert given.first(3).count == 3
    assert given.one(5).problem().t == 9
    paper = fuzz(problem, given, paper_recipe(), 0, 0.3)
    ours = fuzz(problem, given, our_recipe(), 0, 0.3)
    for window in (paper, ours):
        assert window.curve[-1][1:] == (window.violations, window.falsified)
        assert window.falsified <= 7
    assert ours.violations >= ours.falsified >= 1


def test_experiments_fill_their_tables(digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAMILIES, "digits", Family("digits", "digits"))
    options = argparse.Namespace(
        instances=digits, families=["digits"], rq=[1, 2], window=0.05, sizes=[1], count=3, runs=2, device="cpu"
    )
    found = experiments(options)["families"]["digits"]
    assert set(found["rq1"]["sizes"]) == {1, 3}
    assert found["rq1"]["sizes"][1]["specifications_per_second_over_the_smallest"] == 1
    assert set(found["rq2"]["means"]) == {"ani-1", "iso-1", "ani-3", "iso-3", "ours-3"}
    assert len(found["rq2"]["violations"]) == 10
