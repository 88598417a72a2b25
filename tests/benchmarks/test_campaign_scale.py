"""The script that measures one campaign run in several ways, on generated rows: no arena is needed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import campaign_scale


def test_rows_are_taken_from_every_family_in_turn() -> None:
    rows = [
        {"family": name, "property": f"{name}{i}"}
        for name, count in [("a", 5), ("b", 1), ("c", 3)]
        for i in range(count)
    ]
    taken = [row["property"] for row in campaign_scale.in_turn(rows, 5)]
    assert taken == ["a0", "a1", "b0", "c0", "c1"]
    assert len(campaign_scale.in_turn(rows, 100)) == 9


def test_a_killed_campaign_is_resumed_and_judged(tmp_path: Path) -> None:
    words = ["--arms", "2", "--rows", "4", "--timeout", "60", "--max-evaluations", "1000", "--kill", "1"]
    options = campaign_scale.parse([*words, "--arena", str(tmp_path / "none")])
    work = tmp_path / "work"
    work.mkdir()
    report = campaign_scale.measure(options, work)
    verdicts = report["undisturbed"]["verdicts"]
    assert sum(verdicts.values()) == 4
    assert set(verdicts) <= {"sat", "unknown"}
    assert len(report["killed"]["kills"]) <= 1
    assert report["compared"]["without an answer"] == report["compared"]["contradictions"] == []
    for judged in report["judged"].values():
        assert judged["refused"] == []
        assert Counter(judged["classes"]).total() >= 1
    assert not campaign_scale.failed(report)
