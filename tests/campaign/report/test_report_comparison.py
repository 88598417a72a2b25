"""Two campaigns: gained, lost, contradicting, faster."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded import Attempt, Instance, write_record

from falsifier.campaign.report.comparison import Comparison, compare
from falsifier.campaign.report.data import read_record

pytest.importorskip("scipy", reason="the extra [report]")


def compared(folder: Path, here: list[Instance], there: list[Instance]) -> Comparison:
    write_record(folder / "here", here)
    write_record(folder / "there", there)
    return compare(read_record(folder / "here"), read_record(folder / "there"))


def answer(name: str, verdict: str, seconds: float = 1.0, family: str = "f") -> Instance:
    return Instance(family, vnnlib=name, attempts=[Attempt(verdict, seconds=seconds, prepare=0.0)])


def test_what_one_decides_alone_and_where_they_contradict(tmp_path: Path) -> None:
    here = [answer("a", "sat"), answer("b", "timeout"), answer("c", "sat"), answer("d", "unknown"), answer("e", "sat")]
    there = [
        answer("c", "unsat"),
        answer("b", "unsat"),
        answer("a", "error"),
        answer("d", "timeout"),
        answer("x", "sat"),
    ]
    found = compared(tmp_path, here, there)
    assert [pair.this.vnnlib for pair in found.gained] == ["a"]
    assert [pair.this.vnnlib for pair in found.lost] == ["b"]
    assert [(pair.this.verdict, pair.other.verdict) for pair in found.contradictions] == [("sat", "unsat")]
    assert (len(found.pairs), found.only_here, found.only_there) == (4, 1, 1)
    assert found.both == []
    assert found.together is None


def test_speed_is_compared_pair_by_pair_and_family_by_family(tmp_path: Path) -> None:
    quick = [answer(f"q{i}", "sat", 1.0 + i / 100, "quick") for i in range(8)]
    same = [answer(f"s{i}", "sat", 1.0 + i, "same") for i in range(8)]
    slower = [answer(f"q{i}", "sat", 4.0 + i / 25, "quick") for i in range(8)]
    alone = answer("one", "sat", 2.0, "alone")
    found = compared(tmp_path, [*quick, *same, alone], [*slower, *same, alone])
    one, first, second = found.speeds
    assert (one.family, one.pairs, one.p, one.d, one.significant) == ("alone", 1, None, None, False)
    assert first.mean == pytest.approx(4.0)
    assert first.middle == pytest.approx(4.0)
    assert first.significant
    assert first.p == pytest.approx(2 * 2 / 12870)  # all of eight beyond all of eight; the lesser of two p-values
    assert first.d is not None
    assert first.d > 10
    assert (second.mean, second.significant, second.d) == (1.0, False, 0.0)
    assert found.together is not None
    assert found.together.mean == pytest.approx(4 ** (8 / 17))
