"""How many companions there is room for, and what a user is told where there are none."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import troupe

from falsifier import Verdict, falsify, machine
from falsifier.budget import Budget
from falsifier.companions.company import Company
from falsifier.companions.room import room
from falsifier.search.run import Run

GB = 1 << 30


def run(name: str = "onnxruntime", threads: int = 1, seconds: float = 60.0) -> Run:
    """As much of a run as is looked at."""
    engine = SimpleNamespace(name=name, threads=threads)
    made: Any = SimpleNamespace(batched=SimpleNamespace(engine=engine), budget=Budget.of_seconds(seconds))
    return cast(Run, made)


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of 8 cores with 16 GB left, on which this process took 0.25."""
    monkeypatch.setattr(machine, "free_cores", lambda: 8)
    monkeypatch.setattr(machine, "memory_left", lambda: 16 * GB)
    monkeypatch.setattr(machine, "peak", lambda: GB // 4)


@pytest.mark.parametrize(("asked", "count"), [("auto", 7), (1, 0), (2, 1), (8, 7), (20, 19)])
def test_one_for_each_free_core_or_as_many_as_asked_for(asked: int | str, count: int) -> None:
    assert room(run(), asked, 0.1)[0] == count


def test_a_single_core_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "free_cores", lambda: 1)
    assert room(run(), "auto", 0.1) == (0, "1 core is free")
    assert room(run(), 3, 0.1)[0] == 2  # who asks for them gets them


@pytest.mark.parametrize(
    ("left", "took", "count"), [(2 * GB, GB // 4, 4), (GB, GB // 4, 2), (GB // 4, GB // 4, 0), (16 * GB, 3 * GB, 2)]
)
def test_together_they_take_half_of_the_memory_left(
    monkeypatch: pytest.MonkeyPatch, left: int, took: int, count: int
) -> None:
    monkeypatch.setattr(machine, "memory_left", lambda: left)
    monkeypatch.setattr(machine, "peak", lambda: took)
    for asked in ("auto", 8):
        found, why = room(run(), asked, 0.1)
        assert found == count
        assert "memory" in why


def test_where_memory_is_not_known_only_those_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory_left", lambda: None)
    assert room(run(), "auto", 0.1)[0] == 0
    assert room(run(), 4, 0.1)[0] == 3


@pytest.mark.parametrize(
    ("name", "threads"), [("onnxruntime", 8), ("torch", 1), ("single-sample", 1)], ids=lambda x: str(x)
)
def test_only_beside_an_engine_of_one_thread(name: str, threads: int) -> None:
    for asked in ("auto", 4):
        found, why = room(run(name, threads), asked, 0.1)
        assert found == 0
        assert "engine" in why


@pytest.mark.parametrize(("left", "reading", "count"), [(1.0, 0.1, 0), (3.0, 0.1, 7), (3.0, 2.0, 0), (30.0, 2.0, 7)])
def test_a_start_has_to_be_worth_it(left: float, reading: float, count: int) -> None:
    assert room(run(seconds=left), "auto", reading)[0] == count


def test_an_instance_that_is_no_files_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network, query = troupe.instance(tmp_path)
    monkeypatch.setattr(Company, "look", lambda self, run: run.close())  # the first pass is over
    for given in [(network.read_bytes(), query), (network, query.read_text())]:
        result = falsify(*given, workers=3, timeout=troupe.PATIENCE, portfolio="troupe:stages")
        assert result.verdict is Verdict.UNKNOWN
        companions = dict(result.companions or {})
        assert companions == companions | {
            "started": 0,
            "reason": "the instance is not given as files",
        }
