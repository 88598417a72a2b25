"""What a record says about its run, line by line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recorded import write_record

from falsifier.campaign.report.data import Recorded, read_record
from falsifier.campaign.report.facts import differing, facts


def recorded(folder: Path, **given: Any) -> Recorded:
    write_record(folder, [], facts={"falsifier": "1", **given})
    return read_record(folder)


def test_nested_values_have_a_line_each(tmp_path: Path) -> None:
    given = {"zebra": 1, "settings": {"device": "cpu", "cap": None}, "command": {"instances": ["a", "b"]}}
    lines = facts(recorded(tmp_path, machine={"memory": 8_000_000_000}, **given))
    assert lines[:3] == [("command instances", "a b"), ("settings device", "cpu"), ("machine memory", "8.00 GB")]
    assert ("zebra", "1") in lines


def test_a_session_says_what_it_had_otherwise_than_the_last(tmp_path: Path) -> None:
    sessions = [
        {"started": "1", "ended": None, "settings": {"device": "cuda", "rng_seed": 3}},
        {"started": "2", "ended": "3", "settings": {"device": "cpu", "rng_seed": 3}},
    ]
    lines = facts(recorded(tmp_path, settings={"device": "cpu", "rng_seed": 3}, sessions=sessions))
    assert lines[-3:] == [
        ("session 1", "1 to did not end"),
        ("session 1 settings device", "cuda"),
        ("session 2", "2 to 3"),
    ]


def test_two_runs_differ_in_what_is_not_a_date(tmp_path: Path) -> None:
    one = recorded(tmp_path / "a", settings={"device": "cpu"}, created="x", sessions=[{"started": "1"}])
    two = recorded(tmp_path / "b", settings={"device": "cuda"}, created="y", extra="z")
    assert differing(one, two) == [("settings device", "cpu", "cuda"), ("extra", "", "z")]
