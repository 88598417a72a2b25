"""Totals, families, open instances, progress over sessions."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded import Attempt, Instance, write_record

from falsifier.campaign.report.data import Sample, read_record
from falsifier.campaign.report.summary import continued, families, nearest_open, solved_seconds, totals


def test_totals_and_families(tmp_path: Path) -> None:
    instances = [
        Instance("b", vnnlib="1", attempts=[Attempt(seconds=1.5, prepare=0.5, evaluations=10, witness="w")]),
        Instance("b", vnnlib="2", attempts=[Attempt(seconds=4.0, prepare=0.0, evaluations=30, witness="w")]),
        Instance("b", vnnlib="3", attempts=[Attempt("timeout", seconds=60.0, prepare=0.0)]),
        Instance("a", vnnlib="4", attempts=[]),
        Instance("a", vnnlib="5", attempts=[Attempt(None)]),
    ]
    write_record(tmp_path, instances)
    recorded = read_record(tmp_path)
    whole = totals(recorded)
    assert (whole.instances, whole.verdicts["sat"], whole.verdicts["timeout"], whole.waiting) == (5, 2, 1, 2)
    assert (whole.clock, whole.evaluations, whole.classes["exact"], whole.attempts) == (66.0, 50, 2, 4)
    first, second = families(recorded.rows)
    assert (first.name, first.count, first.median, first.median_evaluations) == ("a", 2, None, None)
    assert (second.name, second.median, second.most, second.clock) == ("b", 3.0, 4.0, 66.0)
    assert (second.median_evaluations, second.evaluations) == (20, 50)
    assert [seconds for seconds, _ in solved_seconds(recorded.rows)] == [2.0, 4.0]


def test_the_nearest_open_instance_comes_first_and_so_do_its_disjuncts(tmp_path: Path) -> None:
    instances = [
        Instance(vnnlib="far", attempts=[Attempt("timeout", margins=(-3.0, -2.0, -5.0, -4.0), disjuncts=(0, 1, 2, 3))]),
        Instance(vnnlib="near", attempts=[Attempt("unknown", margins=(-9.0, -0.5), disjuncts=(2, 8))]),
        Instance(vnnlib="no margins", attempts=[Attempt("unknown")]),
        Instance(vnnlib="decided", attempts=[Attempt("sat", margins=(-0.1,), disjuncts=(1,))]),
    ]
    write_record(tmp_path, instances)
    near, far = nearest_open(read_record(tmp_path).rows)
    assert (near.row.vnnlib, near.nearest, near.disjuncts, near.count) == ("near", -0.5, ((8, -0.5), (2, -9.0)), 2)
    assert (far.row.vnnlib, far.disjuncts, far.count) == ("far", ((1, -2.0), (0, -3.0), (3, -4.0)), 4)


def test_sessions_follow_one_another() -> None:
    samples = [Sample(1, 0, 1, 10, None), Sample(3, 0, 2, 40, 0.5), Sample(1, 1, 2, 5, None)]
    assert [(s.time, s.evaluations) for s in continued(samples)] == [(1, 10), (3, 40), (4, pytest.approx(45))]
    shards = [Sample(1, 0, 3, 10, None), Sample(1, 1, 0, 1, None), Sample(2, 1, 2, 4, None)]
    assert [s.falsified for s in continued(shards)] == [3, 3, 5]
