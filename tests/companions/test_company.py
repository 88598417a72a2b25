"""Companions from outside: who finds, who fails, and that nobody is believed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import troupe

from falsifier import Result, StopReason, Verdict, falsify, machine
from falsifier.companions import companion, company
from falsifier.companions.invite import state_of

Play = Callable[..., Result]


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """`falsify` with companions that are actors."""
    monkeypatch.setattr(companion, "_MODULE", "actors")
    path = [str(troupe.TESTS.parent), str(troupe.TESTS / "companions")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    monkeypatch.setattr("falsifier.companions.room._WORTH", 0)
    network, query = troupe.instance(tmp_path)

    def run(act: str, **options: Any) -> Result:
        monkeypatch.setenv("ACTOR", act)
        given: dict[str, Any] = {"workers": 2, "timeout": troupe.PATIENCE, "portfolio": "troupe:stages"} | options
        return falsify(network, query, **given)

    return run


def ends_once(monkeypatch: pytest.MonkeyPatch, holds: Callable[[company.Company], bool]) -> None:
    """Let a search end once something holds of its company."""
    look = company.Company.look

    def looking(self: company.Company, run: Any) -> None:
        look(self, run)
        if holds(self):
            run.close()

    monkeypatch.setattr(company.Company, "look", looking)


def test_a_point_that_this_process_confirms_is_the_witness(play: Play) -> None:
    result = play("finds")
    assert result.verdict is Verdict.SAT
    assert result.witness is not None
    assert result.witness.inputs[0].tolist() == [0.75]
    assert result.stage == "hopping"
    assert result.companions == {"started": 1, "lost": 0, "evaluations": 7, "found": 1, "reason": ""}
    assert result.to_json()["companions"]["found"] == 1
    assert troupe.eventually(lambda: not troupe.running("actors"))


@pytest.mark.parametrize("act", ["dies", "mumbles", "lies", "exaggerates", "is not a number"])
def test_one_that_fails_is_lost_and_the_search_goes_on(play: Play, act: str, monkeypatch: pytest.MonkeyPatch) -> None:
    left = [25]  # looks after it was lost

    def over(self: company.Company) -> bool:
        left[0] -= self.account()["lost"] > 0
        return left[0] == 0

    ends_once(monkeypatch, over)
    result = play(act)
    assert result.verdict is Verdict.UNKNOWN
    assert result.companions is not None
    assert (result.companions["lost"], result.companions["found"]) == (1, None)
    assert result.rejections <= 2
    assert troupe.eventually(lambda: not troupe.running("actors"))


def test_one_with_nothing_left_to_do_is_not_lost(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    ends_once(monkeypatch, lambda self: all(one.over for one in self._companions))
    result = play("gives up")
    assert result.companions is not None
    assert (result.companions["lost"], result.companions["evaluations"]) == (0, 7)


@pytest.mark.parametrize("act", ["is silent", "breaks off"])
def test_the_end_does_not_wait_for_anybody(play: Play, act: str) -> None:
    result = play(act, timeout=4.0)
    assert result.verdict is Verdict.TIMEOUT
    assert result.reason is StopReason.DEADLINE
    assert result.companions is not None
    assert result.companions["started"] == 1
    assert troupe.eventually(lambda: not troupe.running("actors"))


def test_every_one_has_draws_of_its_own_and_one_thread(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = tmp_path / "notes"
    monkeypatch.setenv("ACTOR_NOTES", str(notes))
    ends_once(monkeypatch, lambda self: notes.exists() and notes.read_text().count("\n") == 3)
    result = play("is silent", workers=4, rng_seed=0)
    assert result.companions is not None
    assert result.companions["started"] == 3
    told = [json.loads(line) for line in notes.read_text().splitlines()]
    assert sorted(seed for seed, _, _ in told) == sorted(state_of(0, number) for number in (1, 2, 3))
    assert {portfolio for _, portfolio, _ in told} == {"troupe:stages"}
    assert {threads for _, _, threads in told} == {"1"}


def test_states_are_all_different() -> None:
    made = {state_of(rng_seed, number) for rng_seed in range(20) for number in range(1, 20)}
    assert len(made) == 20 * 19
    assert all(0 <= state < 1 << 63 for state in made)
    assert state_of(1 << 90, 1) != state_of(1 << 91, 1)


def test_when_memory_gets_short_the_last_one_ends(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    plenty = machine.memory_left()
    assert plenty is not None
    monkeypatch.setattr(company, "_MEMORY", 0.0)

    def short(self: company.Company) -> bool:
        if len(self._companions) == 2:
            monkeypatch.setattr(machine, "memory_left", lambda: machine.peak() - 1)
        return bool(self.account()["lost"] == 2)

    ends_once(monkeypatch, short)
    result = play("is silent", workers=3)
    companions = dict(result.companions or {})
    assert companions == companions | {"started": 2, "lost": 2, "reason": "memory is short"}


def test_where_no_process_can_be_started_the_search_goes_on_alone(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    result = play("finds", timeout=1.0)
    assert result.verdict is Verdict.TIMEOUT
    companions = dict(result.companions or {})
    assert companions == companions | {"started": 0, "reason": "No such file or directory"}


def test_many_that_die_at_once_are_not_followed_by_more(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(company, "_UNHEARD", 3)
    looks = [0]

    def over(self: company.Company) -> bool:
        looks[0] += self.account()["lost"] == 3
        return looks[0] == 20

    ends_once(monkeypatch, over)
    result = play("dies", workers=41)
    assert result.companions is not None
    assert result.companions["started"] == 3


def test_nobody_is_asked_for_unless_wanted(play: Play) -> None:
    result = play("finds", workers=1, timeout=0.5)
    assert result.verdict is Verdict.TIMEOUT
    assert result.companions is None
